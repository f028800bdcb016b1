"""The agent ``replay``, which submits a file or directory that was written before."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult
from pytest_aecbench.backends import BackendExecutionRequest, BackendExecutionResult
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.digest import directory_digest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.task import Task

__all__ = ["ReplayAgent", "pinned"]


class ReplayAgent:
    """Replaces the task's output by a file, or its workspace by a directory."""

    def __init__(self, spec: AgentSpec) -> None:
        self.path = str(spec.parameters["path"])
        self.source = spec.source

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Copy the file or directory to the sandbox."""
        return self.read_result(sandbox.perform(self.request(task, limits)))

    def request(
        self, task: Task, limits: AgentLimits, staging: Path | None = None
    ) -> BackendExecutionRequest:
        """Return a command with the file or directory as an upload."""
        if self.source is None:
            raise SettingsError(
                f"--aec-agent: replay: {self.path!r} is neither in {task.task_id} nor in the "
                "project; use the path of a file or directory"
            )
        target = task.workdir if self.source.is_dir() else task.output_path
        uploads = {str(target): self.source}
        return BackendExecutionRequest("true", timeout_sec=limits.timeout_sec, uploads=uploads)

    def read_result(self, execution: BackendExecutionResult) -> AgentResult:
        """Return how the copy ended."""
        return AgentResult.from_execution(execution)


def pinned(spec: AgentSpec, task: Task, root: Path) -> AgentSpec:
    """Return the agent with its source for this task; a different content is another agent."""
    name = str(spec.parameters["path"]).replace("{task_id}", task.task_id)
    found = next((path for path in (task.path / name, root / name) if path.exists()), None)
    if found is None:
        return spec
    source = found.resolve()
    if source.is_dir():
        digest = directory_digest(source)
    else:
        digest = f"sha256:{hashlib.sha256(source.read_bytes()).hexdigest()}"
    return replace(spec, parameters={**spec.parameters, "digest": digest}, source=source)
