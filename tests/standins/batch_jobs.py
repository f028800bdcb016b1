"""The jobs of Cloud Batch: their states and events, and the schedule of their tasks."""

from __future__ import annotations

import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from google.cloud import batch_v1

__all__ = ["QUOTA", "Attempt", "JobRun", "Mishap"]

JobState: Any = batch_v1.JobStatus.State  # of which mypy sees numbers only
TaskState: Any = batch_v1.TaskStatus.State

_GROUP = "group0"
_OVER = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
_INTERNAL = 50000  # the exit code of a failure for which the service has no other
QUOTA = (
    "VM in Managed Instance Group meets error: Batch Error: code - CODE_GCE_QUOTA_EXCEEDED, "
    "description - error count is 4, latest message example: Instance creation failed: "
    "Quota 'CPUS' exceeded. Limit: 24.0 in region us-central1."
)


@dataclass
class Mishap:
    """What befalls the next ``times`` attempts of a task, or of any: its machine is lost."""

    code: int
    index: int | None = None
    times: int = 1
    after_sec: float = 0.2

    def befalls(self, index: int) -> bool:
        """Tell whether it is about this attempt, which counts."""
        if self.times <= 0 or self.index not in (None, index):
            return False
        self.times -= 1
        return True


@dataclass
class Attempt:
    """One attempt of a task; ``stop`` takes its machine away."""

    index: int
    number: int
    env: dict[str, str]
    stopped: bool = False
    stop: Callable[[], object] = lambda: None


