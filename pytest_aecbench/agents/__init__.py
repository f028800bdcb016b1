"""Agents: the protocol, its limits and results, and the names that users type."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from pytest_aecbench.providers import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_aecbench.agents.trajectory import Trajectory
    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.providers.calls import Meter
    from pytest_aecbench.providers.prices import Price
    from pytest_aecbench.tasks.task import Task

__all__ = [
    "AGENTS",
    "MAX_WAIT_SEC",
    "MODEL_AGENTS",
    "Agent",
    "AgentContext",
    "AgentLimits",
    "AgentResult",
    "AgentStatus",
    "Network",
    "Usage",
    "context_of",
    "network_of",
]

AgentStatus: TypeAlias = Literal["completed", "failed", "timed_out", "limit_reached"]
# The network of an agent's sandbox: as the task says; needed, so that a task without one is refused
# before the run; or given, whatever the task says.
Network: TypeAlias = Literal["task", "needed", "given"]


def network_of(parameter: bool | None, otherwise: Network) -> Network:
    """Return the network that a user's parameter ``network`` means, if there is one."""
    if parameter is None:
        return otherwise
    return "given" if parameter else "task"


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The limits of an agent in one trial; None leaves a limit to the agent.

    ``timeout_sec`` is for the agent's work: time that it waits for a provider's rate limit does
    not count. ``max_tokens`` is for one reply, ``token_budget`` for all tokens of the trial.
    """

    timeout_sec: float
    max_turns: int | None = None
    max_tokens: int | None = None
    token_budget: int | None = None
    max_cost_usd: float | None = None
    command_timeout_sec: float | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, Any], timeout_sec: float) -> AgentLimits:
        """Return the limits that an agent's parameters set."""
        names = {"command_timeout_sec": "command_timeout"}
        own = (field.name for field in fields(cls) if field.name != "timeout_sec")
        given = {name: parameters.get(names.get(name, name)) for name in own}
        return cls(timeout_sec, **given)


def _new_meter() -> Meter:
    from pytest_aecbench.providers.calls import Meter  # slow to import, and needed only by trials

    return Meter()


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The means that a trial gives its agent, besides the task and the sandbox.

    ``meter`` counts the cost of calls to models. ``cache_dir`` keeps the replies of models
    (``--aec-cache-calls``), apart for each repetition. ``files`` is a directory with the trial's
    own copies of the files that the agent brings.
    """

    trajectory: Trajectory
    meter: Meter = field(default_factory=_new_meter)
    repetition: int = 1
    cache_dir: Path | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    files: Path | None = None


def context_of(sandbox: Sandbox) -> AgentContext:
    """Return the context that the trial gave; one that keeps nothing, if it gave none."""
    if sandbox.context is None:
        from pytest_aecbench.agents.trajectory import Trajectory

        sandbox.context = AgentContext(Trajectory())
    return sandbox.context


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The end of an agent. The trial is verified whatever the status.

    ``end`` says in one word how it ended, such as ``submitted`` or ``turn_limit``. ``calls`` are
    those to a model, of which ``cached_calls`` were answered from the cache and cost nothing.
    ``waited_sec`` was spent on the provider's limits. ``prompt_version`` names the way in which
    the task was presented, ``price_source`` the table that ``cost_usd`` comes from. ``plan`` is
    that of an agent that makes one before it begins, and ``warnings`` are for the record.
    """

    status: AgentStatus = "completed"
    error: str | None = None
    returncode: int | None = None
    stdout: str = ""
    stderr: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    end: str | None = None
    turns: int | None = None
    calls: int | None = None
    cached_calls: int | None = None
    waited_sec: float | None = None
    prompt_version: str | None = None
    price_source: str | None = None
    plan: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def metered(cls, meter: Meter, **fields: Any) -> AgentResult:
        """Return a result with what the agent's calls to models have cost."""
        return cls(
            usage=meter.usage,
            cost_usd=meter.cost_usd,
            calls=meter.calls,
            cached_calls=meter.cached_calls,
            waited_sec=round(meter.waited_sec, 3),
            price_source=meter.price_source,
            **fields,
        )

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

    An agent that works in the sandbox by itself may have two more members: ``installation``, an
    ``Installation`` to add to the task's image or None, and ``network``, a ``Network``. One that a
    task has a file for may have ``check_task(task, prices)``, which raises a ``UserError`` before
    the run for a task that it cannot work on.
    """

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Attempt the task in the sandbox."""
        ...


# How long a trial waits for a provider's limits unless its agent has another ``max_wait_sec``.
MAX_WAIT_SEC = 600.0
# The agents that call a model, and the parameters of theirs that AGENT_… variables override.
MODEL_AGENTS: dict[str, tuple[str, ...]] = {
    "direct": ("max_tokens",),
    "lambda-rlm": ("max_tokens",),
    "tool_loop": ("command_timeout", "max_tokens", "max_turns"),
}

# name -> (dotted path of a class that is called with the AgentSpec, the extra it needs)
AGENTS: dict[str, tuple[str, str | None]] = {
    "claude-code": ("pytest_aecbench.agents.recipes.claude_code.ClaudeCodeAgent", None),
    "codex": ("pytest_aecbench.agents.recipes.codex.CodexAgent", None),
    "command": ("pytest_aecbench.agents.command.CommandAgent", None),
    "direct": ("pytest_aecbench.agents.direct.DirectAgent", None),
    "lambda-rlm": ("pytest_aecbench.agents.lambda_rlm.agent.LambdaRlmAgent", None),
    "mini-swe-agent": ("pytest_aecbench.agents.recipes.mini_swe_agent.MiniSweAgent", None),
    "nop": ("pytest_aecbench.agents.nop.NopAgent", None),
    "oracle": ("pytest_aecbench.agents.oracle.OracleAgent", None),
    "replay": ("pytest_aecbench.agents.replay.ReplayAgent", None),
    "tool_loop": ("pytest_aecbench.agents.tool_loop.ToolLoopAgent", None),
}
