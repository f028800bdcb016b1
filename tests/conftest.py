"""What tests need of the machine, and what they may cost.

What the machine lacks skips a test, or fails it where AEC_REQUIRE is "all". By their cost, tests
are of three kinds:

- most take less than 20 s (or AEC_SLOW_LIMIT). One that takes longer is named at the end of the
  run; where AEC_REQUIRE is "all" it fails, unless the machine has so much to do that it would take
  less than that alone;
- ``slow`` ones take longer, wait for much, or are not about versions. They run like any other, but
  on one Python only;
- ``nightly`` ones are exhaustive: they try in more ways what others try in one. They are
  deselected unless AEC_NIGHTLY is 1. Property tests then try 1,000 examples instead of 25.
"""

from __future__ import annotations

import gc
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

import pytest
import yaml  # noqa: F401  (its C part cannot be imported anew)
from filelock import FileLock

import pytest_aecbench
from tests.completeness import Completeness
from tests.costs import NIGHTLY, REQUIRED, Costs
from tests.interpreters import find_python
from tests.leftovers import Leftovers
from tests.scheduling import ALONE, LoadGroupScheduling, Scheduling

# pytester forgets what a run in this process imports, so that each would import all of it anew.
for _module in walk_packages(pytest_aecbench.__path__, "pytest_aecbench."):
    if not _module.name.endswith((".modal", ".e2b", ".daytona", ".docker", ".gcp", "__main__")):
        import_module(_module.name)

try:
    import hypothesis.internal.observability  # noqa: F401
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:  # a clone without it can still show its configuration
    pass
else:
    # Machines that run tests have other things to do as well, so no example has a deadline.
    _unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("ci", _unhurried, max_examples=25, derandomize=True)
    settings.register_profile("nightly", _unhurried, max_examples=1000)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("nightly" if NIGHTLY else "ci"))


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


AVAILABLE: dict[str, Callable[[], bool]] = {
    "arrow": lambda: find_spec("pyarrow") is not None,
    "browser": lambda: find_spec("playwright") is not None and shutil.which("chromium") is not None,
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "buildx": lambda: _runs("docker", "buildx", "version"),
    "compose": lambda: _runs("docker", "compose", "version"),
    "docker-compose": lambda: _runs("docker-compose", "version"),
    "docker": lambda: find_spec("docker") is not None and _runs("docker", "info"),
    "dockerd": lambda: os.geteuid() == 0 and shutil.which("dockerd") is not None,
    "python3.12": lambda: find_python("3.13", "3.12") is not None,
    "namespaces": lambda: _runs(
        "unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount", "true"
    ),
    "machines": lambda: (
        os.geteuid() == 0 and _runs("unshare", "--pid", "--fork", "--mount-proc", "true")
    ),
    "pandas": lambda: find_spec("pandas") is not None,
    "node": lambda: _runs("node", "--version"),
    "npm": lambda: _runs("npm", "--version"),
    "root": lambda: os.geteuid() == 0,
}


@cache
def is_available(name: str) -> bool:
    return AVAILABLE[name]()


def needs(item: pytest.Item) -> set[str]:
    return {name for marker in item.iter_markers("needs") for name in marker.args}


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "needs(name): the machine must offer this",
        "slow: takes over 20 s or waits for much; runs on one Python only",
        "nightly: exhaustive; runs where AEC_NIGHTLY is 1",
    ):
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(Costs(turn="alone_on_engine"), "aec-test-costs")
    config.pluginmanager.register(Leftovers(), "aec-test-leftovers")
    config.pluginmanager.register(Completeness(), "aec-test-completeness")
    # A shell's background jobs, and all that they start, ignore SIGINT, and those of nohup SIGHUP;
    # here runs are interrupted by both.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the many objects that stay, which take a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadGroupScheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)


@pytest.fixture(autouse=True)
def no_foreign_plugins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep plugins out of the runs within tests that take a third of each process's start."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # which would forget the variable
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:anyio")


@pytest.fixture(params=[ALONE])
def alone_on_engine() -> Iterator[None]:
    """Keep runs that remove resources of dead runs from tests that leave resources behind.

    Tests that start runs or sweep need this. A test whose sandboxes belong to its own process does
    not, because that process is alive. The parameter is for `Scheduling`, which sees only ids.
    """
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
    if report.skipped and REQUIRED:
        report.outcome, report.longrepr = "failed", f"skipped, but required: {report.longrepr}"
    return report
