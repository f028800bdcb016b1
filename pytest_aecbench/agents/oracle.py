"""The agent ``oracle``, which runs the task's own solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult
from pytest_aecbench.backends import BackendExecutionRequest, BackendExecutionResult
from pytest_aecbench.errors import TaskError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.task import Task


class OracleAgent:
    """Runs ``solution/solve.sh`` or ``solve.py``; only this agent gets ``/solution``."""

    def __init__(self, spec: AgentSpec) -> None:
        pass

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Run the solution."""
        return self.read_result(sandbox.perform(self.request(task, limits)))

    def request(
        self, task: Task, limits: AgentLimits, staging: Path | None = None
    ) -> BackendExecutionRequest:
        """Return the command that runs the solution."""
        script = task.solution_script
        if script is None:
            raise TaskError(
                f"{task.path}: solution: no solve.sh or solve.py; the oracle needs one of them"
            )
        interpreter = "python3" if script.suffix == ".py" else "bash"
        return BackendExecutionRequest(
            f"{interpreter} /solution/{script.name}",
            env=task.solution_env(),
            timeout_sec=limits.timeout_sec,
            uploads={"/solution": script.parent},
        )

    def read_result(self, execution: BackendExecutionResult) -> AgentResult:
        """Return how the solution ended."""
        return AgentResult.from_execution(execution)
