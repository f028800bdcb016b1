"""The stored agent of ``--aec-evaluate``: restores an earlier agent's work without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.backends import BackendExecutionRequest
from pytest_aecbench.errors import TransferError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.agents import AgentLimits, AgentResult
    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.task import Task

__all__ = ["MARKER", "StoredAgent"]

# A file that is only in a sandbox's initial working directory.
MARKER = ".aecbench-working-directory"

# Through /tests, because only the sandbox knows its working directory. That directory gets only
# the stored files, without files of the image that the agent had removed. Without the marker, a
# backend has run this in another directory, where nothing must be removed.
_PUT_BACK = f"""
[ -e {MARKER} ] || {{ echo "not in the sandbox's working directory" >&2; exit 1; }}
find . -mindepth 1 -delete && cp -a /tests/. .
"""


class StoredAgent:
    """Fills the working directory and the agent's logs from a stored trial's ``directory``."""

    def __init__(self, directory: Path, result: AgentResult) -> None:
        self.directory = directory
        self.stored_result = result

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Restore the stored files, and return the agent's original result."""
        return self.read_result(sandbox.perform(self.request(task, limits)))

    def request(
        self, task: Task, limits: AgentLimits, staging: Path | None = None
    ) -> BackendExecutionRequest:
        """Return the command that restores the stored files."""
        uploads = {"/tests": self.directory / "workspace"}
        if (logs := self.directory / "logs/agent").is_dir():
            uploads["/logs/agent"] = logs
        return BackendExecutionRequest(_PUT_BACK, timeout_sec=limits.timeout_sec, uploads=uploads)

    def read_result(self, execution: BackendExecutionResult) -> AgentResult:
        """Return the agent's original result, if its files were restored."""
        if execution.returncode != 0:
            said = execution.stderr.strip().rpartition("\n")[2]
            where = self.directory / "workspace"
            raise TransferError(f"{where}: cannot be restored in the sandbox; {said}")
        return self.stored_result
