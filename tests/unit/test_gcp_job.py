"""The definition of a Batch job, and the options that it comes from."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any
from urllib.request import getproxies_environment

import pytest

from pytest_aecbench.backends import BackendExecutionRequest, Limits, TrialRequest, is_batch
from pytest_aecbench.backends.gcp import GCPBatchBackend, job, options
from pytest_aecbench.backends.gcp.cloud import translated
from pytest_aecbench.backends.remote.calls import Busy
from pytest_aecbench.errors import SettingsError

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
    "zone": ("us-east1-b", "zones/us-east1-b"),
    "region": ("us-east1", "regions/us-east1"),
}
# These are not about the job itself: the clients, the registry and the follower read them.
ELSEWHERE = {
    "bucket", "endpoint", "parallelism", "poll_sec", "project", "repository", "single"
}  # fmt: skip


def request(number: int = 0, **limits: Any) -> TrialRequest:
    return TrialRequest(str(number), "image", Path(), COMMAND, COMMAND, Limits(**limits), "image")


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
    text = definition({}, request(cpus=1.5, memory_mb=300, network=False, lifetime_sec=90.5))
    for seen in ('"cpuMilli":"1500"', '"memoryMib":"300"', '"maxRunDuration":"91s"'):
        assert seen in text
    for seen in ("--cpus=1.5", "--memory=300m", "--network=none"):
        assert seen in text


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"machinetype": "x"}, "compute.gcp.machinetype: is not known; did you mean"),
        ({"spot": "yes"}, "compute.gcp.spot: 'yes' is not valid; use true or false"),
        ({"disks": ["x"]}, "compute.gcp.disks: 'x' is not valid; write TYPE:GB:/mnt/disks/NAME"),
        ({"accelerator_count": 1}, "compute.gcp.accelerator_count: has no type; set"),
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

    def change() -> None:
        while not over.is_set():
            os.environ["PYTEST_CURRENT_TEST"] = "x"
            os.environ.pop("PYTEST_CURRENT_TEST")

    def look() -> None:
        for _ in range(100_000):
            with translated("a call"):
                getproxies_environment()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with pytest.raises(Busy, match="the environment has changed"):
            look()
    finally:
        over.set()
        thread.join()
