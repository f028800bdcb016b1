"""The clients of Cloud Batch and Cloud Storage, and their errors as ours."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from functools import cached_property
from os import SEEK_END
from os.path import commonprefix
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import google.auth
from google.api_core import exceptions, operation  # noqa: F401  (``operation`` for its types)
from google.api_core.client_options import ClientOptions
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud import batch_v1, storage  # type: ignore[attr-defined]

from pytest_aecbench.backends.gcp.options import project_of
from pytest_aecbench.backends.remote.calls import Busy, retry
from pytest_aecbench.backends.shared.archives import FULL
from pytest_aecbench.errors import BackendError, SettingsError, TransferError
from pytest_aecbench.text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Bucket", "Cloud", "NotThere", "translated"]

_CALL_SEC = 60.0
_END_SEC = 30.0  # how long a run that ends waits for a service that does not answer
_LOOK_SEC = 0.2
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_CONSOLE = "https://console.cloud.google.com"
_PAGE = 1000
_MOST_REMOVED = 100
# Objects that a run could not remove are removed by the bucket itself after so many days.
_KEPT_DAYS = 14
_APIS = "gcloud services enable batch.googleapis.com compute.googleapis.com storage.googleapis.com"


class NotThere(BackendError):  # noqa: N818  (a state)
    """There is no such job, bucket or object."""


class Cloud:
    """The two services as one project's owner sees them; its methods may be called in threads."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._lock = threading.Lock()

    @cached_property
    def project(self) -> str:
        """The project that jobs belong to."""
        return project_of(self._options)

    @cached_property
    def credentials(self) -> Any:
        """The credentials of this machine's user or service account."""
        with translated("the credentials"):
            found, _ = google.auth.default(scopes=[_SCOPE], quota_project_id=None)
            return found

    @property
    def parent(self) -> str:
        """The place that jobs belong to."""
        return f"projects/{self.project}/locations/{self._options['region']}"

    @cached_property
    def _batch(self) -> Any:
        endpoint = self._options.get("endpoint")
        return batch_v1.BatchServiceClient(
            credentials=self.credentials,
            transport="rest",
            client_options=ClientOptions(api_endpoint=endpoint) if endpoint else None,
        )

    @cached_property
    def _storage(self) -> Any:
        return storage.Client(project=self.project, credentials=self.credentials)

    def job_link(self, job_id: str) -> str:
        """Return the page of a job in Google's console, which is there as long as the job."""
        region = self._options["region"]
        return f"{_CONSOLE}/batch/jobsDetail/regions/{region}/jobs/{job_id}/details?{self._query}"

    def jobs_link(self) -> str:
        """Return the page of all jobs in Google's console."""
        return f"{_CONSOLE}/batch/jobs?{self._query}"

    def log_link(self, uid: str) -> str:
        """Return the page of what a job's machines said, which outlives the job."""
        return f"{_CONSOLE}/logs/query;query=labels.job_uid%3D%22{uid}%22?{self._query}"

    @property
    def _query(self) -> str:
        return f"project={self.project}"

    # Jobs

    def create_job(self, job_id: str, job: batch_v1.Job, request_id: str) -> None:
        """Create a job; a repetition with the same ``request_id`` creates no second one."""
        request = batch_v1.CreateJobRequest(
            parent=self.parent, job_id=job_id, job=job, request_id=request_id
        )

        def create() -> None:
            with translated("creating a job"):
                self._batch.create_job(request, retry=None, timeout=_CALL_SEC)

        retry(create, on_lost=True)

    def get_job(
        self, job_id: str, *, timeout_sec: float = _CALL_SEC, patience_sec: float | None = None
    ) -> batch_v1.Job:
        """Return a job as it is now."""

        def get() -> batch_v1.Job:
            with translated("looking at a job"):
                name = f"{self.parent}/jobs/{job_id}"
                found: batch_v1.Job = self._batch.get_job(
                    name=name, retry=None, timeout=timeout_sec
                )
                return found

        return retry(get, patience_sec=patience_sec)

    def tasks(self, job_id: str) -> list[batch_v1.Task]:
        """Return all tasks of a job, in as few calls as there are pages."""
        parent = f"{self.parent}/jobs/{job_id}/taskGroups/group0"
        request = batch_v1.ListTasksRequest(parent=parent, page_size=_PAGE)

        def pages() -> list[batch_v1.Task]:
            with translated("listing the tasks of a job"):
                return list(self._batch.list_tasks(request, retry=None, timeout=_CALL_SEC))

        return retry(pages)

    def delete_job(self, job_id: str, *, waits: bool = True) -> None:
        """Cancel and delete a job; do nothing if it is gone.

        It is waited for, but not for long, because tasks that are stopped may still write objects.
        """
        deadline = time.monotonic() + _END_SEC

        def delete() -> None:
            with translated("deleting a job"):
                name = f"{self.parent}/jobs/{job_id}"
                self._batch.delete_job(name=name, retry=None, timeout=_END_SEC)

        try:
            retry(delete, on_lost=True, patience_sec=_END_SEC)
            while waits and (left := deadline - time.monotonic()) > 0:
                self.get_job(job_id, timeout_sec=left, patience_sec=left)
                time.sleep(_LOOK_SEC)
        except NotThere:
            return

    def jobs(self, filter_: str) -> list[batch_v1.Job]:
        """Return the jobs of this place that fit a filter."""
        request = batch_v1.ListJobsRequest(parent=self.parent, filter=filter_, page_size=_PAGE)

        def pages() -> list[batch_v1.Job]:
            with translated("listing jobs"):
                return list(self._batch.list_jobs(request, retry=None, timeout=_CALL_SEC))

        return retry(pages)

    # Objects

    @cached_property
    def bucket(self) -> Bucket:
        """The bucket that trials' files go through, which is made if it does not exist."""
        with self._lock:
            return self.find_bucket() or self._make_bucket()

    @property
    def _bucket_name(self) -> str:
        return self._options.get("bucket") or f"{self.project}-aecbench"

    def find_bucket(self) -> Bucket | None:
        """Return the bucket, if it exists."""

        def find() -> Any:
            with translated(f"bucket {self._bucket_name}"):
                return self._storage.lookup_bucket(self._bucket_name, retry=None)

        found = retry(find)
        return Bucket(found) if found is not None else None

    def _make_bucket(self) -> Bucket:
        def make() -> Any:
            with translated(f"bucket {self._bucket_name}"):
                made = self._storage.bucket(self._bucket_name)
                made.add_lifecycle_delete_rule(age=_KEPT_DAYS)
                made.iam_configuration.uniform_bucket_level_access_enabled = True
                made.create(location=self._options["region"], retry=None)
                return made

        return Bucket(retry(make))


