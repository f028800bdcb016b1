"""The agent ``nop``, which does nothing: its reward is that of an empty answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult
from pytest_aecbench.backends import BackendExecutionRequest, BackendExecutionResult

if TYPE_CHECKING:
    from pathlib import Path

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

    def request(self, task: Task, limits: AgentLimits, staging: Path) -> BackendExecutionRequest:
        """Return a command that does nothing."""
        return BackendExecutionRequest(":", timeout_sec=limits.timeout_sec)

    def read_result(self, execution: BackendExecutionResult) -> AgentResult:
        """Return the end of doing nothing."""
        return AgentResult()
