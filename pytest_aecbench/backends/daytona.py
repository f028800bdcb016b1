"""The backend ``daytona``: run trials in sandboxes of Daytona."""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import IO, TYPE_CHECKING, Any, cast

import daytona
import httpx
from daytona import (
    CreateSandboxFromSnapshotParams,
    CreateSnapshotParams,
    DaytonaAuthenticationError,
    DaytonaError,
    DaytonaForbiddenError,
    DaytonaNotFoundError,
    DaytonaRateLimitError,
    Image,
    ListSandboxesQuery,
    Resources,
)

from pytest_aecbench.backends.remote import RemoteBackend, Rented
from pytest_aecbench.backends.remote.build import BuildLog, built_once
from pytest_aecbench.backends.remote.calls import Busy, Full, Lost, bounded, says_full
from pytest_aecbench.backends.remote.options import read_options
from pytest_aecbench.backends.shared.launch import missing_image
from pytest_aecbench.backends.shared.sandboxes import Sandboxes
from pytest_aecbench.errors import BackendError, SandboxGone, SettingsError
from pytest_aecbench.host.owner import PID_LABEL
from pytest_aecbench.tasks.digest import context_digest
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_aecbench.backends import Limits
    from pytest_aecbench.backends.remote import Environment

__all__ = ["DaytonaBackend", "DaytonaVendor"]

OPTIONS = {"api_key": str, "api_url": str, "target": str}
_API_URL = "https://app.daytona.io/api"
_CALL_SEC = 60.0
_START_SEC = 300.0
_TRANSFER_SEC = 1800
_MB_PER_GB = 1024
_GONE_STATES = ("destroyed", "destroying", "error", "stopped", "stopping", "archived")
# Refused before the call had any effect; other errors of a gateway may come after it.
_BUSY = (429, 503)


class DaytonaVendor:
    """Daytona's SDK; ``options`` are those of ``compute.daytona``, before its own variables."""

    name = "daytona"
    concurrency = 10
    has_own_disk = True

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._options = read_options(self.name, options or {}, OPTIONS)
        self._sandboxes: Sandboxes[Any] = Sandboxes(self.name)

    @cached_property
    def _client(self) -> daytona.Daytona:
        if not (self._options.get("api_key") or os.environ.get("DAYTONA_API_KEY")):
            raise SettingsError(
                "DAYTONA_API_KEY is not set; "
                "create a key at https://app.daytona.io/dashboard/keys and export it"
            )
        if not self._options:
            return daytona.Daytona()
        # Without this value, the SDK warns about an older name for it.
        url = os.environ.get("DAYTONA_API_URL", _API_URL)
        return daytona.Daytona(daytona.DaytonaConfig(**{"api_url": url, **self._options}))

    def check(self) -> str:
        """Check the account by asking for one of its sandboxes; return the SDK's version."""
        client = self._client
        with _translated("the account"):
            for _ in client.list(ListSandboxesQuery(limit=1), request_timeout=_CALL_SEC):
                break
        return f"daytona (SDK {version('daytona')})"

    def refusal(self, limits: Limits) -> str | None:
        """Return an error for GPUs; Daytona accepts any lifetime."""
        return "daytona has no GPUs here; use docker or modal" if limits.gpus else None

    def unenforced(self) -> tuple[str, ...]:
        """Return nothing, because Daytona enforces every limit of a task."""
        return ()

    def build(self, environment: Environment) -> str:
        """Build a snapshot with the task's resources, named after its content."""
        resources = Resources(
            cpu=_up(environment.cpus),
            memory=_up(environment.memory_mb, _MB_PER_GB),
            disk=_up(environment.storage_mb, _MB_PER_GB),
        )
        source = environment.docker_image or context_digest(environment.context)
        digest = sha256(f"{source}\0{resources}\0{environment.workdir}".encode()).hexdigest()
        name = f"aecbench-{digest[:20]}"

        def exists() -> bool:
            with _translated(f"looking for the snapshot {name}"):
                try:
                    return str(self._client.snapshot.get(name).state) in (
                        "active",
                        "SnapshotState.ACTIVE",
                    )
                except DaytonaNotFoundError:
                    return False

        def build(log: BuildLog) -> None:
            image = (
                Image.base(environment.docker_image)
                if environment.docker_image
                else Image.from_dockerfile(environment.context / "Dockerfile", strict_context=True)
            )
            # The image's own entry point may end at once, and its user may not be root.
            image = image.dockerfile_commands(["USER root"]).entrypoint(["sleep", "infinity"])
            try:
                with _translated(f"building {name}"):
                    self._client.snapshot.create(
                        CreateSnapshotParams(name=name, image=image, resources=resources),
                        on_logs=log.add,
                    )
            except BackendError as error:
                if isinstance(error, (Busy, Lost)):
                    raise
                raise log.failed(str(error)) from None

        return built_once(self.name, name, environment, exists, build)

    def create(
        self, image_ref: str, limits: Limits, labels: Mapping[str, str], lifetime_sec: int
    ) -> str:
        """Start a sandbox of a snapshot."""
        params = CreateSandboxFromSnapshotParams(
            snapshot=image_ref,
            labels=dict(labels),
            os_user="root",
            network_block_all=not limits.network,
            # It must not stop while an agent thinks, and must end even if this process dies.
            auto_stop_interval=0,
            auto_delete_interval=0,
            ttl_minutes=math.ceil(lifetime_sec / 60),
        )
        with _translated(f"starting {image_ref}"):
            try:
                sandbox = self._client.create(params, timeout=_START_SEC)
            except DaytonaNotFoundError:
                raise missing_image(self.name, image_ref, "snapshot") from None
        self._sandboxes[sandbox.id] = sandbox
        return str(sandbox.id)

    def run(self, sandbox_id: str, command: str, timeout_sec: float) -> str:
        """Run a command; return stdout and stderr mixed."""
        with _translated("a command", dispatched=True):
            done = self._sandboxes[sandbox_id].process.exec(
                command, cwd="/", timeout=math.ceil(timeout_sec)
            )
        return str(done.result)

    def write(self, sandbox_id: str, path: str, file: IO[bytes]) -> None:
        """Write a file."""
        with _translated("an upload", dispatched=True):
            self._sandboxes[sandbox_id].fs.upload_file_stream(
                cast("io.IOBase", file), path, timeout=_TRANSFER_SEC
            )

    def read(self, sandbox_id: str, path: str) -> Iterable[bytes]:
        """Yield a file's content."""
        with _translated("a download", dispatched=True):
            try:
                yield from self._sandboxes[sandbox_id].fs.download_file_stream(
                    path, timeout=_TRANSFER_SEC
                )
            except DaytonaNotFoundError as error:
                if not self.is_running(sandbox_id):
                    raise
                raise FileNotFoundError(path) from error

    def is_running(self, sandbox_id: str) -> bool:
        """Return whether the control plane has the sandbox as running."""
        with _translated("looking for a sandbox"):
            try:
                found = self._client.get(sandbox_id, request_timeout=_CALL_SEC)
            except DaytonaNotFoundError:
                return False
        return str(getattr(found.state, "value", found.state)) not in _GONE_STATES

    def kill(self, sandbox_id: str) -> None:
        """End a sandbox."""
        self._sandboxes.pop(sandbox_id, None)
        with _translated("the end of a sandbox"):
            try:
                self._client.get(sandbox_id, request_timeout=_CALL_SEC).delete(timeout=_CALL_SEC)
            except DaytonaNotFoundError:
                return

    def rented(self) -> Iterable[Rented]:
        """Return the account's sandboxes that have our labels."""

        def listed() -> list[Rented]:
            with _translated("listing sandboxes"):
                found = list(self._client.list(request_timeout=_CALL_SEC))
            return [Rented(one.id, one.labels) for one in found if PID_LABEL in one.labels]

        return bounded(listed, _START_SEC, "daytona: listing sandboxes")


