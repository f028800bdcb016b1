"""What tests need of the machine: what is missing skips, or fails where AEC_REQUIRE is "all"."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages

import hypothesis.internal.observability  # noqa: F401
import pytest
import yaml  # noqa: F401  (its C part cannot be imported anew)
from filelock import FileLock

import pytest_aecbench

# pytester forgets what a run in this process imports, so that each would import all of it anew.
for _module in walk_packages(pytest_aecbench.__path__, "pytest_aecbench."):
    if not _module.name.endswith((".modal", ".e2b", ".daytona", ".docker", "__main__")):
        import_module(_module.name)


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


AVAILABLE: dict[str, Callable[[], bool]] = {
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "buildx": lambda: _runs("docker", "buildx", "version"),
    "compose": lambda: _runs("docker", "compose", "version"),
    "docker-compose": lambda: _runs("docker-compose", "version"),
    "docker": lambda: find_spec("docker") is not None and _runs("docker", "info"),
    "dockerd": lambda: os.geteuid() == 0 and shutil.which("dockerd") is not None,
    "namespaces": lambda: _runs(
        "unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount", "true"
    ),
}


@cache
def is_available(name: str) -> bool:
    return AVAILABLE[name]()


def needs(item: pytest.Item) -> set[str]:
    return {name for marker in item.iter_markers("needs") for name in marker.args}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): the machine must offer this")
    config.addinivalue_line("markers", "slow: about runs, signals and pages, not versions")
    # A shell's background jobs, and all that they start, ignore it; here runs are interrupted.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker have all tests that need the engine, of which only one can run."""
    for item in items:
        if "docker" in needs(item):
            item.add_marker(pytest.mark.xdist_group("engine"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in sorted(needs(item)):
        if not is_available(name):
            pytest.skip(f"this machine offers no {name}")


@pytest.fixture(autouse=True)
def no_user_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Keep what the person who runs the tests has configured out of them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-such-config"))
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)


@pytest.fixture(autouse=True)
def no_foreign_plugins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep plugins out of the runs within tests that take a third of each process's start."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # which would forget the variable
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:anyio")


@pytest.fixture(autouse=True)
def one_test_at_a_time_on_the_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep runs that remove what the dead left from tests that leave something behind."""
    if "docker" not in needs(request.node):
        yield
        return
    with FileLock(Path(tempfile.gettempdir(), "aecbench-engine-tests.lock")):
        yield


@pytest.fixture
def own_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory that runs share with no other test's: slots, sandboxes, leases."""
    directory = tmp_path_factory.mktemp("machine")
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory / f"aecbench-{os.getuid()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("AEC_REQUIRE") == "all":
        report.outcome, report.longrepr = "failed", f"skipped, but required: {report.longrepr}"
    return report