class Bucket:
    """A bucket of Cloud Storage."""

    def __init__(self, bucket: Any) -> None:
        self._bucket = bucket
        self.name: str = bucket.name

    @property
    def kept_days(self) -> int | None:
        """The days for which the bucket keeps objects at least, if it removes some."""
        rules = [dict(rule) for rule in self._bucket.lifecycle_rules]
        ages = [
            rule["condition"].get("age") for rule in rules if rule["action"]["type"] == "Delete"
        ]
        return min((int(age) for age in ages if age is not None), default=None)

    def write(self, name: str, file: Any) -> None:
        """Write an object from a file."""

        def upload() -> None:
            size = file.seek(0, SEEK_END)  # without it, each upload is two calls
            with translated("an upload"):
                blob = self._bucket.blob(name)
                blob.upload_from_file(file, rewind=True, size=size, retry=None, timeout=_CALL_SEC)

        retry(upload, on_lost=True)

    def read(self, name: str, file: IO[bytes], *, most: int) -> None:
        """Write an object's content to a file.

        Raises:
            BackendError: it has over ``most`` bytes, no more of which are on this machine then.

        """

        def download() -> None:
            file.seek(0)
            file.truncate()
            target = _Capped(file, most, f"gcp: {name}: it has over {most} bytes")
            with translated("a download"):
                self._bucket.blob(name).download_to_file(target, retry=None, timeout=_CALL_SEC)

        retry(download, on_lost=True)

    def names(self, prefix: str, *, patience_sec: float | None = None) -> list[str]:
        """Return the names of the objects that begin with ``prefix``."""

        def pages() -> list[str]:
            with translated("listing objects"):
                found = self._bucket.client.list_blobs(
                    self._bucket,
                    prefix=prefix,
                    page_size=_PAGE,
                    retry=None,
                    timeout=min(patience_sec or _CALL_SEC, _CALL_SEC),
                )
                return [blob.name for blob in found]

        return retry(pages, patience_sec=patience_sec)

    def clear(self, prefix: str) -> None:
        """Remove the objects that begin with ``prefix``, at the end of what they were for."""
        self.remove(self.names(prefix, patience_sec=_END_SEC))

    def remove(self, names: list[str]) -> None:
        """Remove objects, a hundred with each call; raise BackendError if some stay."""

        def remove(some: list[str]) -> None:
            # The answers for single objects are not looked at, because some may be gone already.
            with (
                translated("removing objects"),
                self._bucket.client.batch(raise_exception=False),
            ):
                for name in some:
                    self._bucket.blob(name).delete(retry=None, timeout=_END_SEC)

        def remove_all() -> None:
            nonlocal names
            for start in range(0, len(names), _MOST_REMOVED):
                remove(names[start : start + _MOST_REMOVED])
            below = commonprefix(names)  # noqa: RUF071  (of characters)
            left = set(self.names(below, patience_sec=_END_SEC))
            names = [name for name in names if name in left]
            if names:
                raise Busy(f"gcp: removing objects: {counted(len(names), 'object')} stayed")

        if names:
            retry(remove_all, patience_sec=_END_SEC)


