"""Agents: the protocol, its limits and results, and the names that users type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.task import Task

__all__ = ["AGENTS", "Agent", "AgentLimits", "AgentResult", "AgentStatus", "Usage"]

AgentStatus: TypeAlias = Literal["completed", "failed", "timed_out", "limit_reached"]


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The limits of an agent in one trial."""

    timeout_sec: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a trial used; input excludes tokens read from the cache; None is unknown."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cache_read: int | None = None
    tokens_cache_write: int | None = None


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The end of an agent. The trial is verified whatever the status."""

    status: AgentStatus = "completed"
    error: str | None = None
    returncode: int | None = None
    stdout: str = ""
    stderr: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    transcript: Path | None = None

    @classmethod
    def from_execution(cls, execution: BackendExecutionResult) -> AgentResult:
        """Return the result of an agent that is one command."""
        status: AgentStatus = "completed"
        error = None
        if execution.timed_out:
            status, error = "timed_out", f"timed out after {execution.duration_sec:.0f} s"
        elif execution.returncode != 0:
            status, error = "failed", f"exit code {execution.returncode}"
        return cls(status, error, execution.returncode, execution.stdout, execution.stderr)


@runtime_checkable
class Agent(Protocol):
    """A way to attempt a task.

    ``run`` acts in the sandbox and returns how it ended. An exception from it means that the
    infrastructure broke: the trial is an error and not scored.
    """

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Attempt the task in the sandbox."""
        ...


# name -> (dotted path of a class that is called with the AgentSpec, the extra it needs)
AGENTS: dict[str, tuple[str, str | None]] = {
    "command": ("pytest_aecbench.agents.command.CommandAgent", None),
    "nop": ("pytest_aecbench.agents.nop.NopAgent", None),
    "oracle": ("pytest_aecbench.agents.oracle.OracleAgent", None),
    "replay": ("pytest_aecbench.agents.replay.ReplayAgent", None),
}
