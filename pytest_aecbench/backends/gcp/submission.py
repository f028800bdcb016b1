"""One submission of trials: its jobs, from the staging of inputs to the removal of the last file.

A thread follows it. It looks at each job once per poll, and lists the tasks of a job, page by page,
only when more of them have ended. Calls thus do not grow with the number of trials that wait.
"""

from __future__ import annotations

import secrets
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

from google.cloud import batch_v1

from pytest_aecbench.backends import TrialOutcome
from pytest_aecbench.backends.gcp import failures, job, scripts, staging
from pytest_aecbench.backends.gcp.cloud import NotThere
from pytest_aecbench.backends.gcp.logs import explained
from pytest_aecbench.backends.shared.archives import TOTAL_CAP
from pytest_aecbench.backends.shared.spool import spool
from pytest_aecbench.errors import AecBenchError, BackendError, BackendLost
from pytest_aecbench.host.owner import Owner
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_aecbench.backends import TrialRequest
    from pytest_aecbench.backends.gcp.cloud import Bucket, Cloud

__all__ = ["OBJECTS", "REAP", "Outcome", "Plan", "Submission"]

Outcome = tuple[str, "TrialOutcome | BaseException"]
REAP = "'aec-bench reap --backend gcp' removes them after the run"
OBJECTS = "aecbench"  # the directory of the bucket, in which each process has its own
_AT_ONCE = 16  # uploads and downloads
_TASKS_PER_SEC = 1000  # a poll of a large job takes several pages, so there are fewer polls
_TASK = batch_v1.TaskStatus.State


@dataclass(frozen=True)
class Plan:
    """The parts that all jobs of a run share.

    ``home_of`` makes a directory for a trial's files; ``note`` keeps a line for the end of the run.
    """

    cloud: Cloud
    options: Mapping[str, Any]
    images: Mapping[str, staging.Image]
    labels: Mapping[str, str]
    parallelism: int | None
    home_of: Callable[[str], Path | None]
    note: Callable[[str], object]

    @staticmethod
    def prefix(name: str) -> str:
        """Return the directory of the bucket for a job's or a sandbox's files."""
        return f"{OBJECTS}/{Owner.current().short}/{name}/"


@dataclass(eq=False)
class _Job:
    """A job, and the trials that it owes an outcome by the index of their task."""

    kind: job.Kind
    requests: list[TrialRequest]
    job_id: str = field(default_factory=lambda: f"aecbench-{secrets.token_hex(8)}")
    owed: dict[int, TrialRequest] = field(init=False)
    ended_tasks: int = -1
    counts: Mapping[str, int] = field(default_factory=dict)
    waits_for: str = ""
    is_started: bool = False
    is_over: bool = False
    uid: str = ""  # by which Cloud Logging knows the job

    def __post_init__(self) -> None:
        self.owed = dict(enumerate(self.requests))

    @property
    def prefix(self) -> str:
        return Plan.prefix(self.job_id)


