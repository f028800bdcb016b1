"""Hooks that a conftest.py or another plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_aecbench.agents import Agent
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends import ComputeBackend


@pytest.hookspec(firstresult=True)
def pytest_aecbench_make_backend(config: pytest.Config, name: str) -> ComputeBackend | None:
    """Return the backend called ``name``, or None to leave it to others.

    Called once per process, before the first trial; the first result wins, also over the
    built-in backends.
    """


@pytest.hookspec(firstresult=True)
def pytest_aecbench_make_agent(config: pytest.Config, spec: AgentSpec) -> Agent | None:
    """Return the agent that ``spec`` asks for, or None to leave it to others.

    Called once per trial; the first result wins, also over the built-in agents.
    """
