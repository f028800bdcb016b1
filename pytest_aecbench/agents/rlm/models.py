"""The models of one trial of ``rlm``: the root's own, and those that cells and the harness ask."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_aecbench.agents.model_agent import DEFAULT_MAX_TOKENS, add_reply
from pytest_aecbench.providers import Message, ModelRequest, Text
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents import AgentLimits
    from pytest_aecbench.agents.rlm_config import RlmConfig
    from pytest_aecbench.agents.spending import Spending
    from pytest_aecbench.agents.trajectory import Entry, Trajectory
    from pytest_aecbench.providers.calls import Call, Caller
    from pytest_aecbench.providers.clock import Clock

__all__ = ["Models", "Place"]

# Of the prompt of a call from a cell, a trajectory keeps so much.
_PROMPT_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a call in the tree of calls: the root's turn, the step above, and the depth."""

    turn: int
    parent: int | None = None
    depth: int = 0


@dataclass(slots=True)
class Models:
    """Callers by the names of their models; all calls of a trial go through it, a few at a time."""

    config: RlmConfig
    limits: AgentLimits
    callers: Mapping[str | None, Caller]
    spending: Spending
    trajectory: Trajectory
    _gate: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._gate = threading.Semaphore(self.config.execution.max_parallel_workers)

    @property
    def clock(self) -> Clock:
        """The clock that all calls share."""
        return self.callers[None].clock

    def call(
        self, request: ModelRequest, model: str | None = None, *, counts: bool = False
    ) -> Call:
        """Ask a model within the budgets; ``counts`` makes the call one that a cell asked for.

        Raises:
            LimitReached: a budget is spent.
            ProviderError: there is no answer.
            DeadlineReached: the agent has no working time left.

        """
        with self._gate:
            return self.spending.call(self.callers[model], request, counts=counts)

    def call_once_more(self, request: ModelRequest, model: str | None) -> Call:
        """Ask a model although a budget is spent: for the answer of a run that is over."""
        with self._gate:
            return self.callers[model].call(request)

    def ask(
        self,
        call_type: str,
        system: str,
        prompt: str,
        place: Place,
        *,
        model: str | None = None,
        kind: str | None = None,
        max_tokens: int | None = None,
    ) -> Call:
        """Ask a model one thing, and write the call into the trajectory."""
        request = ModelRequest(
            (Message("user", (Text(prompt),)),),
            system,
            max_tokens=max_tokens or self.limits.max_tokens or DEFAULT_MAX_TOKENS,
            cache_prompt=False,  # nothing follows that begins with the same text
        )
        call = self.call(request, model, counts=call_type == "subcall")
        self.note(call, call_type, place, kind, prompt)
        return call

    def note(
        self,
        call: Call,
        call_type: str,
        place: Place,
        kind: str | None = None,
        prompt: str | None = None,
    ) -> Entry:
        """Write a call into the trajectory."""
        about = {
            "call_type": call_type,
            "kind": kind,
            "parent": place.parent,
            "depth": place.depth or None,
            "prompt": None if prompt is None else both_ends(prompt, _PROMPT_CHARS),
            "prompt_chars": None if prompt is None else len(prompt),
        }
        known = {name: value for name, value in about.items() if value is not None}
        return add_reply(self.trajectory, call, place.turn, **known)
