"""Tasks and jobs of Batch that failed: the error of each, told apart, with what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from google.cloud import batch_v1

from pytest_aecbench.errors import BackendError, BackendLost, LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["exit_code", "job_failure", "lost_machines", "reason_to_wait", "task_failure"]

_PREEMPTED, _SILENT, _REBOOTED, _STUCK, _TOO_LONG, _RECREATED = range(50001, 50007)
_OF_MACHINES = {
    _PREEMPTED: "the spot machine was preempted; use --aec-retries, or compute.gcp.spot = false",
    _SILENT: "the machine stopped reporting; its memory may be too small for the task",
    _REBOOTED: "the machine was rebooted in mid-task; use --aec-retries",
    _STUCK: "the task did not respond to Batch; use --aec-retries",
    _RECREATED: "the machine was replaced in mid-task; use --aec-retries",
}
_OF_DOCKER = (125, 126, 127)
_CODE = re.compile(r"exit code (\d+)")
_WAITS = {
    "QUOTA": "a quota is exhausted; ask for more at "
    "https://console.cloud.google.com/iam-admin/quotas",
    "RESOURCE_POOL_EXHAUSTED": "the zone has no such machines left; use another zone or type",
    "STOCKOUT": "the zone has no such machines left; use another zone or type",
}
_NO_MACHINES = re.compile(
    r"Batch Error: code - (?P<code>\w+), description - (?:.*latest message example: )?(?P<said>.+)"
)


def _events(status: Any) -> Iterable[batch_v1.StatusEvent]:
    events: Iterable[batch_v1.StatusEvent] = status.status_events
    return events


def exit_code(task: batch_v1.Task) -> int | None:
    """Return the exit code with which a task ended, by its latest event that has one."""
    for event in reversed(list(_events(task.status))):
        if event.task_execution.exit_code:
            return int(event.task_execution.exit_code)
        if found := _CODE.search(event.description):
            return int(found[1])
    return None


def lost_machines(task: batch_v1.Task) -> int:
    """Return how often Batch itself has run a task again because its machine was lost."""
    failed = [
        event
        for event in _events(task.status)
        if event.task_state == batch_v1.TaskStatus.State.FAILED
    ]
    return len(failed) - (task.status.state == batch_v1.TaskStatus.State.FAILED)


def task_failure(task: batch_v1.Task, where: str) -> BackendError:
    """Return the error of a task that failed; ``where`` names it."""
    code = exit_code(task)
    if code in _OF_MACHINES:
        return BackendLost(f"{where}: exit code {code}: {_OF_MACHINES[code]}")
    if code == _TOO_LONG:
        return BackendError(
            f"{where}: exit code {code}: it took longer than its agent, its verifier and all "
            "copies may take; raise --aec-timeout-multiplier"
        )
    if code in _OF_DOCKER:
        return LaunchError(
            f"{where}: exit code {code}: the container cannot be started; its image may be missing "
            "or not readable by the machine's service account (role artifactregistry.reader), or "
            "lack bash"
        )
    said = next((event.description for event in reversed(list(_events(task.status)))), "")
    shown = " ".join(said.split()) or f"exit code {code}"
    return BackendError(f"{where}: failed; {shown}")


def job_failure(job: batch_v1.Job, where: str) -> BackendError:
    """Return the error of the tasks that a job, which is over, has not run."""
    state = batch_v1.JobStatus.State(job.status.state).name
    said = reason_to_wait(job) or next(
        (event.description for event in reversed(list(_events(job.status)))), ""
    )
    return BackendLost(f"{where}: the job is {state} before its end; {' '.join(said.split())}")


def reason_to_wait(job: batch_v1.Job) -> str:
    """Return what keeps a job from running, by its events; nothing if they do not say."""
    for event in reversed(list(_events(job.status))):
        said = " ".join(event.description.split())
        for word, reason in _WAITS.items():
            if word in said.upper().replace(" ", "_"):
                quota = re.search(r"Quota '[^']+' exceeded.*", said)
                return f"{reason} ({quota[0].rstrip('.')})" if quota else reason
        if found := _NO_MACHINES.search(said):
            return f"no machine can be had ({found['code']}: {found['said'].rstrip('.')})"
    return ""
