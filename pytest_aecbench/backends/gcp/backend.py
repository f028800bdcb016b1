"""``GCPBatchBackend``: whole trials as array jobs of Cloud Batch, or single commands as jobs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends import Limits, TrialHandle
from pytest_aecbench.backends.gcp import job
from pytest_aecbench.backends.gcp.cloud import Cloud
from pytest_aecbench.backends.gcp.images import Registry
from pytest_aecbench.backends.gcp.options import NAME, check_zone, read
from pytest_aecbench.backends.gcp.reap import abandoned_jobs, abandoned_objects
from pytest_aecbench.backends.gcp.single import SingleSandbox
from pytest_aecbench.backends.gcp.staging import Image
from pytest_aecbench.backends.gcp.submission import REAP, Plan, Submission
from pytest_aecbench.backends.remote.calls import bounded
from pytest_aecbench.backends.remote.environment import Environment
from pytest_aecbench.backends.shared.launch import check_workspace
from pytest_aecbench.backends.shared.sandboxes import Sandboxes
from pytest_aecbench.errors import BackendError, BackendLost, LaunchError, TaskError
from pytest_aecbench.host.homes import abandoned_homes, make_home, remove_tree
from pytest_aecbench.host.owner import Owner
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_aecbench.backends import (
        BackendExecutionRequest,
        BackendExecutionResult,
        CollectedArtifacts,
        TrialRequest,
    )
    from pytest_aecbench.backends.gcp.submission import Outcome
    from pytest_aecbench.settings.model import Settings

__all__ = ["GCPBatchBackend"]

_PREFLIGHT_SEC = 60.0
_CLOSE_SEC = 90.0  # more than its calls at the end take together, which all have deadlines
_SHOWN_JOBS = 3
# A job that its run has not deleted a day after its last trial may have ended was forgotten.
_EXPIRY_SEC = 8 * 86_400
_STATES = {
    "PENDING": "queued",
    "ASSIGNED": "scheduled",
    "RUNNING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
}
_WHOLE = (
    "gcp runs whole trials and no single commands; use --aec-backend=docker for this, or set "
    "compute.gcp.single = true"
)
_SINGLES_AT_ONCE = 100


class GCPBatchBackend:
    """Runs trials as tasks of Cloud Batch, configured by ``options``, those of ``compute.gcp``.

    If ``single`` is true, the five methods work, and each command is a job of its own.
    """

    name = NAME
    thread_safe = True

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        project_id: str | None = None,
        region: str | None = None,
        machine_type: str | None = None,
        labels: Mapping[str, str] | None = None,
        run_id: str = "",
        parallelism: int | None = None,
    ) -> None:
        named = {"project": project_id, "region": region, "machine_type": machine_type}
        given = {**(options or {}), **{key: value for key, value in named.items() if value}}
        self._options: dict[str, Any] = read(given)
        check_zone(self._options)
        self._parallelism = parallelism or self._options.get("parallelism")
        self._cloud = Cloud(self._options)
        self._registry = Registry(self._cloud, self._options)
        self._labels = {"aecbench": "1", "aecbench-run": job.label(run_id), **(labels or {})}
        self._images: dict[str, Image] = {}
        self._places: dict[str, Path | None] = {}  # of trials: where their files are, if they are
        self._submissions: list[Submission] = []
        self._sandboxes: Sandboxes[SingleSandbox] = Sandboxes(NAME)
        self._notes: list[str] = []
        self._lock = threading.Condition()
        self.left_alone: list[str] = []  # by the last ``reap``

    @classmethod
    def from_settings(cls, settings: Settings) -> GCPBatchBackend:
        """Return the backend for a run's settings."""
        return cls(
            settings.backend_options,
            labels={"aecbench-experiment": job.label(settings.experiment_id)},
            run_id=settings.run_id,
            parallelism=settings.gcp_parallelism or settings.concurrency,
        )

    @property
    def single(self) -> bool:
        """The answer to whether each command is a job of its own."""
        return bool(self._options["single"])

    def singly(self) -> GCPBatchBackend:
        """Return a backend with the same options in which each command is a job of its own."""
        options = {**self._options, "single": True}
        return type(self)(options, labels=self._labels, parallelism=self._parallelism)

    @property
    def warning(self) -> str | None:
        """A line for people who may not know what they have asked for."""
        if not self.single:
            return None
        return (
            "compute.gcp.single: every command is a job of its own, which takes a minute or more; "
            "leave it out where agents are one command"
        )

    def concurrency(self) -> int:
        """Return how many trials of a job may run at once, or how many sandboxes."""
        if self.single:
            return min(self._parallelism or _SINGLES_AT_ONCE, job.MOST_PARALLEL)
        return min(self._parallelism or job.MOST_PARALLEL, job.MOST_PARALLEL)

    def describe(self) -> str:
        """Return one line about where jobs run."""
        options = self._options
        machines = options.get("machine_type", "machines that Batch chooses")
        spot = ", spot" if options.get("spot") else ""
        place = options.get("zone") or options["region"]
        single = ", each command a job" if self.single else ""
        return f"gcp (project {self._cloud.project}, {place}, {machines}{spot}{single})"

    @property
    def awaited(self) -> str:
        """The call that ``preflight`` makes, and its longest duration, for people who wait."""
        return f"asking gcp for the project; this takes {_PREFLIGHT_SEC:.0f} s at most"

    def preflight(self) -> None:
        """Raise an error if no job can be created, in a time that a person waits for."""

        def check() -> None:
            self._cloud.jobs("labels.aecbench=preflight")
            self._cloud.bucket  # noqa: B018  (finds or makes it)

        try:
            bounded(check, _PREFLIGHT_SEC, NAME)
        except BackendError as error:
            raise BackendLost(f"{error}; check the network, then run 'aec-bench doctor'") from None

    def examine(self, task_dirs: Sequence[Path]) -> None:
        """Raise an error for a task whose image has no place, or that needs single commands."""
        for task_dir in task_dirs:
            self._registry.check(Environment.read(task_dir))
            if not self.single and has_healthcheck(task_dir):
                raise TaskError(f"{task_dir}: environment.healthcheck: {_WHOLE}")

    def refuse_gpus(self) -> str | None:
        """Return why a task cannot have GPUs, or None."""
        if "accelerator_type" in self._options:
            return None
        return "compute.gcp.accelerator_type is not set; name a type there, such as 'nvidia-l4'"

    # The five methods

    def build_environment(self, *, task_dir: Path) -> str:
        """Build the image of the task's ``environment`` directory and push it, unless it exists."""
        environment = Environment.read(task_dir)
        image_ref = self._registry.build(environment)
        self._images[image_ref] = Image(environment.workdir, environment.env, environment.user)
        return image_ref

    def launch_trial(
        self, *, image_ref: str, workspace_dir: Path, limits: Limits | None = None
    ) -> TrialHandle:
        """Name the trial's place; nothing runs before it is submitted, or has a command."""
        check_workspace(NAME, workspace_dir)
        if image_ref not in self._images:
            raise LaunchError(
                f"gcp: image {image_ref!r} is not known; use the reference that "
                "build_environment returned"
            )
        if limits is not None and limits.gpus and (refusal := self.refuse_gpus()):
            raise LaunchError(f"gcp: {refusal}")
        if self.single:
            sandbox = SingleSandbox(
                self._plan(), image_ref, workspace_dir, limits or Limits(), make_home(NAME)
            )
            with self._lock:
                self._sandboxes[sandbox.name] = sandbox
            return TrialHandle(NAME, sandbox.name)
        handle = TrialHandle(NAME, workspace_dir.parent.name)
        with self._lock:
            self._places[handle.handle_id] = None
        return handle

    def execute_trial(
        self, *, handle: TrialHandle, request: BackendExecutionRequest
    ) -> BackendExecutionResult:
        """Run one command as a job of its own.

        Raises:
            BackendError: the backend runs whole trials.

        """
        return self._sandbox(handle).execute(request)

    def collect_outputs(self, *, handle: TrialHandle) -> CollectedArtifacts:
        """Copy ``/logs`` to the host, then replace ``workspace_dir`` by the working directory.

        Raises:
            BackendError: the backend runs whole trials, whose files come home with the outcome.

        """
        return self._sandbox(handle).collect()

    def _sandbox(self, handle: TrialHandle) -> SingleSandbox:
        if not self.single:
            raise BackendError(_WHOLE)
        return self._sandboxes[handle.handle_id]

    def teardown(self, *, handle: TrialHandle) -> None:
        """Give up the trial or the command under way, and remove what there is of it."""
        with self._lock:
            home = self._places.pop(handle.handle_id, None)
            submissions = list(self._submissions)
            sandbox = self._sandboxes.pop(handle.handle_id, None)
        if sandbox is not None:
            sandbox.remove()
        for submission in submissions:
            submission.cancel(handle.handle_id)
        if home is not None:
            remove_tree(home)

    # Whole trials

    def submit_trials(self, *, requests: Sequence[TrialRequest]) -> Iterator[Outcome]:
        """Run all as one job for each image; yield each outcome as its task ends."""
        submission = Submission(self._plan(), requests)
        with self._lock:
            self._submissions.append(submission)
            gone = [one.trial_id for one in requests if one.trial_id not in self._places]
        for trial_id in gone:
            submission.cancel(trial_id)
        try:
            yield from submission.outcomes()
        finally:
            with self._lock:
                self._submissions.remove(submission)
                self._lock.notify_all()

    def _plan(self) -> Plan:
        labels = {
            **self._labels,
            "aecbench-expires": str(int(time.time()) + _EXPIRY_SEC),
            **{
                name.replace(".", "-"): job.label(value)
                for name, value in Owner.current().labels().items()
            },
        }
        return Plan(
            self._cloud,
            self._options,
            self._images,
            labels,
            self._parallelism,
            self._home_of,
            self._notes.append,
        )

    def close(self) -> None:
        """Wait until all jobs are deleted, which their threads do after the last outcome.

        Raises:
            BackendError: some may be left.

        """
        with self._lock:
            ended = self._lock.wait_for(lambda: not self._submissions, _CLOSE_SEC)
            notes, self._notes[:] = [*self._notes], []
            open_jobs = [one.job_id for each in self._submissions for one in each.jobs]
        if not ended:
            shown = ", ".join(open_jobs[:_SHOWN_JOBS]) + ", …" * (len(open_jobs) > _SHOWN_JOBS)
            notes.append(
                f"gcp: no answer within {_CLOSE_SEC:.0f} s; job {shown} and its files in the "
                f"bucket may be left; {REAP}"
            )
        if notes:
            more = f" (and {len(notes) - 1} more like this)" if len(notes) > 1 else ""
            raise BackendError(f"{notes[-1]}{more}")

    def _home_of(self, trial_id: str) -> Path | None:
        """Return a new directory for a trial's files; None if the trial was torn down."""
        home = make_home(NAME)
        with self._lock:
            if trial_id in self._places:
                self._places[trial_id] = home
                return home
        remove_tree(home)
        return None

    def standing(self) -> str:
        """Return how many tasks are in which state, and what jobs wait for."""
        with self._lock:
            submissions = list(self._submissions)
            busy = [one for one in self._sandboxes.values() if one.is_busy]
        counts: dict[str, int] = {}
        for submission in submissions:
            for state, count in submission.counts().items():
                counts[state] = counts.get(state, 0) + count
        shown = [f"{counts[state]} {word}" for state, word in _STATES.items() if counts.get(state)]
        shown += [counted(len(busy), "command")] if busy else []
        waits = [*(one.waits_for for one in submissions), *(one.waits_for for one in busy)]
        reasons = {reason for reason in waits if reason}
        if not shown:
            return "; ".join(sorted(reasons))
        return "; ".join([f"Batch: {', '.join(shown)}", *sorted(reasons), self._link(submissions)])

    def _link(self, submissions: Sequence[Submission]) -> str:
        """Return the page of the only job, or of all."""
        jobs = [one.job_id for each in submissions for one in each.jobs if not one.is_over]
        return self._cloud.job_link(jobs[0]) if len(jobs) == 1 else self._cloud.jobs_link()

    def reap(self, *, dry_run: bool = False) -> list[str]:
        """Delete the jobs and objects of dead runs; return the names of the jobs and directories.

        Raises:
            BackendError: some cannot be removed.

        """
        for home in [] if dry_run else abandoned_homes(NAME):
            remove_tree(home)
        jobs, self.left_alone = abandoned_jobs(self._cloud.jobs("labels.aecbench=1"))
        for job_id in [] if dry_run else jobs:
            self._cloud.delete_job(job_id)
        bucket = self._cloud.find_bucket()
        objects = abandoned_objects(bucket) if bucket is not None else {}
        if bucket is not None and not dry_run:
            bucket.remove([name for names in objects.values() for name in names])
        return [*sorted(jobs), *sorted(objects)]


def has_healthcheck(task_dir: Path) -> bool:
    """Return whether a task wants a command to be repeated until its sandbox is ready."""
    from pytest_aecbench.backends.shared.environment import read_environment

    return read_environment(task_dir).healthcheck is not None
