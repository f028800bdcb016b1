"""Daytona's SDK drives real commands, through a stand-in for its servers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_aecbench.backends.remote import RemoteBackend
from tests.conformance.vendors import (
    ONE_OF_EACH,
    WHOLE_RUNS,
    InContainers,
    StandIn,
    VendorConformance,
    VendorFaults,
)
from tests.standins import plaintext
from tests.standins.daytona import DaytonaServer
from tests.standins.executor import Executor
from tests.standins.server import Fault
from tests.stopping import processes, wait_until
from tests.tasks import write_indented

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture(scope="class")
def built(executor: Executor) -> dict[str, Any]:
    """Snapshots that the tests of a class have built, because a build takes most of their time."""
    return {}


@pytest.fixture
def server(
    executor: Executor, built: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DaytonaServer]:
    from pytest_aecbench.backends.daytona import snapshots

    server = DaytonaServer(executor)
    server.snapshots.update(built)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(snapshots, "PROGRAM", plaintext.PROGRAM)
    yield server
    built.update(server.snapshots)
    server.close()


_removed: list[str] | None = None


def _note_removed(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "os.unsetenv" and _removed is not None:
        _removed.append(os.fsdecode(arguments[0]))


sys.addaudithook(_note_removed)  # for good, because Python cannot remove one


@contextmanager
def variables_removed() -> Iterator[list[str]]:
    """Note which variables of this process are removed, however briefly."""
    global _removed
    noted: list[str] = []
    _removed = noted
    yield noted
    _removed = None


@pytest.fixture
def backend(server: DaytonaServer) -> Any:
    from pytest_aecbench.backends.daytona import DaytonaBackend

    return DaytonaBackend()


class TestDaytona(VendorConformance):
    by_day = ONE_OF_EACH


@pytest.mark.nightly  # each image is built by a process of its own; e2b and modal go by day
class TestDaytonaInContainers(InContainers):
    pass


class TestFaults(VendorFaults):
    name = "daytona"
    left_to_night = WHOLE_RUNS
    key_options: ClassVar = {"api_key": "DAYTONA_API_KEY", "api_url": "DAYTONA_API_URL"}

    @pytest.mark.nightly  # Daytona counts a lifetime in whole minutes
    def test_a_lifetime_that_ends_takes_the_sandbox(
        self, backend: RemoteBackend, image_ref: str, server: StandIn, tmp_path: Path
    ) -> None:
        super().test_a_lifetime_that_ends_takes_the_sandbox(backend, image_ref, server, tmp_path)

    def test_what_a_task_asks_for_is_what_is_sent(
        self, backend: RemoteBackend, server: DaytonaServer, task_dir: Path, tmp_path: Path
    ) -> None:
        toml = "[environment]\ncpus = 1.5\nmemory_mb = 1500\nstorage_mb = 5000\n"
        (task_dir / "task.toml").write_text(toml)
        image_ref = backend.build_environment(task_dir=task_dir)
        sandbox = self.launch(backend, image_ref, tmp_path, network=False, lifetime_sec=1234.5)
        (snapshot,) = server.called("POST /snapshots")
        asked = {name: snapshot.body[name] for name in ("cpu", "memory", "disk")}
        assert asked == {"cpu": 2, "memory": 2, "disk": 5}
        sent = server.sandboxes[sandbox.handle.handle_id].request
        assert sent["ttlMinutes"] == 21
        assert sent["autoStopInterval"] == 0
        assert sent["autoDeleteInterval"] == 0
        assert sent["networkBlockAll"] is True
        assert sent["user"] == "root"
        assert sent["labels"]["aecbench.trial"] == "trial"
        assert sent["labels"]["aecbench.pid"] == str(os.getpid())
        sandbox.teardown()

    def test_builds_side_by_side_leave_the_environment_alone(
        self, backend: RemoteBackend, server: DaytonaServer, tmp_path: Path
    ) -> None:
        tasks = [
            write_indented(
                tmp_path / f"t{number}",
                {
                    "task.toml": "",
                    "environment/Dockerfile": "FROM x:1\nWORKDIR /workspace\nCOPY given ./\n",
                    "environment/given": f"{number}\n",
                },
            )
            for number in range(3)
        ]
        server.forget_images()
        before = dict(os.environ)
        with variables_removed() as removed, ThreadPoolExecutor(3) as threads:
            images = list(threads.map(lambda task: backend.build_environment(task_dir=task), tasks))
        assert removed == []
        assert dict(os.environ) == before
        assert set(server.snapshots) == set(images)
        for number, image in enumerate(images):
            given = f"{server.snapshots[image].snapshot_id}/environment/given"
            assert (server.files / given).read_text() == f"{number}\n"

    def test_a_build_ends_with_the_process_that_asked_for_it(
        self,
        server: DaytonaServer,
        task_dir: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("RUN_OF_TEST", str(tmp_path))
        server.forget_images()
        server.faults.append(Fault(r"POST /snapshots$", hang=True))
        program = (
            "import sys; from pathlib import Path;"
            "from pytest_aecbench.backends.daytona import DaytonaBackend;"
            "DaytonaBackend().build_environment(task_dir=Path(sys.argv[1]))"
        )
        process = subprocess.Popen([sys.executable, "-c", program, str(task_dir)], cwd=tmp_path)
        wait_until(lambda: server.called(r"POST /snapshots$"), "the build")
        mine = partial(processes, "environ", f"RUN_OF_TEST={tmp_path}\0")
        assert len(list(mine())) == 2
        process.kill()
        process.wait(30)
        wait_until(lambda: not list(mine()), "the end of the build")
