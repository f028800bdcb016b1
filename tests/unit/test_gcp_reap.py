"""Jobs that dead runs have left on Cloud Batch, told by their labels alone."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from google.cloud import batch_v1

from pytest_aecbench.backends.gcp.job import label
from pytest_aecbench.backends.gcp.reap import abandoned_jobs
from pytest_aecbench.host.owner import Owner

DAY_SEC = 86_400


@pytest.mark.parametrize(
    ("changes", "days_left", "found"),
    [
        ({}, 8, ([], [])),
        ({}, -1, ([], [])),  # it is alive, however long it takes
        ({"started": "1"}, 8, (["job-1"], [])),
        ({"boot": "another"}, 8, ([], ["job-1"])),
        ({"boot": "another"}, -1, (["job-1"], [])),
        (None, -1, ([], [])),
    ],
    ids=["own", "own, late", "dead", "elsewhere", "elsewhere, late", "of others"],
)
def test_a_job_is_left_alone_unless_its_run_is_dead_or_it_has_expired(
    changes: dict[str, Any] | None, days_left: int, found: tuple[list[str], list[str]]
) -> None:
    labels = {"aecbench": "1", "aecbench-expires": str(int(time.time()) + days_left * DAY_SEC)}
    if changes is not None:
        owner = replace(Owner.current(), **changes)
        labels |= {key.replace(".", "-"): label(value) for key, value in owner.labels().items()}
    assert abandoned_jobs([batch_v1.Job(name="projects/p/jobs/job-1", labels=labels)]) == found
