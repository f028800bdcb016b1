"""Errors of Google's services and of tasks as ours: each told apart, with what to do."""

from __future__ import annotations

import errno
from fnmatch import fnmatchcase
from typing import Any

import pytest
from google.api_core import exceptions as of_calls
from google.auth import exceptions as of_credentials
from google.cloud import batch_v1
from google.rpc import error_details_pb2

from pytest_aecbench.backends.gcp import failures
from pytest_aecbench.backends.gcp.cloud import NotThere, translated
from pytest_aecbench.backends.remote.calls import Busy
from pytest_aecbench.errors import (
    AecBenchError,
    BackendError,
    SettingsError,
    TransferError,
    classify,
)
from tests.conformance.gcp import ENDS
from tests.standins.batch_jobs import QUOTA

exceptions: Any = of_calls  # whose constructors have no types
auth: Any = of_credentials
JobState: Any = batch_v1.JobStatus.State
TaskState: Any = batch_v1.TaskStatus.State
NO_CODE = QUOTA.replace("CODE_GCE_QUOTA_EXCEEDED", "CODE_GCE_{}").partition("Quota")[0]


def forbidden(message: str = "no", reason: str = "") -> Exception:
    info = error_details_pb2.ErrorInfo(reason=reason)
    error: Exception = exceptions.Forbidden(message, error_info=info)
    return error


TOLD: dict[str, tuple[str, Exception, type[Exception], str]] = {
    "none": ("x", auth.DefaultCredentialsError("no"), SettingsError, "no credentials; run 'gcl"),
    "refused": ("x", auth.RefreshError("old"), SettingsError, "credentials are refused; old; run"),
    "no answer": ("x", auth.TransportError("off", retryable=True), Busy, "off"),
    "unauthorized": ("x", exceptions.Unauthorized("no"), SettingsError, "are refused; no; run"),
    "role": ("x", forbidden(), SettingsError, "not allowed; no; give your account the roles batch"),
    "api": ("x", forbidden(reason="SERVICE_DISABLED"), SettingsError, "gcloud services enable"),
    "api, by its text": (
        "x",
        forbidden("Cloud Batch API has not been used in project 1 before or it is disabled"),
        SettingsError,
        "an API is not enabled",
    ),
    "rate": ("x", forbidden(reason="RATE_LIMIT_EXCEEDED"), Busy, "no"),
    "billing": ("x", forbidden("Billing is off"), SettingsError, "the project has no billing; Bi"),
    "not found": ("x", exceptions.NotFound("gone"), NotThere, "gone"),
    "bucket of others": ("bucket b", exceptions.Conflict("x"), SettingsError, "taken by another"),
    "conflict": ("x", exceptions.Conflict("twice"), BackendError, "twice"),
    "too many": ("x", exceptions.TooManyRequests("slow"), Busy, "slow"),
    "server": ("x", exceptions.ServiceUnavailable("later"), Busy, "later"),
    "connection": ("x", ConnectionResetError("cut"), Busy, "cut"),
    "full": ("x", OSError(errno.ENOSPC, "No space left"), TransferError, "No space left"),
    "over": ("x", exceptions.RetryError("over", None), Busy, "over"),
    "bad": ("x", exceptions.BadRequest("type z is not known"), SettingsError, "refused; type z"),
    "other": ("x", exceptions.PreconditionFailed("never"), BackendError, "never"),
}


@pytest.mark.parametrize("kind", TOLD)
def test_each_error_of_a_service_says_what_to_do(kind: str) -> None:
    what, error, expected, words = TOLD[kind]
    with pytest.raises(AecBenchError) as raised, translated(what):
        raise error
    assert type(raised.value) is expected
    assert str(raised.value).startswith("gcp: ")
    assert words in str(raised.value)


def failed(description: str, code: int = 0) -> batch_v1.Task:
    event: dict[str, Any] = {"description": description, "task_state": TaskState.FAILED}
    if code:
        event["task_execution"] = {"exit_code": code}
    return batch_v1.Task(status={"state": TaskState.FAILED, "status_events": [event]})


@pytest.mark.parametrize("in_text", [False, True], ids=["event", "text"])
@pytest.mark.parametrize("code", ENDS)
def test_each_end_of_a_task_says_what_to_do(code: int, in_text: bool) -> None:
    said = "Task state is updated from RUNNING to FAILED on zones/z/instances/1"
    task = failed(f"{said} due to exit code {code}") if in_text else failed(said, code)
    error = failures.task_failure(task, "gcp: job j, task 1")
    cause, words = ENDS[code]
    assert classify(error).cause == cause
    assert fnmatchcase(str(error), f"gcp: job j, task 1: *{words}*")


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        (QUOTA, "a quota is exhausted; ask for more at https://*(Quota 'CPUS' exceeded. Limit: *)"),
        (NO_CODE.format("ZONE_RESOURCE_POOL_EXHAUSTED"), "the zone has no such machines left; *"),
        ("Instance creation failed: STOCKOUT", "the zone has no such machines left; *"),
        (
            NO_CODE.format("SUBNET_NOT_FOUND") + "subnetwork s\n was not found.",
            "no machine can be had (CODE_GCE_SUBNET_NOT_FOUND: *: subnetwork s was not found)",
        ),
        ("Job state is set from QUEUED to SCHEDULED for job j.", ""),
    ],
)
def test_each_reason_to_wait_is_said(description: str, reason: str) -> None:
    events = [{"description": description}, {"description": "Job state is set."}]
    job = batch_v1.Job(status={"state": JobState.QUEUED, "status_events": events})
    assert fnmatchcase(failures.reason_to_wait(job), reason)