class Submission:
    """Jobs for some requests, and the outcomes that they give."""

    def __init__(self, plan: Plan, requests: Sequence[TrialRequest]) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._cancelled: set[str] = set()
        self.jobs = [
            _Job(kind, part)
            for kind, alike in job.kinds(requests).items()
            for part in job.split(alike)
        ]

    def cancel(self, trial_id: str) -> None:
        """Give up one trial; end its job at once if that owes nothing else.

        The start of a job that is not created yet ends it by itself, after its last upload.
        """
        with self._lock:
            self._cancelled.add(trial_id)
            empty = [
                one
                for one in self.jobs
                if one.is_started
                and any(request.trial_id == trial_id for request in one.requests)
                and all(request.trial_id in self._cancelled for request in [*one.owed.values()])
            ]
        for one in empty:
            self._end(one)
        self._wake.set()

    def counts(self) -> dict[str, int]:
        """Return how many tasks are in which state, in all jobs together."""
        total: dict[str, int] = {}
        for one in self.jobs:
            known = dict(one.counts) or {"PENDING": len(one.owed)}
            for state, count in known.items():
                total[state] = total.get(state, 0) + count
        return total

    @property
    def waits_for(self) -> str:
        """The reason why a job stays in the queue, if its events say so."""
        return next((one.waits_for for one in self.jobs if one.waits_for and not one.is_over), "")

    def outcomes(self) -> Iterator[Outcome]:
        """Start all jobs; yield each trial's outcome or error as it arrives; end the jobs."""
        try:
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="aec-gcp") as threads:
                for one in self.jobs:
                    yield from self._start(one, threads)
                while open_jobs := [one for one in self.jobs if not one.is_over]:
                    for one in open_jobs:
                        yield from self._look(one, threads)
                        if not self._wanted(one):
                            self._end(one)
                    self._pause(sum(len(one.requests) for one in open_jobs))
        finally:
            for one in self.jobs:
                self._end(one)

    def _pause(self, tasks: int) -> None:
        if any(not one.is_over for one in self.jobs):
            self._wake.wait(max(self._plan.options["poll_sec"], tasks / _TASKS_PER_SEC))
            self._wake.clear()

    def _wanted(self, one: _Job) -> dict[int, TrialRequest]:
        """Return the trials that a job still owes and that were not given up."""
        with self._lock:
            return {
                index: request
                for index, request in one.owed.items()
                if request.trial_id not in self._cancelled
            }

    # The start of a job

    def _start(self, one: _Job, threads: ThreadPoolExecutor) -> Iterator[Outcome]:
        """Stage the inputs and create the job; a trial that cannot be staged is left out."""
        try:
            bucket = self._plan.cloud.bucket  # before many threads ask for it
            packed = {
                threads.submit(self._stage, bucket, one, index, request): index
                for index, request in self._wanted(one).items()
            }
            failed = [
                (packed[future], error)
                for future in as_completed(packed)
                if (error := future.exception())
            ]
            for index, error in failed:
                yield one.owed.pop(index).trial_id, error
            if self._wanted(one):
                self._create(bucket, one)
        except AecBenchError as error:
            for index, request in self._wanted(one).items():
                one.owed.pop(index)
                yield request.trial_id, error
        one.is_started = True
        if not self._wanted(one):
            self._end(one)

    def _create(self, bucket: Bucket, one: _Job) -> None:
        plan = self._plan
        hide = plan.options["hide_bucket"]
        bucket.write(f"{one.prefix}run", BytesIO(scripts.outer(hide=hide).encode()))
        definition = job.define(
            one.kind,
            len(one.requests),
            job.longest(one.requests),
            remote_path=f"{bucket.name}/{one.prefix}",
            options=plan.options,
            parallelism=plan.parallelism,
            labels=plan.labels,
        )
        plan.cloud.create_job(one.job_id, definition, str(uuid.uuid4()))

    def _stage(self, bucket: Bucket, one: _Job, index: int, request: TrialRequest) -> None:
        with spool() as file:
            staging.pack(request, self._plan.images, file)
            bucket.write(f"{one.prefix}in-{index}.tar", file)

    # The following of a job

    def _look(self, one: _Job, threads: ThreadPoolExecutor) -> Iterator[Outcome]:
        """Yield the outcomes of tasks that have ended since."""
        cloud, where = self._plan.cloud, f"gcp: job {one.job_id}"
        try:
            found = cloud.get_job(one.job_id)
            one.uid = found.uid
            group = next(iter(found.status.task_groups.values()), None)
            one.counts = dict(group.counts) if group is not None else {}
            is_over = found.status.state in job.ENDS
            one.waits_for = "" if is_over else failures.reason_to_wait(found)
            ended = sum(one.counts.get(state, 0) for state in ("SUCCEEDED", "FAILED"))
            if ended != one.ended_tasks or is_over:
                one.ended_tasks = ended
                tasks = cloud.tasks(one.job_id)
                yield from self._take(one, tasks, threads, is_over=is_over)
            if is_over:
                error = failures.job_failure(found, where)
                yield from self._give_up(one, error, found.status.status_events)
        except NotThere:
            yield from self._give_up(one, BackendLost(f"{where}: was deleted by someone else"))

    def _give_up(
        self, one: _Job, error: BackendError, events: Iterable[batch_v1.StatusEvent] = ()
    ) -> Iterator[Outcome]:
        for index, request in self._wanted(one).items():
            one.owed.pop(index, None)
            directory = request.workspace_dir.parent
            told = explained(error, self._plan.cloud, directory, events=events, uid=one.uid)
            yield request.trial_id, told
        self._end(one)

    def _take(
        self,
        one: _Job,
        tasks: Sequence[batch_v1.Task],
        threads: ThreadPoolExecutor,
        *,
        is_over: bool,
    ) -> Iterator[Outcome]:
        wanted, fetched = self._wanted(one), {}
        for task in tasks:
            index = int(task.name.rpartition("/")[2])
            request = wanted.get(index)
            if request is None or task.status.state not in (_TASK.SUCCEEDED, _TASK.FAILED):
                continue
            if task.status.state == _TASK.FAILED and not is_over and self._is_retried(task):
                continue
            one.owed.pop(index, None)
            future = threads.submit(partial(self._fetch, one, index, request, task))
            fetched[future] = request
        for future in as_completed(fetched):
            yield fetched[future].trial_id, future.exception() or future.result()

    def _is_retried(self, task: batch_v1.Task) -> bool:
        """Return whether Batch is going to run a failed task again."""
        most = self._plan.options.get("max_retry_count", 0)
        code = failures.exit_code(task)
        return code in job.INFRASTRUCTURE and failures.lost_machines(task) < most

    def _fetch(
        self, one: _Job, index: int, request: TrialRequest, task: batch_v1.Task
    ) -> TrialOutcome | AecBenchError:
        """Bring home what a task has left, or its log if a result is missing."""
        where = f"gcp: job {one.job_id}, task {index}"
        outcome = (
            failures.task_failure(task, where)
            if task.status.state == _TASK.FAILED
            else self._outcome(one, index, request, where)
        )
        if isinstance(outcome, TrialOutcome):
            return replace(outcome, notes=_notes(task))
        return explained(
            outcome,
            self._plan.cloud,
            request.workspace_dir.parent,
            where=(one.prefix, index),
            events=task.status.status_events,
            uid=one.uid,
        )

    def _outcome(
        self, one: _Job, index: int, request: TrialRequest, where: str
    ) -> TrialOutcome | AecBenchError:
        home = self._plan.home_of(request.trial_id)
        if home is None:
            return BackendError(f"{where}: was given up")
        try:
            with (
                spool() as agents,
                spool() as verifiers,
            ):
                left = self._read(f"{one.prefix}agent-{index}.tar", agents)
                graded = None
                if one.kind.verifier_image is not None:
                    graded = self._read(f"{one.prefix}verify-{index}.tar", verifiers)
                return staging.read_outcome(request, left, graded, home)
        except BackendError as error:
            return type(error)(f"{where}: {error}")
        except AecBenchError as error:
            return error
        except OSError as error:
            return BackendLost(f"{home}: {error.strerror or error}")

    def _read(self, name: str, file: IO[bytes]) -> IO[bytes] | None:
        try:
            self._plan.cloud.bucket.read(name, file, most=TOTAL_CAP)
        except NotThere:
            return None
        return file

    # The end of a job

    def _end(self, one: _Job) -> None:
        """Delete a job and its objects, once."""
        with self._lock:
            if one.is_over:
                return
            one.is_over = True
        self._remove(one)

    def _remove(self, one: _Job) -> None:
        try:
            self._plan.cloud.delete_job(one.job_id)
            with suppress(NotThere):
                self._plan.cloud.bucket.clear(one.prefix)
        except AecBenchError as error:
            self._plan.note(
                f"{error}; job {one.job_id} and its files in the bucket may be left; {REAP}"
            )


def _notes(task: batch_v1.Task) -> tuple[str, ...]:
    lost = failures.lost_machines(task)
    return (f"gcp: {counted(lost, 'machine')} lost; Batch ran the task again",) if lost else ()
