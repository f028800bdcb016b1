"""The definition of a Batch job, and the options that it comes from."""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends import BackendExecutionRequest, Limits, TrialRequest, is_batch
from pytest_aecbench.backends.gcp import GCPBatchBackend, job, options
from pytest_aecbench.backends.gcp.cloud import translated
from pytest_aecbench.backends.remote.calls import Busy
from pytest_aecbench.errors import LaunchError, SettingsError, TaskError
from tests.standins.batch_rules import check_job
from tests.tasks import write_tree

COMMAND = BackendExecutionRequest("true")
# An option and a part of the definition that has it.
SEEN: dict[str, tuple[Any, str]] = {
    "accelerator_count": (3, '"count":"3"'),
    "accelerator_type": ("nvidia-l4", '"type":"nvidia-l4"'),
    "boot_disk_gb": (77, '"sizeGb":"77"'),
    "boot_disk_image": ("batch-cos", '"image":"batch-cos"'),
    "disks": (["pd-ssd:88:/mnt/disks/x"], '"sizeGb":"88"'),
    "hide_bucket": (True, "--cap-add=SYS_ADMIN"),
    "machine_type": ("n1-standard-4", '"machineType":"n1-standard-4"'),
    "max_retry_count": (4, '"maxRetryCount":4'),
    "network": ("global/networks/n", '"network":"global/networks/n"'),
    "no_external_ip": (True, '"noExternalIpAddress":true'),
    "service_account": ("robot@x", '"email":"robot@x"'),
    "spot": (True, '"provisioningModel":2'),
    "subnetwork": ("regions/r/subnetworks/s", '"subnetwork":"regions/r/subnetworks/s"'),
    "zone": ("us-central1-b", "zones/us-central1-b"),
    "region": ("us-east1", "regions/us-east1"),
}
# These are not about the job itself: the clients, the registry and the follower read them.
ELSEWHERE = {
    "bucket", "endpoint", "parallelism", "poll_sec", "project", "repository", "single"
}  # fmt: skip


def request(number: int = 0, *, verifier_network: bool = True, **limits: Any) -> TrialRequest:
    return TrialRequest(
        str(number),
        "image",
        Path(),
        COMMAND,
        COMMAND,
        Limits(**limits),
        "image",
        verifier_network,
    )


def definition(
    given: dict[str, Any], *requests: TrialRequest, parallelism: int | None = None
) -> str:
    ((kind, alike),) = job.kinds(requests or [request()]).items()
    made = job.define(
        kind,
        len(alike),
        job.longest(alike),
        remote_path="bucket/x",
        options=options.read({"hide_bucket": False, "project": "p", **given}),
        parallelism=parallelism,
        labels={"aecbench": "1"},
    )
    text: str = type(made).to_json(made, indent=None)
    check_job(made, len(text))  # it is one that Batch accepts
    return text.replace('": ', '":').replace(', "', ',"')


def test_every_option_is_tried() -> None:
    assert {*SEEN, *ELSEWHERE} == {*options.OPTIONS}


@pytest.mark.parametrize("key", SEEN)
def test_every_option_of_a_job_is_in_its_definition(key: str) -> None:
    value, seen = SEEN[key]
    more = {"accelerator_type": "nvidia-l4"} if key == "accelerator_count" else {}
    assert seen in definition({**more, key: value})
    assert seen not in definition({})


def test_limits_are_those_of_the_machine_and_of_the_container() -> None:
    limits: dict[str, Any] = {"cpus": 1.5, "memory_mb": 300, "storage_mb": 4000}
    text = definition({}, request(network=False, lifetime_sec=90.5, **limits))
    for seen in ('"cpuMilli":"1500"', '"memoryMib":"300"', '"maxRunDuration":"91s"'):
        assert seen in text
    assert '"bootDiskMib":"4000"' in text
    for seen in ("--cpus=1.5", "--memory=300m"):
        assert seen in text


def test_only_those_are_without_a_network_that_are_to_be() -> None:
    apart = [
        definition({}, request(network=network, verifier_network=verifier)).count("--network=none")
        for network in (True, False)
        for verifier in (True, False)
    ]
    assert apart == [0, 1, 1, 2]


def test_gpus_are_those_that_a_task_asks_for() -> None:
    given = {"accelerator_type": "nvidia-l4", "accelerator_count": 4}
    text = definition(given, request(gpus=2))
    for seen in ('"count":"2"', "--gpus=all", '"installGpuDrivers":true'):
        assert seen in text
    assert "--gpus" not in definition(given)
    assert GCPBatchBackend(given).refuse_gpus() is None


