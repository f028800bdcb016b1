"""The gcp backend: whole runs through Google's clients, against stand-ins that run the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.gcp import Cloud
from tests.project import Project
from tests.standins.batch import BatchServer
from tests.standins.buckets import Buckets
from tests.standins.executor import Executor

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture(scope="module")
def buckets() -> Iterator[Buckets]:
    made = Buckets()
    yield made
    made.close()


@pytest.fixture
def server(executor: Executor, buckets: Buckets) -> Iterator[BatchServer]:
    server = BatchServer(executor, buckets)
    yield server
    server.close()


@pytest.fixture
def cloud(
    server: BatchServer,
    buckets: Buckets,
    pytester: pytest.Pytester,
    tmp_path: Path,
    own_machine: Path,
) -> Cloud:
    return Cloud(server, buckets, Project(pytester, ()), server.environment(tmp_path))


def test_all_trials_of_an_image_are_one_job(cloud: Cloud) -> None:
    cloud.task("electrical/a")
    cloud.task("electrical/b")
    result = cloud.run("--aec-agent=oracle", "--aec-agent=nop", "--aec-repetitions=2", "-v")
    result.assert_outcomes(passed=4, failed=4)
    assert cloud.created() == 1
    assert cloud.left() == ([], [])
