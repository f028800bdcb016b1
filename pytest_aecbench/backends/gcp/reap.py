"""Jobs and objects whose run is dead, told by the labels and names that they carry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_aecbench.backends.gcp.submission import OBJECTS
from pytest_aecbench.host.owner import Owner, is_abandoned, is_out_of_sight

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.cloud import batch_v1

    from pytest_aecbench.backends.gcp.cloud import Bucket

__all__ = ["abandoned_jobs", "abandoned_objects"]


def abandoned_jobs(jobs: Iterable[batch_v1.Job]) -> tuple[list[str], list[str]]:
    """Return the ids of jobs of dead runs, and of those whose run cannot be looked up."""
    abandoned, out_of_sight = [], []
    for job in jobs:
        labels = {key.replace("-", ".", 1): value for key, value in job.labels.items()}
        job_id = job.name.rpartition("/")[2]
        if is_abandoned(labels, is_overdue=_is_expired(labels)):
            abandoned.append(job_id)
        elif is_out_of_sight(labels):
            out_of_sight.append(job_id)
    return abandoned, out_of_sight


def _is_expired(labels: Mapping[str, str]) -> bool:
    expires = labels.get("aecbench.expires", "")
    return expires.isdecimal() and int(expires) < time.time()


def abandoned_objects(bucket: Bucket) -> dict[str, list[str]]:
    """Return the objects of processes that are known dead, by their directory's name.

    Those of other machines are left to the bucket's own rule.
    """
    found: dict[str, list[str]] = {}
    for name in bucket.names(f"{OBJECTS}/"):
        _, owner, job_id, *_ = (*name.split("/"), "", "")
        if Owner.is_dead_by_its_short(owner):
            found.setdefault(f"gs://{bucket.name}/{OBJECTS}/{owner}/{job_id}", []).append(name)
    return found