def test_without_a_type_of_gpu_a_task_that_needs_one_is_refused(tmp_path: Path) -> None:
    toml = '[environment]\ndocker_image = "image"\n'
    backend = GCPBatchBackend({"project": "p"})
    image_ref = backend.build_environment(task_dir=write_tree(tmp_path, {"task.toml": toml}))
    said = r"compute\.gcp\.accelerator_type is not set; name a type there"
    assert re.match(said, backend.refuse_gpus() or "")
    with pytest.raises(LaunchError, match=said):
        backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path, limits=Limits(gpus=1))


def test_a_healthcheck_needs_single_commands(tmp_path: Path) -> None:
    toml = '[environment]\ndocker_image = "x"\n[environment.healthcheck]\ncommand = "true"\n'
    write_tree(tmp_path, {"task.toml": toml})
    backend = GCPBatchBackend({"project": "p"})
    with pytest.raises(TaskError, match=r"healthcheck: gcp runs whole trials and no single comm"):
        backend.examine([tmp_path])
    backend.singly().examine([tmp_path])


def test_a_disk_is_not_shared_with_a_verifier_apart() -> None:
    path = "/mnt/disks/x"
    text = definition({"disks": [f"pd-ssd:88:{path}"]})
    assert text.count(f'"{path}:{path}:rw"') == 1
    assert text.index(f'"{path}:{path}:rw"') < text.index('"displayName":"verify"')


def test_parallelism_is_at_most_what_batch_allows() -> None:
    many = [request(number) for number in range(6000)]
    assert '"taskCount":"6000","parallelism":"5000"' in definition({}, *many)
    assert '"parallelism":"7"' in definition({}, *many, parallelism=7)


def test_more_tasks_than_a_job_may_have_are_several_jobs() -> None:
    one = request()
    assert [len(part) for part in job.split([one] * 250_000)] == [100_000, 100_000, 50_000]


def test_a_definition_is_small_however_many_tasks_it_has() -> None:
    few, many = (
        job.define(
            job.kind_of("image", Limits()),
            count,
            60.0,
            remote_path="bucket/x",
            options=options.read({"project": "p"}),
            parallelism=None,
            labels={},
        )
        for count in (1, 100_000)
    )
    sizes = [len(type(one).to_json(one)) for one in (few, many)]
    assert sizes[1] - sizes[0] < 20
    assert sizes[1] < 1_000_000


def test_single_commands_are_asked_for_by_an_option() -> None:
    whole = GCPBatchBackend({"project": "p"})
    assert [is_batch(one) for one in (whole, whole.singly())] == [True, False]
    assert whole.warning is None
    single = GCPBatchBackend({"project": "p", "single": True})
    assert single.describe().endswith(", each command a job)")
    assert whole.singly().describe() == single.describe()


def test_the_environment_names_project_region_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-env")
    monkeypatch.setenv("GCP_REGION", "europe-west4")
    monkeypatch.setenv("GCP_MACHINE_TYPE", "e2-small")
    assert GCPBatchBackend().describe() == "gcp (project from-env, europe-west4, e2-small)"
    backend = GCPBatchBackend(project_id="p", region="us-east1", machine_type="n1-standard-4")
    assert backend.describe() == "gcp (project p, us-east1, n1-standard-4)"


def test_without_a_project_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    with pytest.raises(SettingsError, match=r"^GOOGLE_CLOUD_PROJECT is not set; export it, or set"):
        GCPBatchBackend().describe()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"machinetype": "x"}, "compute.gcp.machinetype: is not known; did you mean"),
        ({"spot": "yes"}, "compute.gcp.spot: 'yes' is not valid; use true or false"),
        ({"disks": ["x"]}, "compute.gcp.disks: 'x' is not valid; write TYPE:GB:/mnt/disks/NAME"),
        ({"accelerator_count": 1}, "compute.gcp.accelerator_count: has no type; set"),
        ({"zone": "us-east1-b"}, "compute.gcp.zone: 'us-east1-b' is not in region 'us-central1'"),
    ],
)
def test_bad_options_are_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        GCPBatchBackend(given)
    assert str(raised.value).startswith(message)


def test_a_call_survives_that_pytest_changes_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Google's clients look for proxies with each call, in threads."""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "kept for the end")
    over = threading.Event()
    before = sys.getswitchinterval()

    def change() -> None:
        while not over.is_set():
            os.environ["PYTEST_CURRENT_TEST"] = "x"
            os.environ.pop("PYTEST_CURRENT_TEST")

    def look() -> None:
        for _ in range(100_000):
            with translated("a call"):
                dict(os.environ.items())  # as many a library does to look for proxies

    thread = threading.Thread(target=change)
    thread.start()
    sys.setswitchinterval(1e-6)
    try:
        with pytest.raises(Busy, match="the environment has changed"):
            look()
    finally:
        sys.setswitchinterval(before)
        over.set()
        thread.join()
