"""The ways to run a project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.costs import at_night
from tests.project import Project


@pytest.fixture(autouse=True)
def _own_machine(own_machine: Path) -> None:
    """Let no test wait for another's trials."""


MODES = {"plain": (), "n0": ("-n0",), "n2": ("-n2",), "lanes": ("--aec-concurrency=4",)}


def _modes(*by_day: str) -> pytest.MarkDecorator:
    modes = [mode if mode in by_day else at_night(mode) for mode in MODES]
    return pytest.mark.parametrize("anyhow", modes, indirect=True)


# The modes that are tried by day; at night every test that uses ``anyhow`` is tried in all of them.
# Workers take ten times as long as a run in this process, so by day they are for what crosses to
# them and back. -n0 hardly differs from no option.
in_every_mode = _modes(*MODES)
with_workers_too = _modes("plain", "n2", "lanes")
# For tests of runs that set nothing of ours, which lanes would do.
unconfigured = pytest.mark.parametrize(
    "anyhow", ["plain", at_night("n0"), at_night("n2")], indirect=True
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a project plainly by day, unless the test, or ``BY_DAY`` of its module, adds modes."""
    marks = [*metafunc.definition.iter_markers("parametrize")]
    if "anyhow" in metafunc.fixturenames and all(mark.args[0] != "anyhow" for mark in marks):
        modes = _modes("plain", *getattr(metafunc.module, "BY_DAY", ())).mark
        metafunc.parametrize(*modes.args, **modes.kwargs)


@pytest.fixture
def anyhow(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> Project:
    """A project run plainly, with -n0, with -n2 or in lanes."""
    return Project(pytester, MODES[request.param])


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project run plainly."""
    return Project(pytester, ())


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{3600 + os.getpid()}.{abs(hash(request.node.nodeid)) % 10**6}"
