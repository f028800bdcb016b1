"""A sandbox whose commands are single jobs, each of which starts from the files of the last.

Nothing runs between them. The working directory, ``/logs`` and the directories ``CARRIED`` go
through the bucket; all else is the image's again with each command.
"""

from __future__ import annotations

import secrets
import threading
import uuid
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import IO, TYPE_CHECKING

from google.cloud import batch_v1

from pytest_aecbench.backends import BackendExecutionRequest
from pytest_aecbench.backends.gcp import failures, job, scripts, staging
from pytest_aecbench.backends.gcp.cloud import NotThere
from pytest_aecbench.backends.gcp.logs import explained
from pytest_aecbench.backends.gcp.submission import REAP
from pytest_aecbench.backends.shared.archives import TOTAL_CAP
from pytest_aecbench.backends.shared.spool import spool
from pytest_aecbench.errors import (
    AecBenchError,
    BackendError,
    BackendLost,
    LaunchError,
    SandboxBroken,
    SandboxGone,
)
from pytest_aecbench.host.homes import make_home, remove_tree

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.backends import BackendExecutionResult, CollectedArtifacts, Limits
    from pytest_aecbench.backends.gcp.submission import Plan

__all__ = ["SingleSandbox"]

START_SEC = 600  # for an image to be pulled, which the run-time limit of a task includes
_COLLECT_SEC = 60.0
_JOB = batch_v1.JobStatus.State
_TAKEN = (_JOB.CANCELLED, _JOB.CANCELLATION_IN_PROGRESS, _JOB.DELETION_IN_PROGRESS)