@dataclass
class JobRun:
    """A job with its tasks; ``run`` runs one attempt and returns the exit code.

    ``waits_for`` is why it stays in the queue until it is started.
    """

    job: batch_v1.Job
    run: Callable[[JobRun, Attempt], int]
    threads: ThreadPoolExecutor
    waits_for: str | None = None
    tasks: list[batch_v1.Task] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    _pending: deque[int] = field(default_factory=deque)
    _attempts: dict[int, Attempt] = field(default_factory=dict)
    _tried: Counter[int] = field(default_factory=Counter)
    lock: Any = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        job, group = self.job, self.job.task_groups[0]
        group.name = f"{job.name}/taskGroups/{_GROUP}"
        group.task_count = group.task_count or 1
        group.parallelism = group.parallelism or min(group.task_count, 1000)
        job.uid = f"{job.name.rpartition('/')[2][:40]}-{secrets.token_hex(4)}"
        job.create_time = job.update_time = _now()
        self._started_at: datetime | None = None
        self.spec = group.task_spec
        self.parallelism = group.parallelism
        self._counts: Counter[int] = Counter({TaskState.PENDING: group.task_count})
        for index in range(group.task_count):
            name = f"{group.name}/tasks/{index}"
            self.tasks.append(batch_v1.Task(name=name, status={"state": TaskState.PENDING}))
        self._pending.extend(range(group.task_count))
        job.status.state = JobState.QUEUED
        if self.waits_for is not None:
            self._say("OPERATIONAL_INFO", self.waits_for)

    # States

    @property
    def state(self) -> int:
        return int(self.job.status.state)

    def resource(self) -> batch_v1.Job:
        """Return the job as it is now."""
        with self.lock:
            counts = {TaskState(state).name: n for state, n in self._counts.items() if n}
            group = batch_v1.JobStatus.TaskGroupStatus(counts=counts)
            self.job.status.task_groups = {_GROUP: group}
            if self._started_at is not None and not self.ended.is_set():
                self.job.status.run_duration = _now() - self._started_at
            return batch_v1.Job(self.job)

    def _say(self, kind: str, description: str) -> None:
        event = batch_v1.StatusEvent(type_=kind, description=description, event_time=_now())
        self.job.status.status_events.append(event)

    def _become(self, state: int) -> None:
        before, self.job.status.state = self.state, JobState(state)
        self.job.update_time = _now()
        self._say(
            "STATUS_CHANGED",
            f"Job state is set from {JobState(before).name} to {JobState(state).name} "
            f"for job {self.job.name}.",
        )

    def _become_task(self, index: int, state: int, code: int | None = None) -> None:
        task = self.tasks[index]
        before, task.status.state = task.status.state, TaskState(state)
        self._counts[before] -= 1
        self._counts[state] += 1
        zone = f"zones/{self.job.name.split('/')[3]}-a/instances/{index + 1}"
        description = (
            f"Task state is updated from {TaskState(before).name} to {TaskState(state).name} "
            f"on {zone}"
        )
        event = batch_v1.StatusEvent(
            type_="STATUS_CHANGED", event_time=_now(), task_state=state, description=description
        )
        if code is not None:
            event.task_execution = batch_v1.TaskExecution(exit_code=code)
            if code:
                event.description += f" due to exit code {code}."
        task.status.status_events.append(event)

    # The schedule

    def start(self) -> None:
        """Give the job its machines."""
        with self.lock:
            if self.state != JobState.QUEUED:
                return
            self.waits_for = None
            self._become(JobState.SCHEDULED)
            self._started_at = _now()
            self._become(JobState.RUNNING)
            self._assign()

    def _assign(self) -> None:
        while self._pending and len(self._attempts) < self.parallelism:
            index = self._pending.popleft()
            attempt = Attempt(index, self._tried[index], self._environment(index))
            self._attempts[index] = attempt
            self._tried[index] += 1
            self._become_task(index, TaskState.ASSIGNED)
            self.threads.submit(self._try, attempt)

    def _environment(self, index: int) -> dict[str, str]:
        group = self.job.task_groups[0]
        own = group.task_environments[index].variables if group.task_environments else {}
        return {
            **self.spec.environment.variables,
            **own,
            "BATCH_JOB_UID": self.job.uid,
            "BATCH_TASK_INDEX": str(index),
            "BATCH_TASK_COUNT": str(group.task_count),
            "BATCH_TASK_RETRY_ATTEMPT": str(self._tried[index]),
        }

    def _try(self, attempt: Attempt) -> None:
        with self.lock:
            if attempt.stopped:
                self._end(attempt)
                return
            self._become_task(attempt.index, TaskState.RUNNING)
        code = _INTERNAL
        try:
            code = self.run(self, attempt)
        finally:
            with self.lock:
                if not attempt.stopped:
                    self._judge(attempt.index, code)
                self._end(attempt)

    def _judge(self, index: int, code: int) -> None:
        if code == 0:
            self._become_task(index, TaskState.SUCCEEDED, 0)
            return
        self._become_task(index, TaskState.FAILED, code)
        if self._tried[index] <= self.spec.max_retry_count and self._retries(code):
            self._become_task(index, TaskState.PENDING)
            self._pending.append(index)

    def _retries(self, code: int) -> bool:
        """Tell whether the policy retries an exit code; without a policy, all are."""
        for policy in self.spec.lifecycle_policies:
            listed = code in policy.action_condition.exit_codes
            return listed is (policy.action == batch_v1.LifecyclePolicy.Action.RETRY_TASK)
        return True

    def _end(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.index, None)
        if self.state in (JobState.DELETION_IN_PROGRESS, JobState.CANCELLATION_IN_PROGRESS):
            if not self._attempts:
                self._finish(JobState.CANCELLED)
            return
        self._assign()
        if not self._attempts and not self._pending:
            failed = self._counts[TaskState.FAILED]
            self._finish(JobState.FAILED if failed else JobState.SUCCEEDED)

    def _finish(self, state: int) -> None:
        if self._started_at is not None:
            self.job.status.run_duration = _now() - self._started_at
        if self.state != JobState.DELETION_IN_PROGRESS:
            self._become(state)
        self.ended.set()

    def stop(self, state: int) -> None:
        """Take all machines away, to cancel the job or to delete it; ``ended`` says when it is."""
        with self.lock:
            if self.state in _OVER:
                if state == JobState.DELETION_IN_PROGRESS:
                    self._become(state)
                return
            if self.state == JobState.DELETION_IN_PROGRESS:
                return
            self._become(state)
            for index in self._pending:
                self._become_task(index, TaskState.UNEXECUTED)
            self._pending.clear()
            attempts = list(self._attempts.values())
            for attempt in attempts:
                attempt.stopped = True
                self._become_task(attempt.index, TaskState.FAILED)
            if not attempts:
                self._finish(JobState.CANCELLED)
        for attempt in attempts:
            attempt.stop()


def _now() -> datetime:
    return datetime.now(timezone.utc)
