"""What Cloud Batch accepts: the rules for a job's definition, and for filters of lists."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.cloud import batch_v1

__all__ = ["Refused", "Unimplemented", "check_id", "check_job", "check_request_id", "matching"]

_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TERM = re.compile(r"""\s*([\w.-]+)\s*(!=|=|:)\s*(?:"([^"]*)"|'([^']*)'|([\w*./-]*))\s*""")
_MOST_BYTES = 1_000_000
_MOST_TASKS, _MOST_PARALLEL = 100_000, 5_000
_MOST_LABELS = 64
_MOST_RETRIES = 10
_DISKS = "/mnt/disks/"  # where the system of container jobs lets disks be mounted


class Refused(Exception):  # noqa: N818  (an answer)
    """The service would answer 400 with this message."""


class Unimplemented(Exception):  # noqa: N818  (an answer)
    """The stand-in does not have this part of the service."""


def check_id(job_id: str) -> None:
    if not _ID.fullmatch(job_id):
        raise Refused(f"job_id {job_id!r} is invalid: must match {_ID.pattern}")


def check_request_id(request_id: str) -> None:
    try:
        valid = not request_id or uuid.UUID(request_id).int != 0
    except ValueError:
        valid = False
    if not valid:
        raise Refused(f"request_id {request_id!r} is not a valid UUID")


def check_job(job: batch_v1.Job, size: int) -> None:
    """Raise if the service would not accept the job, whose definition has ``size`` bytes."""
    if size > _MOST_BYTES:
        raise Refused(f"job definition has {size} bytes, exceeds the limit of {_MOST_BYTES}")
    for place, labels in {
        "job": job.labels,
        "allocation_policy": job.allocation_policy.labels,
    }.items():
        _check_labels(f"{place}.labels", labels)
    if len(job.task_groups) != 1:
        raise Refused("job.task_groups must have exactly one task group")
    group = job.task_groups[0]
    if not 0 <= group.task_count <= _MOST_TASKS:
        raise Refused(f"task_count {group.task_count} must be between 1 and {_MOST_TASKS}")
    if not 0 <= group.parallelism <= _MOST_PARALLEL:
        raise Refused(f"parallelism {group.parallelism} must be at most {_MOST_PARALLEL}")
    if group.task_environments and len(group.task_environments) != (group.task_count or 1):
        raise Refused("task_environments must have one environment for each task")
    if job.notifications or group.require_hosts_file or group.permissive_ssh:
        raise Unimplemented("notifications, hosts files and SSH")
    if job.logs_policy.destination == batch_v1.LogsPolicy.Destination.PATH:
        raise Unimplemented("logs_policy.destination PATH")
    _check_spec(group.task_spec)
    instances = [one.policy for one in job.allocation_policy.instances]
    disks = {disk.device_name for instance in instances for disk in instance.disks}
    for volume in group.task_spec.volumes:
        if volume.device_name and volume.device_name not in disks:
            raise Refused(f"device_name {volume.device_name!r} is not an attached disk")


def _check_labels(where: str, labels: Mapping[str, str]) -> None:
    if len(labels) > _MOST_LABELS:
        raise Refused(f"{where}: {len(labels)} labels, exceeds the limit of {_MOST_LABELS}")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or key.startswith(("goog-", "google-")):
            raise Refused(f"{where}: label key {key!r} is invalid")
        if not _LABEL_VALUE.fullmatch(value):
            raise Refused(f"{where}: label value {value!r} of key {key!r} is invalid")


def _check_spec(spec: batch_v1.TaskSpec) -> None:
    if not spec.runnables:
        raise Refused("task_spec.runnables must not be empty")
    if not 0 <= spec.max_retry_count <= _MOST_RETRIES:
        raise Refused(f"max_retry_count {spec.max_retry_count} must be in [0, {_MOST_RETRIES}]")
    if len(spec.lifecycle_policies) > 1:
        raise Refused("only one lifecycle policy is supported")
    for runnable in spec.runnables:
        if "container" not in runnable or runnable.background:
            raise Unimplemented("scripts, barriers and runnables in the background")
        if not runnable.container.image_uri:
            raise Refused("container.image_uri must not be empty")
        _check_labels("runnable.labels", runnable.labels)
        _check_variables(runnable.environment)
    _check_variables(spec.environment)
    for volume in spec.volumes:
        if "gcs" not in volume and not volume.device_name:
            raise Unimplemented("volumes that are neither buckets nor disks")
        if "gcs" in volume and not volume.gcs.remote_path.strip("/"):
            raise Refused("volume.gcs.remote_path must not be empty")
        if not volume.mount_path.startswith(_DISKS) or ".." in volume.mount_path:
            raise Refused(f"mount_path {volume.mount_path!r} is not below {_DISKS}")


def _check_variables(environment: batch_v1.Environment) -> None:
    if environment.secret_variables or environment.encrypted_variables.cipher_text:
        raise Unimplemented("secret and encrypted variables")
    for name in environment.variables:
        if not _VARIABLE.fullmatch(name):
            raise Refused(f"environment variable {name!r} is invalid")
        if name.startswith("BATCH_"):
            raise Refused(f"environment variable {name!r}: the prefix BATCH_ is reserved")


def matching(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return whether an entry fits a filter such as ``labels.run=a AND status.state=FAILED``.

    Entries are resources as dictionaries, with the names of states.
    """
    terms: list[tuple[Sequence[str], str, str]] = []
    for part in re.split(r"\s+AND\s+", text) if text.strip() else []:
        found = _TERM.fullmatch(part)
        if found is None:
            raise Refused(f"filter {text!r} is invalid")
        path, sign, *values = found.groups()
        keys = ["labels", path[7:]] if path.startswith("labels.") else path.split(".")
        terms.append((keys, sign, next((value for value in values if value is not None), "")))

    def fits(entry: Mapping[str, Any]) -> bool:
        return all(_fits(entry, *term) for term in terms)

    return fits


def _fits(entry: Mapping[str, Any], keys: Sequence[str], sign: str, value: str) -> bool:
    found: Any = entry
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    if sign == ":" and value == "*":
        return found is not None
    return (str(found) == value) is not (sign == "!=")
