"""The agent ``nop``, which does nothing: its reward is that of an empty answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult

if TYPE_CHECKING:
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.task import Task


class NopAgent:
    """Leaves the sandbox unchanged."""

    def __init__(self, spec: AgentSpec) -> None:
        pass

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Do nothing."""
        return AgentResult()
