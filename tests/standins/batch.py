"""A stand-in for Cloud Batch: its REST interface, over jobs whose tasks really run."""

from __future__ import annotations

import asyncio
import base64
import fnmatch
import json
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from google.cloud import batch_v1
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, json_format

from tests.standins.batch_boxes import Machine, Machines
from tests.standins.batch_jobs import QUOTA, Attempt, JobRun, JobState, Mishap
from tests.standins.batch_rules import (
    Refused,
    Unimplemented,
    check_id,
    check_job,
    check_request_id,
    matching,
)
from tests.standins.buckets import Buckets
from tests.standins.executor import Executor
from tests.standins.server import Fault, Handler, Server

__all__ = ["BatchServer", "GoogleFault", "Mishap"]

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}
_PAGE, _LARGEST_PAGE = 100, 1000
_REGIONS = ("asia-east1", "europe-west1", "europe-west4", "us-central1", "us-east1", "us-west1")
_JOBS = "/v1/{parent:projects/[^/]+/locations/[^/:]+}/jobs"
_JOB = _JOBS + "/{job:[^/:]+}"
_TASKS = _JOB + "/taskGroups/group0/tasks"


@dataclass
class GoogleFault(Fault):
    """A fault whose answer is in the form of Google's services."""

    reason: str = ""

    def answer(self) -> web.Response:
        return _error(self.status or 500, self.message, self.reason)


