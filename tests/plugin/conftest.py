"""The three ways to run a project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.project import Project


@pytest.fixture(autouse=True)
def _own_machine(own_machine: Path) -> None:
    """Let no test wait for another's trials."""


@pytest.fixture(params=[(), ("-n0",), ("-n2",)], ids=["plain", "n0", "n2"])
def anyhow(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> Project:
    """A project run plainly, with -n0 and with -n2."""
    return Project(pytester, request.param)


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project run plainly."""
    return Project(pytester, ())


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{3600 + os.getpid()}.{abs(hash(request.node.nodeid)) % 10**6}"