@dataclass(eq=False)
class SingleSandbox:
    """One sandbox; its commands run one at a time, each as a job of one task."""

    plan: Plan
    image_ref: str
    workspace_dir: Path
    limits: Limits
    home: Path
    name: str = field(default_factory=lambda: f"aecbench-{secrets.token_hex(8)}")
    waits_for: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _gone: threading.Event = field(default_factory=threading.Event)
    _job_id: str = ""  # of the command that is under way
    _has_script: bool = False
    _count: int = 0
    _before: str = ""  # the number of the last command that left its files

    @property
    def prefix(self) -> str:
        """The directory of the bucket with the sandbox's files."""
        return self.plan.prefix(self.name)

    @property
    def is_busy(self) -> bool:
        """The answer to whether a command is under way."""
        return bool(self._job_id)

    def execute(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        """Run one command to completion.

        Raises:
            SandboxGone: the sandbox was removed, also while the command ran.
            SandboxBroken: the command left no result.

        """
        lifetime = self.limits.lifetime_sec or job.LIFETIME_SEC
        request = replace(request, timeout_sec=request.timeout_sec or lifetime)
        with self._turn:
            result = self._execute(request)
        if request.on_output:  # all at once, because it comes with the result
            request.on_output((result.stdout + result.stderr).encode())
        return result

    def _execute(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        number = str(self._count)
        self._begin(f"{self.name}-{number}")
        try:
            self._stage(request, number)
            self._create(request, number)
            self._follow(number)
            result = self._read(request, number)
        finally:
            self._finish()
        before, self._before = self._before, number
        if before:
            self._remove(before)
        return result

    def _begin(self, job_id: str) -> None:
        with self._lock:
            if self._gone.is_set():
                raise self._removed()
            self._job_id = job_id
            self._count += 1

    def _finish(self) -> None:
        """Delete the job, which is over; after the sandbox's removal also what it has left."""
        job_id = self._job_id
        is_gone = self._gone.is_set()
        try:
            self.plan.cloud.delete_job(job_id, waits=is_gone)
            if is_gone:
                self._clear()
        except AecBenchError as error:  # the command's result is worth more
            self.plan.note(f"{error}; job {job_id} and its files may be left; {REAP}")
        with self._lock:
            self._job_id = ""
        if is_gone:
            raise self._removed()

    def _removed(self) -> SandboxGone:
        return SandboxGone(f"gcp: sandbox {self.name!r} was removed")

    def _stage(self, request: BackendExecutionRequest, number: str) -> None:
        bucket = self.plan.cloud.bucket
        with spool() as file:
            staging.pack_command(
                request,
                self.plan.images[self.image_ref],
                file,
                workspace_dir=self.workspace_dir,
                before=self._before,
            )
            if not self._has_script:
                script = scripts.outer(hide=self.plan.options["hide_bucket"])
                bucket.write(f"{self.prefix}run", BytesIO(script.encode()))
                self._has_script = True
            bucket.write(f"{self.prefix}in-{number}.tar", file)

    def _create(self, request: BackendExecutionRequest, number: str) -> None:
        cloud = self.plan.cloud
        definition = job.define(
            job.kind_of(self.image_ref, self.limits),
            1,
            (request.timeout_sec or 0) + scripts.GUARD_SEC + START_SEC,
            remote_path=f"{cloud.bucket.name}/{self.prefix}",
            options=self.plan.options,
            parallelism=1,
            labels=self.plan.labels,
            command=number,
        )
        cloud.create_job(self._job_id, definition, str(uuid.uuid4()))

    def _follow(self, number: str) -> None:
        """Wait until the job is over; raise an error unless its task succeeded."""
        cloud = self.plan.cloud
        try:
            while True:
                if self._gone.is_set():
                    raise self._removed()
                found = cloud.get_job(self._job_id)
                if found.status.state in job.ENDS:
                    break
                self.waits_for = failures.reason_to_wait(found)
                self._gone.wait(self.plan.options["poll_sec"])
            if found.status.state == _JOB.SUCCEEDED:
                return
            if found.status.state in _TAKEN:
                raise SandboxGone(f"gcp: job {self._job_id}: was cancelled by someone else")
            tasks = cloud.tasks(self._job_id)
        except NotThere:
            raise SandboxGone(f"gcp: job {self._job_id}: was deleted by someone else") from None
        finally:
            self.waits_for = ""
        where = f"gcp: job {self._job_id}"
        if tasks and tasks[0].status.state == batch_v1.TaskStatus.State.FAILED:
            error, events = failures.task_failure(tasks[0], where), tasks[0].status.status_events
        else:
            error, events = failures.job_failure(found, where), found.status.status_events
        if not isinstance(error, (BackendLost, LaunchError)):  # a command can do that by itself
            error = SandboxBroken(str(error))
        raise self._explained(error, number, events=events, uid=found.uid)

    def _explained(self, error: AecBenchError, number: str, **more: object) -> AecBenchError:
        where = (self.prefix, int(number))
        return explained(error, self.plan.cloud, self.workspace_dir.parent, where=where, **more)  # type: ignore[arg-type]

    def _read(self, request: BackendExecutionRequest, number: str) -> BackendExecutionResult:
        home = make_home("gcp")
        try:
            with spool() as file:
                try:
                    self._download(f"agent-{number}.tar", file)
                    result = staging.read_result(request, file, home / "result")
                except NotThere:
                    result = None
        finally:
            remove_tree(home)
        if result is None:
            error = SandboxBroken(f"gcp: job {self._job_id}: the command left no result")
            raise self._explained(error, number)
        return result

    def collect(self) -> CollectedArtifacts:
        """Copy ``/logs`` to the host, then replace ``workspace_dir`` by the working directory."""
        with self._turn:
            if self._gone.is_set():
                raise self._removed()
            if not self._before:
                self._execute(BackendExecutionRequest(":", timeout_sec=_COLLECT_SEC))
            files = self.home / "files"
            remove_tree(files)
            with spool() as file:
                try:
                    self._download(f"state-{self._before}.tar", file)
                except NotThere:
                    raise BackendError(f"gcp: {self.prefix}: someone removed its files") from None
                return staging.read_files(file, files, self.workspace_dir)

    def _download(self, name: str, file: IO[bytes]) -> None:
        self.plan.cloud.bucket.read(f"{self.prefix}{name}", file, most=TOTAL_CAP)

    def remove(self) -> None:
        """End the command that is under way, and remove all files; repeating it does nothing."""
        with self._lock:
            was_gone, job_id = self._gone.is_set(), self._job_id
            self._gone.set()
        if was_gone:
            return
        remove_tree(self.home)
        if job_id:
            self.plan.cloud.delete_job(job_id)
        elif self._count:
            self._clear()

    def _clear(self) -> None:
        self.plan.cloud.bucket.clear(self.prefix)

    def _remove(self, number: str) -> None:
        """Remove the files of an earlier command, which the bucket does by itself in some days."""
        names = [f"in-{number}.tar", f"state-{number}.tar", f"rest-{number}.tar"]
        names += [f"agent-{number}.tar", f"agent-{number}.log"]
        bucket = self.plan.cloud.bucket
        bucket.remove([f"{self.prefix}{name}" for name in names])
