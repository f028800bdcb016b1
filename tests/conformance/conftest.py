"""What the tests of the backends work with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.host.homes import remove_tree
from pytest_aecbench.testing import RunningSandbox
from tests.conformance.boxes import MODES, AnyBackend, Box, Workshop, make_backend
from tests.conformance.driving import DrivenBackend
from tests.conformance.private_engine import PrivateEngine
from tests.project import Project
from tests.standins.executor import Executor
from tests.tasks import write_tree

if TYPE_CHECKING:
    from tests.conformance.gcp import Cloud
    from tests.standins.batch import BatchServer
    from tests.standins.buckets import Buckets

BASE = "FROM python:3.11-slim\nWORKDIR /workspace\n"

LaunchTask = Callable[..., RunningSandbox]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the night what a class names in ``left_to_night``, or not in its ``by_day``."""
    for item in items:
        test, cls = getattr(item, "originalname", ""), getattr(item, "cls", None)
        by_day = getattr(cls, "by_day", (test,))
        left = getattr(cls, "left_to_night", ())
        assert all(hasattr(cls, name) for name in by_day if cls), f"{cls}: a test is gone"
        if test not in by_day or test in left:
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def backend(mode: str) -> Iterator[AnyBackend]:
    made = make_backend(mode)
    yield made
    if isinstance(made, DrivenBackend):
        made.close()


@pytest.fixture
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="aec-local-"))  # tmp_path is for its owner alone
    path.chmod(0o755)
    yield path
    remove_tree(path)


@pytest.fixture
def workshop(mode: str, backend: AnyBackend, directory: Path) -> Iterator[Workshop]:
    made = Workshop(mode, backend, directory)
    yield made
    for box in made.boxes:
        box.teardown()


@pytest.fixture
def box(workshop: Workshop) -> Box:
    return workshop.launch()


@pytest.fixture(scope="session")
def engine() -> Any:
    """The engine, as its own client sees it."""
    import docker

    return docker.from_env().api


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project whose tasks run on the engine."""
    return Project(pytester, ("--aec-backend=docker",))


@pytest.fixture(scope="module")
def docker_backend() -> Iterator[Any]:
    from pytest_aecbench.backends.docker import DockerBackend

    made = DockerBackend(run_id="conformance")
    yield made
    made.close()


@pytest.fixture(scope="module")
def private_engine() -> Iterator[PrivateEngine]:
    """An engine that a test may stop, and whose disk it may fill."""
    home = Path(tempfile.mkdtemp(prefix="aec-")).resolve()  # a socket's path has to be short
    engine = PrivateEngine(home)
    try:
        engine.start()
        engine.take_image("python:3.11-slim")
        yield engine
    finally:
        engine.close()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="class")
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """What really runs the commands behind a vendor's stand-in."""
    if getattr(request.cls, "in_containers", False):
        backend = request.getfixturevalue("docker_backend")
    else:
        backend = LocalBackend("namespaces")
    made = Executor(backend)
    yield made
    made.close()


@pytest.fixture(scope="module")
def buckets() -> Iterator[Buckets]:
    """Cloud Storage."""
    from tests.standins.buckets import Buckets

    made = Buckets()
    yield made
    made.close()


@pytest.fixture
def batch_capacity() -> int:
    """How many tasks of Cloud Batch run at once."""
    return 8


@pytest.fixture
def batch(executor: Executor, buckets: Buckets, batch_capacity: int) -> Iterator[BatchServer]:
    """Cloud Batch, whose tasks the executor runs."""
    from tests.standins.batch import BatchServer

    server = BatchServer(executor, buckets, capacity=batch_capacity)
    yield server
    server.close()


@pytest.fixture
def google(batch: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchServer:
    """Cloud Batch, with an environment that leads the clients of this process to it."""
    for name, value in batch.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return batch


@pytest.fixture
def cloud(
    batch: BatchServer, pytester: pytest.Pytester, tmp_path: Path, own_machine: Path
) -> Cloud:
    """Cloud Batch, and a project whose runs lead to it."""
    from tests.conformance.gcp import Cloud

    return Cloud(batch, Project(pytester, ()), batch.environment(tmp_path))


@pytest.fixture
def launch_task(docker_backend: Any, tmp_path: Path) -> Iterator[LaunchTask]:
    """Start a sandbox of a task with the given Dockerfile on each call; all are removed."""
    sandboxes: list[RunningSandbox] = []

    def launch(
        dockerfile: str = BASE, limits: Limits | None = None, toml: str = ""
    ) -> RunningSandbox:
        trial = tmp_path / f"trial-{len(sandboxes)}"
        (trial / "workspace").mkdir(parents=True)
        image_ref = docker_backend.build_environment(
            task_dir=write_context(trial, dockerfile, toml)
        )
        handle = docker_backend.launch_trial(
            image_ref=image_ref, workspace_dir=trial / "workspace", limits=limits
        )
        sandboxes.append(RunningSandbox(docker_backend, handle, trial / "workspace"))
        return sandboxes[-1]

    yield launch
    for sandbox in sandboxes:
        sandbox.teardown()
    docker_backend.close()


def write_context(directory: Path, dockerfile: str | None = BASE, toml: str = "") -> Path:
    """Write what a backend reads of a task."""
    (directory / "environment").mkdir(parents=True, exist_ok=True)
    return write_tree(directory, {"environment/Dockerfile": dockerfile, "task.toml": toml})