class BatchServer(Server):
    """Cloud Batch, as its client sees it; at most ``capacity`` tasks run at once.

    ``mishaps`` befall tasks. A ``quota`` keeps new jobs in the queue until `grant_quota`.
    ``vanishing`` has patterns of objects that are removed at the end of a task, by its index.
    ``simulate`` is called instead of running the containers of an attempt, for benchmarks; it
    returns the exit code. With ``needs_token``, calls without credentials are refused.
    """

    CREATE = r"POST .*/jobs(\?|$)"
    DELETE = r"DELETE .*/jobs/[^/?]+(\?|$)"
    CANCEL = r"POST .*/jobs/[^/]+:cancel(\?|$)"
    GET = r"GET .*/jobs/[^/?]+(\?|$)"
    LIST = r"GET .*/jobs(\?|$)"
    TASKS = r"GET .*/tasks(\?|$)"

    def __init__(self, executor: Executor, buckets: Buckets, *, capacity: int = 8) -> None:
        super().__init__()
        self.jobs: dict[str, JobRun] = {}
        self.machines = Machines(executor, buckets)
        self.mishaps: list[Mishap] = []
        self.quota: str | None = None
        self.vanishing: dict[int, str] = {}
        self.simulate: Callable[[JobRun, Attempt], int] | None = None
        self.needs_token = False
        self._operations: dict[str, tuple[JobRun, str]] = {}
        self._requests: dict[str, JobRun] = {}
        self._threads = ThreadPoolExecutor(capacity, thread_name_prefix="batch")
        self.start(self.routes())

    def exhaust_quota(self, message: str = QUOTA) -> None:
        """Keep new jobs in the queue."""
        self.quota = message

    def grant_quota(self) -> None:
        """Start the jobs that wait for it."""
        self.quota = None
        for run in list(self.jobs.values()):
            run.start()

    def environment(self, directory: Path) -> dict[str, str]:
        """Return the variables that lead the clients here; credentials are in a directory."""
        return {
            **self.machines.buckets.environment(),
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.write_credentials(directory)),
            "GOOGLE_CLOUD_PROJECT": "project-1",
        }

    def write_credentials(self, directory: Path) -> Path:
        """Write credentials for which this server gives tokens."""
        subject = directory / "subject-token"
        subject.write_text("subject")
        account = {
            "type": "external_account",
            "audience": "stand-in",  # of no pool, about which Google would be asked
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{self.url}/token",
            "credential_source": {"file": str(subject)},
        }
        path = directory / "credentials.json"
        path.write_text(json.dumps(account))
        return path

    def close(self) -> None:
        for run in list(self.jobs.values()):
            run.stop(JobState.DELETION_IN_PROGRESS)
        self._threads.shutdown()
        super().close()

    # Tasks

    def _run(self, run: JobRun, attempt: Attempt) -> int:
        if self.simulate is not None:
            return self.simulate(run, attempt)
        name = run.job.name.rpartition("/")[2]
        machine = Machine(self.machines, name, attempt.index, run.spec, attempt.env)
        attempt.stop = partial(machine.lose, 1)
        if attempt.stopped:
            return 1
        mishap = next((one for one in self.mishaps if one.befalls(attempt.index)), None)
        code = machine.run(lose_after=(mishap.after_sec, mishap.code) if mishap else None)
        if attempt.index in self.vanishing:
            self._vanish(run.spec, self.vanishing[attempt.index])
        return code

    def _vanish(self, spec: batch_v1.TaskSpec, pattern: str) -> None:
        buckets = self.machines.buckets
        for volume in (one for one in spec.volumes if "gcs" in one):
            bucket, _, prefix = volume.gcs.remote_path.partition("/")
            for name in fnmatch.filter(buckets.names(bucket, prefix), pattern):
                buckets.remove(bucket, name)

    # The interface

    def routes(self) -> web.RouteTableDef:
        routes = web.RouteTableDef()
        routes.post("/token")(self._token)
        routes.post(_JOBS)(self._google(self._create))
        routes.get(_JOBS)(self._google(self._list))
        routes.get(_JOB)(self._google(self._get))
        routes.delete(_JOB)(self._google(self._delete))
        routes.post(_JOB + ":cancel")(self._google(self._cancel))
        routes.get(_TASKS)(self._google(self._list_tasks))
        routes.get(_TASKS + "/{index:[0-9]+}")(self._google(self._get_task))
        routes.get("/v1/projects/{project}/locations")(self._google(self._locations))
        routes.get("/v1/projects/{project}/locations/{region}")(self._google(self._location))
        operation = "/v1/{name:projects/[^/]+/locations/[^/]+/operations/[^/:]+}"
        routes.get(operation)(self._google(self._operation))
        routes.route("*", "/{rest:.*}")(self._google(self._unimplemented))
        return routes

    def _google(self, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if self.needs_token and not token:
                return _error(401, "Request had invalid authentication credentials.")
            region = request.match_info.get("parent", "").rpartition("/")[2]
            if region and region not in _REGIONS:
                return _error(403, f"Location {region} is not found or access is unauthorized.")
            try:
                return await handler(request)
            except Refused as error:
                return _error(400, str(error))
            except Unimplemented as error:
                return _error(501, f"the stand-in does not have {error}")
            except KeyError as error:
                return _error(404, f"Resource {error} was not found")

        return answer

    async def _token(self, request: web.Request) -> web.Response:
        token = {"access_token": secrets.token_hex(8), "token_type": "Bearer", "expires_in": 3600}
        issued = "urn:ietf:params:oauth:token-type:access_token"
        return web.json_response({**token, "issued_token_type": issued})

    async def _unimplemented(self, request: web.Request) -> web.Response:
        raise Unimplemented(f"{request.method} {request.path}")

    async def _create(self, request: web.Request) -> web.Response:
        text, parent = await request.text(), request.match_info["parent"]
        request_id = request.query.get("requestId", "")
        check_request_id(request_id)
        if request_id in self._requests:
            return _answer(self._requests[request_id].resource())
        try:
            job = batch_v1.Job.from_json(text)
        except json_format.ParseError as error:
            raise Refused(f"Invalid JSON payload received. {error}") from None
        job_id = request.query.get("jobId") or f"j-{secrets.token_hex(8)}"
        check_id(job_id)
        check_job(job, len(text.encode()))
        job.name = f"{parent}/jobs/{job_id}"
        if job.name in self.jobs:
            return _error(409, f"Resource '{job.name}' already exists")
        run = self.jobs[job.name] = JobRun(job, self._run, self._threads, self.quota)
        if request_id:
            self._requests[request_id] = run
        created = _answer(run.resource())
        if run.waits_for is None:
            run.start()
        return created

    def _find(self, request: web.Request) -> JobRun:
        return self.jobs["{parent}/jobs/{job}".format(**request.match_info)]

    async def _get(self, request: web.Request) -> web.Response:
        return _answer(self._find(request).resource())

    async def _list(self, request: web.Request) -> web.Response:
        parent = request.match_info["parent"]
        runs = [run for name, run in self.jobs.items() if name.startswith(f"{parent}/jobs/")]
        fits = matching(request.query.get("filter", ""))
        found = [run for run in reversed(runs) if fits(_as_dict(run.resource()))]
        page, token = _page(request, found)
        jobs = [run.resource() for run in page]
        return _answer(batch_v1.ListJobsResponse(jobs=jobs, next_page_token=token))

    async def _list_tasks(self, request: web.Request) -> web.Response:
        run, text = self._find(request), request.query.get("filter", "")
        with run.lock:
            found: Sequence[batch_v1.Task] = run.tasks
            if text:
                fits = matching(text)
                found = [task for task in found if fits(_as_dict(task))]
            page, token = _page(request, found)
            return _answer(batch_v1.ListTasksResponse(tasks=list(page), next_page_token=token))

    async def _get_task(self, request: web.Request) -> web.Response:
        run, index = self._find(request), int(request.match_info["index"])
        if index >= len(run.tasks):
            raise KeyError(request.path)
        with run.lock:
            return _answer(run.tasks[index])

    async def _delete(self, request: web.Request) -> web.Response:
        run = self._find(request)
        name = self._begin(run, "delete")
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, self._remove, run)
        return self._describe(name)

    def _remove(self, run: JobRun) -> None:
        run.stop(JobState.DELETION_IN_PROGRESS)
        run.ended.wait()
        self.jobs.pop(run.job.name, None)

    async def _cancel(self, request: web.Request) -> web.Response:
        run = self._find(request)
        name = self._begin(run, "cancel")
        asyncio.get_running_loop().run_in_executor(
            None, run.stop, JobState.CANCELLATION_IN_PROGRESS
        )
        return self._describe(name)

    # Operations that take a while

    def _begin(self, run: JobRun, verb: str) -> str:
        name = f"{run.job.name.partition('/jobs/')[0]}/operations/operation-{secrets.token_hex(6)}"
        self._operations[name] = (run, verb)
        return name

    async def _operation(self, request: web.Request) -> web.Response:
        return self._describe(request.match_info["name"])

    def _describe(self, name: str) -> web.Response:
        run, verb = self._operations[name]
        deleted = run.job.name not in self.jobs
        operation = operations_pb2.Operation(
            name=name, done=deleted or (verb == "cancel" and run.ended.is_set())
        )
        metadata = batch_v1.OperationMetadata(target=run.job.name, verb=verb, api_version="v1")
        operation.metadata.Pack(batch_v1.OperationMetadata.pb(metadata))
        if operation.done and verb == "delete":
            operation.response.Pack(empty_pb2.Empty())
        elif operation.done:
            operation.response.Pack(batch_v1.CancelJobResponse.pb(batch_v1.CancelJobResponse()))
        return web.json_response(json_format.MessageToDict(operation))

    # Regions

    async def _locations(self, request: web.Request) -> web.Response:
        return web.json_response({"locations": [_region(request, name) for name in _REGIONS]})

    async def _location(self, request: web.Request) -> web.Response:
        if request.match_info["region"] not in _REGIONS:
            raise KeyError(request.path.removeprefix("/v1/"))
        return web.json_response(_region(request, request.match_info["region"]))