class _Capped:
    """A file that an object is written to, with the methods that the client needs of it."""

    def __init__(self, file: IO[bytes], most: int, refusal: str) -> None:
        self._file = file
        self._most = most
        self._refusal = refusal
        self.seek = file.seek

    def write(self, data: bytes) -> int:
        """Write the next bytes; raise BackendError if they are too many."""
        if self._file.tell() + len(data) > self._most:
            raise BackendError(self._refusal)
        return self._file.write(data)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise the errors of Google's clients as ours, each with what to do about it."""
    try:
        yield
    except DefaultCredentialsError:
        raise SettingsError(
            "gcp: no credentials; run 'gcloud auth application-default login', or set "
            "GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key"
        ) from None
    except GoogleAuthError as error:
        if getattr(error, "retryable", False):
            raise Busy(f"gcp: {what}: {one_line(error)}") from None
        raise SettingsError(
            f"gcp: the credentials are refused; {one_line(error)}; run 'gcloud auth "
            "application-default login' again"
        ) from None
    except KeyError as error:
        # For each call, requests looks for proxies in the environment, from which pytest removes
        # this variable meanwhile, in another thread. Nothing has been sent by then.
        if error.args != ("PYTEST_CURRENT_TEST",):
            raise
        raise Busy(f"gcp: {what}: the environment has changed") from None
    except exceptions.Unauthorized as error:
        raise SettingsError(
            f"gcp: {what}: the credentials are refused; {_said(error)}; run 'gcloud auth "
            "application-default login' again"
        ) from None
    except exceptions.Forbidden as error:
        raise _forbidden(what, error) from None
    except exceptions.NotFound as error:
        raise NotThere(f"gcp: {what}: {_said(error)}") from None
    except exceptions.Conflict as error:
        if what.startswith("bucket "):
            raise SettingsError(
                f"gcp: {what}: the name is taken by another project; set compute.gcp.bucket"
            ) from None
        raise BackendError(f"gcp: {what}: {_said(error)}") from None
    except (exceptions.TooManyRequests, exceptions.ServerError) as error:
        raise Busy(f"gcp: {what}: {_said(error)}") from None
    except OSError as error:
        if error.errno in FULL:  # of a file on this machine
            raise TransferError(f"gcp: {what}: {error.strerror}") from None
        raise Busy(f"gcp: {what}: {one_line(error)}") from None
    except exceptions.RetryError as error:
        raise Busy(f"gcp: {what}: {one_line(error)}") from None
    except exceptions.BadRequest as error:
        raise SettingsError(f"gcp: {what}: refused; {_said(error)}") from None
    except exceptions.GoogleAPICallError as error:
        raise BackendError(f"gcp: {what}: {_said(error)}") from None


def _forbidden(what: str, error: Any) -> BackendError | SettingsError:
    said, reason = _said(error), getattr(error, "reason", None) or ""
    if reason == "SERVICE_DISABLED" or "has not been used in project" in said:
        return SettingsError(f"gcp: {what}: an API is not enabled; run '{_APIS}'")
    if reason in ("RATE_LIMIT_EXCEEDED", "rateLimitExceeded"):
        return Busy(f"gcp: {what}: {said}")
    if "billing" in said.lower():
        return SettingsError(f"gcp: {what}: the project has no billing; {said}")
    return SettingsError(
        f"gcp: {what}: not allowed; {said}; give your account the roles batch.jobsEditor, "
        "storage.admin and iam.serviceAccountUser"
    )


def _said(error: Any) -> str:
    said = " ".join(str(getattr(error, "message", "") or error).split())
    return re.sub(r"^[A-Z]+ https?://\S+: ", "", said)


def is_loopback(url: str) -> bool:
    """Return whether an address is one of this machine, where nothing is encrypted."""
    host = urlsplit(url if "//" in url else f"//{url}").hostname
    return host in ("127.0.0.1", "::1", "localhost")