class DaytonaBackend(RemoteBackend):
    """Runs trials in sandboxes of Daytona."""

    make_vendor = DaytonaVendor


def _up(amount: float | None, unit: int = 1) -> int | None:
    """Return whole units, rounded up."""
    return None if amount is None else math.ceil(amount / unit)


@contextmanager
def _translated(what: str, *, dispatched: bool = False) -> Iterator[None]:
    """Raise Daytona's errors as ours; ``dispatched``: the call may have had its effect."""
    try:
        yield
    except DaytonaAuthenticationError as error:
        raise SettingsError(f"DAYTONA_API_KEY is refused; {one_line(error)}") from None
    except DaytonaForbiddenError as error:
        raise SettingsError(f"DAYTONA_API_KEY may not do this; {one_line(error)}") from None
    except DaytonaRateLimitError as error:
        raise Busy(f"daytona: {what}: {one_line(error)}") from None
    except DaytonaNotFoundError as error:
        raise SandboxGone(f"daytona: the sandbox is gone; {one_line(error)}") from None
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise Busy(f"daytona cannot be reached; {one_line(error)}") from None
    except httpx.HTTPStatusError as error:
        raise _by_status(error.response.status_code, what, error, dispatched) from None
    except httpx.TransportError as error:
        raise Lost(f"daytona: {what}: {one_line(error)}") from None
    except DaytonaError as error:
        raise _by_status(error.status_code, what, error, dispatched) from None


def _by_status(status: int | None, what: str, error: Exception, dispatched: bool) -> BackendError:
    message = f"daytona: {what}: {one_line(error)}"
    if says_full(message):
        return Full(message)
    if status in _BUSY:
        return Busy(message)
    if status == 404 or status == 410:
        return SandboxGone(message)
    unknown = dispatched or status is None or status >= 500
    is_transport = isinstance(error, (daytona.DaytonaConnectionError, daytona.DaytonaTimeoutError))
    return (
        Lost(message) if is_transport or (unknown and status is not None) else BackendError(message)
    )
