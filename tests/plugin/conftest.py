"""The three ways to run a project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.project import Project


@pytest.fixture(autouse=True)
def _own_machine(own_machine: Path) -> None:
    """Let no test wait for another's trials."""


MODES = {"plain": (), "n0": ("-n0",), "n2": ("-n2",)}
# For a few tests that try -n0, which hardly differs from no option, whenever tests run.
in_every_mode = pytest.mark.parametrize("anyhow", list(MODES), indirect=True)


# What crosses between processes; about anything else, tests try workers at night.
ABOUT_WORKERS = {
    f"tests.plugin.test_{name}"
    for name in (
        *("baseline", "budgeting", "datasets", "evaluating", "interruption", "outcomes"),
        *("planning", "progress", "records", "resume", "retries"),
    )
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a project plainly; with -n2 where workers matter, and at night in every mode."""
    if (
        "anyhow" not in metafunc.fixturenames
        or in_every_mode.mark in metafunc.definition.own_markers
    ):
        return
    by_day = {"plain", "n2"} if metafunc.module.__name__ in ABOUT_WORKERS else {"plain"}
    modes = [
        pytest.param(mode, marks=[] if mode in by_day else [pytest.mark.nightly]) for mode in MODES
    ]
    metafunc.parametrize("anyhow", modes, indirect=True)


@pytest.fixture
def anyhow(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> Project:
    """A project run plainly, with -n0 or with -n2."""
    return Project(pytester, MODES[request.param])


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project run plainly."""
    return Project(pytester, ())


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{3600 + os.getpid()}.{abs(hash(request.node.nodeid)) % 10**6}"
