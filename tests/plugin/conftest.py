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


@pytest.fixture(params=["plain", pytest.param("n0", marks=pytest.mark.nightly), "n2"])
def anyhow(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> Project:
    """A project run plainly and with -n2, at night also with -n0."""
    return Project(pytester, MODES[request.param])


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project run plainly."""
    return Project(pytester, ())


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{3600 + os.getpid()}.{abs(hash(request.node.nodeid)) % 10**6}"