def _region(request: web.Request, region: str) -> dict[str, str]:
    return {
        "name": f"projects/{request.match_info['project']}/locations/{region}",
        "locationId": region,
    }


def _page(request: web.Request, found: Sequence[Any]) -> tuple[Sequence[Any], str]:
    """Return what belongs on the wanted page, and the token of the next."""
    size = min(int(request.query.get("pageSize", 0)) or _PAGE, _LARGEST_PAGE)
    token = request.query.get("pageToken", "")
    try:
        start = int(base64.urlsafe_b64decode(token)) if token else 0
    except ValueError:
        raise Refused(f"page token {token!r} is invalid") from None
    end = start + size
    following = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(found) else ""
    return found[start:end], following


def _as_dict(resource: Any) -> dict[str, Any]:
    return dict(type(resource).to_dict(resource, use_integers_for_enums=False))


def _answer(resource: Any) -> web.Response:
    text = type(resource).to_json(resource, always_print_fields_with_no_presence=False, indent=None)
    return web.Response(text=text, content_type="application/json")


def _error(code: int, message: str, reason: str = "") -> web.Response:
    error: dict[str, Any] = {"code": code, "message": message, "status": _STATUSES.get(code, "")}
    if reason:
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        error["details"] = [{"@type": kind, "reason": reason, "domain": "googleapis.com"}]
    return web.json_response({"error": error}, status=code)
