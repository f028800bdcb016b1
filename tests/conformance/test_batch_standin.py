"""The stand-in for Cloud Batch, as Google's own clients see it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.auth import credentials
from google.cloud import batch_v1

from tests.standins.batch import BatchServer, GoogleFault, Mishap
from tests.standins.batch_boxes import DOCKER_FAILED, LOST_REPORTS, PREEMPTED, TIMED_OUT
from tests.standins.buckets import Buckets
from tests.stopping import wait_until

pytestmark = pytest.mark.needs("namespaces")

_ANONYMOUS: Any = credentials.AnonymousCredentials()  # type: ignore[no-untyped-call]
PARENT = "projects/project-1/locations/us-central1"
SHARE = "/mnt/disks/share"
State = batch_v1.JobStatus.State
TaskState = batch_v1.TaskStatus.State
MakeJob = Callable[..., batch_v1.Job]


@pytest.fixture
def bucket(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in buckets.environment().items():
        monkeypatch.setenv(name, value)
    client: Any = import_module("google.cloud.storage").Client(project="project-1")
    yield client.create_bucket(f"bucket-{uuid.uuid4()}")
    client.close()


@pytest.fixture
def client(batch: BatchServer) -> batch_v1.BatchServiceClient:
    return batch_v1.BatchServiceClient(
        transport="rest",
        credentials=_ANONYMOUS,
        client_options={"api_endpoint": batch.url},
    )


@pytest.fixture
def make_job(bucket: Any) -> MakeJob:
    def make(*scripts: str, count: int = 1, **spec: Any) -> batch_v1.Job:
        runnables = [{"container": container(script)} for script in scripts]
        volume = {"gcs": {"remote_path": f"{bucket.name}/runs/1"}, "mount_path": SHARE}
        spec = {"runnables": runnables, "volumes": [volume], **spec}
        return batch_v1.Job(task_groups=[{"task_spec": spec, "task_count": count}])

    return make


def container(script: str, **fields: Any) -> dict[str, Any]:
    image = {"image_uri": "python:3.11-slim", "entrypoint": "/bin/bash"}
    return {**image, "commands": ["-c", script], **fields}


def create(
    client: batch_v1.BatchServiceClient, job: batch_v1.Job, job_id: str = "job-1", **more: Any
) -> batch_v1.Job:
    return client.create_job({"parent": PARENT, "job": job, "job_id": job_id, **more})


def end(client: batch_v1.BatchServiceClient, job: batch_v1.Job) -> batch_v1.Job:
    over = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
    wait_until(lambda: client.get_job(name=job.name).status.state in over)
    return client.get_job(name=job.name)


def run(client: batch_v1.BatchServiceClient, job: batch_v1.Job) -> batch_v1.Job:
    return end(client, create(client, job))


def tasks(client: batch_v1.BatchServiceClient, job: batch_v1.Job, **query: Any) -> list[Any]:
    parent = f"{job.name}/taskGroups/group0"
    return list(client.list_tasks({"parent": parent, **query}))


def exit_codes(task: batch_v1.Task) -> list[int]:
    ended = (TaskState.FAILED, TaskState.SUCCEEDED)
    events = task.status.status_events
    return [event.task_execution.exit_code for event in events if event.task_state in ended]


# Tasks


def test_each_task_knows_its_index_and_its_files_are_objects(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, bucket: Any
) -> None:
    bucket.blob("runs/1/in/2").upload_from_string("two")
    bucket.blob("elsewhere").upload_from_string("not below the prefix")
    script = f"""
        cd {SHARE} && ls && mkdir -p out/$BATCH_TASK_INDEX
        echo "$BATCH_TASK_INDEX of $BATCH_TASK_COUNT $(cat in/2)" > out/$BATCH_TASK_INDEX/text
        echo once > part-$BATCH_TASK_INDEX && mv part-$BATCH_TASK_INDEX out/$BATCH_TASK_INDEX/moved
    """
    job = run(client, make_job(script, count=3))
    assert job.status.state == State.SUCCEEDED
    assert dict(job.status.task_groups["group0"].counts) == {"SUCCEEDED": 3}
    names = [blob.name for blob in bucket.list_blobs(prefix="runs/1/out/")]
    assert names == [f"runs/1/out/{n}/{name}" for n in range(3) for name in ("moved", "text")]
    texts = [bucket.blob(f"runs/1/out/{n}/text").download_as_text() for n in range(3)]
    assert texts == ["0 of 3 two\n", "1 of 3 two\n", "2 of 3 two\n"]
    assert not list(bucket.list_blobs(prefix="runs/1/part"))


def test_runnables_share_volumes_and_nothing_else(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    work = "/mnt/disks/work:/workspace"
    first = container("echo x > /workspace/kept; echo x > /root/gone", volumes=[work])
    check = "cat /workspace/kept && test ! -e /root/gone && ! touch /workspace/new"
    second = container(check, volumes=[f"{work}:ro"])
    runnables = [{"container": first}, {"container": second}]
    job = run(client, make_job(runnables=runnables))
    assert job.status.state == State.SUCCEEDED, batch.machines.outputs


def test_variables_come_from_the_nearest_place(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    script = 'echo "$A $B $C $D"; pwd'
    runnable = {
        "container": container(script, options="--env D=4 --workdir /tmp"),
        "environment": {"variables": {"C": "runnable"}},
    }
    variables = {"A": "task", "B": "task", "C": "task"}
    job = make_job(runnables=[runnable], environment={"variables": variables})
    job.task_groups[0].task_environments = [batch_v1.Environment(variables={"B": "own"})]
    run(client, job)
    assert batch.machines.outputs["job-1", 0] == "task own runnable 4\n/tmp\n"


def test_after_a_failure_only_those_run_that_always_do(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    runnables = [
        {"container": container("echo one; exit 3"), "ignore_exit_status": True},
        {"container": container("echo two; exit 4")},
        {"container": container("echo three")},
        {"container": container("echo four; exit 5"), "always_run": True},
    ]
    job = run(client, make_job(runnables=runnables))
    assert job.status.state == State.FAILED
    assert batch.machines.outputs["job-1", 0] == "one\ntwo\nfour\n"
    assert [exit_codes(task) for task in tasks(client, job)] == [[4]]


def test_one_failed_task_fails_the_job_and_no_sibling(
    client: batch_v1.BatchServiceClient, make_job: MakeJob
) -> None:
    job = run(client, make_job("exit $(( BATCH_TASK_INDEX == 1 ? 7 : 0 ))", count=3))
    assert job.status.state == State.FAILED
    assert [exit_codes(task) for task in tasks(client, job)] == [[0], [7], [0]]
    (failed,) = tasks(client, job, filter="status.state=FAILED")
    assert failed.name == f"{job.name}/taskGroups/group0/tasks/1"
    assert client.get_task(name=failed.name) == failed


@pytest.mark.parametrize("limit", [{"max_run_duration": "1s"}, {"timeout": "1s"}])
def test_a_run_time_limit_has_its_own_exit_code(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, limit: dict[str, str]
) -> None:
    duration = {name: {"seconds": int(value[:-1])} for name, value in limit.items()}
    runnable: dict[str, Any] = {"container": container("sleep 600")}
    if "timeout" in duration:
        runnable |= duration
        duration = {}
    job = run(client, make_job(runnables=[runnable], **duration))
    assert [exit_codes(task) for task in tasks(client, job)] == [[TIMED_OUT]]


def test_a_policy_retries_what_it_names_and_fails_the_rest(
    client: batch_v1.BatchServiceClient, make_job: MakeJob
) -> None:
    policy = {"action": "RETRY_TASK", "action_condition": {"exit_codes": [75, PREEMPTED]}}
    script = "exit $(( BATCH_TASK_INDEX ? 9 : BATCH_TASK_RETRY_ATTEMPT < 2 ? 75 : 0 ))"
    job = make_job(script, count=2, max_retry_count=3, lifecycle_policies=[policy])
    job = run(client, job)
    assert [exit_codes(task) for task in tasks(client, job)] == [[75, 75, 0], [9]]


@pytest.mark.parametrize("code", [PREEMPTED, LOST_REPORTS])
def test_a_lost_machine_is_replaced_as_often_as_the_job_allows(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer, code: int
) -> None:
    batch.mishaps += [Mishap(code, index=1), Mishap(code, index=2, times=9)]
    policy = {"action": "RETRY_TASK", "action_condition": {"exit_codes": [code]}}
    job = make_job("true", count=3, max_retry_count=1, lifecycle_policies=[policy])
    job = run(client, job)
    assert [exit_codes(task) for task in tasks(client, job)] == [[0], [code, 0], [code, code]]


def test_an_image_that_cannot_be_pulled_fails_its_task(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    batch.machines.missing_images.add("python:3.11-slim")
    job = run(client, make_job("true"))
    assert [exit_codes(task) for task in tasks(client, job)] == [[DOCKER_FAILED]]


def test_outputs_may_vanish(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer, bucket: Any
) -> None:
    batch.vanishing[1] = "runs/1/result-1*"
    job = run(client, make_job(f"echo > {SHARE}/result-$BATCH_TASK_INDEX", count=2))
    assert job.status.state == State.SUCCEEDED
    assert [blob.name for blob in bucket.list_blobs()] == ["runs/1/result-0"]


def test_a_disk_is_a_directory_of_its_own(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    disk = {"device_name": "scratch", "mount_path": "/mnt/disks/scratch"}
    write, read = "echo x > /mnt/disks/scratch/kept", "cat /mnt/disks/scratch/kept"
    job = make_job(write, read, volumes=[disk])
    with pytest.raises(exceptions.BadRequest, match="'scratch' is not an attached disk"):
        create(client, job)
    disks = [{"device_name": "scratch", "new_disk": {"type_": "pd-ssd", "size_gb": 10}}]
    policy = {"instances": [{"policy": {"disks": disks}}]}
    job.allocation_policy = batch_v1.AllocationPolicy(policy)
    assert run(client, job).status.state == State.SUCCEEDED, batch.machines.outputs
    assert batch.machines.outputs["job-1", 0] == "x\n"


# Jobs


def test_no_more_tasks_run_at_once_than_the_job_says(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, bucket: Any
) -> None:
    script = f"cd {SHARE}; touch on-$BATCH_TASK_INDEX; ls on-* > saw-$BATCH_TASK_INDEX; rm on-*"
    job = make_job(script, count=3)
    job.task_groups[0].parallelism = 1
    run(client, job)
    saw = [bucket.blob(f"runs/1/saw-{n}").download_as_text() for n in range(3)]
    assert saw == ["on-0\n", "on-1\n", "on-2\n"]
    assert not list(bucket.list_blobs(prefix="runs/1/on-"))


def test_without_quota_a_job_waits_and_says_why(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    batch.exhaust_quota()
    job = client.get_job(name=create(client, make_job("true")).name)
    assert job.status.state == State.QUEUED
    assert "CODE_GCE_QUOTA_EXCEEDED" in job.status.status_events[-1].description
    batch.grant_quota()
    ended = end(client, job)
    changes = [event.description.split(" for ")[0] for event in ended.status.status_events[1:]]
    assert changes == [
        "Job state is set from QUEUED to SCHEDULED",
        "Job state is set from SCHEDULED to RUNNING",
        "Job state is set from RUNNING to SUCCEEDED",
    ]


@pytest.mark.parametrize("verb", ["cancel_job", "delete_job"])
def test_ending_a_job_ends_its_tasks(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer, verb: str
) -> None:
    job = make_job("sleep 600", count=3)
    job.task_groups[0].parallelism = 2
    job = create(client, job)
    running = {"filter": "status.state=RUNNING"}
    wait_until(lambda: len(tasks(client, job, **running)) == 2)
    getattr(client, verb)(name=job.name).result(timeout=60)
    if verb == "delete_job":
        with pytest.raises(exceptions.NotFound):
            client.get_job(name=job.name)
    else:
        assert client.get_job(name=job.name).status.state == State.CANCELLED
        states = [task.status.state for task in tasks(client, job)]
        assert states == [TaskState.FAILED, TaskState.FAILED, TaskState.UNEXECUTED]
    assert list(batch.machines.executor) == []


def test_lists_have_pages_and_filters(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    batch.exhaust_quota()
    for number in range(5):
        job = make_job("true", count=7)
        job.labels = {"run": "a" if number % 2 else "b", "kind": "trial"}
        create(client, job, f"job-{number}")
    found = client.list_jobs({"parent": PARENT, "filter": "labels.run=b AND labels.kind:*",
                              "page_size": 2})  # fmt: skip
    assert [job.name.rpartition("/")[2] for job in found] == ["job-4", "job-2", "job-0"]
    assert len(batch.called(batch.LIST)) == 2
    assert len(tasks(client, job=client.get_job(name=f"{PARENT}/jobs/job-1"), page_size=3)) == 7
    assert len(batch.called(batch.TASKS)) == 3


def test_a_repeated_request_is_one_job(
    client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
) -> None:
    request_id = str(uuid.uuid4())
    made = [create(client, make_job("true"), request_id=request_id) for _ in range(2)]
    assert made[0].uid == made[1].uid
    with pytest.raises(exceptions.Conflict):
        create(client, make_job("true"))
    assert len(batch.jobs) == 1


@pytest.mark.parametrize(
    ("job_id", "change", "message"),
    [
        ("Job", {}, "job_id 'Job' is invalid"),
        ("job-", {}, "job_id 'job-' is invalid"),
        ("job", {"labels": {"run": "UPPER"}}, "label value 'UPPER'"),
        ("job", {"labels": {"aecbench.run": "x"}}, "label key 'aecbench.run'"),
        ("job", {"labels": {f"k{n}": "" for n in range(65)}}, "65 labels"),
        ("job", {"task_groups": []}, "exactly one task group"),
        ("job", {"count": 100_001}, "task_count 100001"),
        ("job", {"parallelism": 5_001}, "parallelism 5001"),
        ("job", {"script": "x" * 1_000_000}, "exceeds the limit of 1000000"),
    ],
)
def test_a_job_that_the_service_would_refuse_is_refused(
    client: batch_v1.BatchServiceClient,
    make_job: MakeJob,
    batch: BatchServer,
    job_id: str,
    change: dict[str, Any],
    message: str,
) -> None:
    job = make_job(change.get("script", "true"), count=change.get("count", 1))
    job.labels = change.get("labels", {})
    job.task_groups[0].parallelism = change.get("parallelism", 0)
    if "task_groups" in change:
        job.task_groups = []
    with pytest.raises(exceptions.BadRequest, match=message):
        create(client, job, job_id)
    assert batch.jobs == {}


def test_a_part_that_is_missing_says_so(
    client: batch_v1.BatchServiceClient, make_job: MakeJob
) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="scripts"):
        create(client, make_job(runnables=[{"script": {"text": "true"}}]))
    with pytest.raises(exceptions.MethodNotImplemented):
        client.list_operations({"name": PARENT})


def test_faults_are_answered_as_google_does(
    client: batch_v1.BatchServiceClient, batch: BatchServer
) -> None:
    fault = GoogleFault(batch.LIST, status=403, message="not enabled", reason="SERVICE_DISABLED")
    batch.faults.append(fault)
    with pytest.raises(exceptions.Forbidden, match="not enabled") as caught:
        client.list_jobs({"parent": PARENT})
    assert caught.value.reason == "SERVICE_DISABLED"
    assert list(client.list_jobs({"parent": PARENT})) == []


def test_credentials_from_a_file_are_accepted(
    batch: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch.needs_token = True
    for name, value in batch.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    options = {"api_endpoint": batch.url}
    client = batch_v1.BatchServiceClient(transport="rest", client_options=options)
    assert list(client.list_jobs({"parent": PARENT})) == []
    assert client.get_location({"name": PARENT}).location_id == "us-central1"
    called = [call for call in batch.calls if "/v1/" in call.path]
    assert all(call.headers["Authorization"].startswith("Bearer ") for call in called)


def test_a_call_without_credentials_may_be_refused(batch: BatchServer) -> None:
    batch.needs_token = True
    answered = requests.get(f"{batch.url}/v1/{PARENT}/jobs", timeout=30)
    assert answered.status_code == 401
    assert answered.json()["error"]["status"] == "UNAUTHENTICATED"


@pytest.mark.needs("docker")
class TestInContainers:
    """The same with containers of real images."""

    in_containers = True

    def test_tasks_are_containers_that_see_the_bucket(
        self, client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
    ) -> None:
        test_runnables_share_volumes_and_nothing_else(client, make_job, batch)

    def test_files_are_objects(
        self, client: batch_v1.BatchServiceClient, make_job: MakeJob, bucket: Any
    ) -> None:
        test_each_task_knows_its_index_and_its_files_are_objects(client, make_job, bucket)

    def test_a_container_has_the_capabilities_that_it_asks_for(
        self, client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
    ) -> None:
        script = f"mount -t tmpfs none {SHARE} && ls {SHARE} | wc -l"
        options = "--user=0 --memory=512m --cpus=1 --cap-add=SYS_ADMIN"
        options += " --security-opt=apparmor=unconfined"
        refused, allowed = container(script), container(script, options=options)
        runnables = [
            {"container": refused, "ignore_exit_status": True},
            {"container": allowed},
        ]
        job = run(client, make_job(f"echo > {SHARE}/x", runnables=runnables))
        output = batch.machines.outputs["job-1", 0]
        assert job.status.state == State.SUCCEEDED, output
        assert output.endswith("\n0\n")

    def test_an_image_that_the_engine_lacks_fails_its_task(
        self, client: batch_v1.BatchServiceClient, make_job: MakeJob, batch: BatchServer
    ) -> None:
        job = run(client, make_job(runnables=[{"container": container("", image_uri="no/such")}]))
        assert [exit_codes(task) for task in tasks(client, job)] == [[DOCKER_FAILED]]
        assert "no/such" in batch.machines.outputs["job-1", 0]
