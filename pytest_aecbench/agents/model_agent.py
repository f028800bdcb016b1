"""Agents that call a model: their parameters, their model, its calls and the sum of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pytest_aecbench.agents import AgentLimits, AgentResult, AgentStatus, context_of
from pytest_aecbench.agents.parameters import DirectParameters, read_parameters
from pytest_aecbench.agents.spec import SCRIPTED, script_digest
from pytest_aecbench.agents.spending import check_priced
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.providers import ModelRequest
from pytest_aecbench.providers.cache import ReplyCache
from pytest_aecbench.providers.calls import Caller
from pytest_aecbench.providers.clock import Clock
from pytest_aecbench.providers.prices import find_price
from pytest_aecbench.providers.routing import Route, check_route, find_route, make_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.agents.trajectory import Entry, Trajectory
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.providers import Message, ToolSpec
    from pytest_aecbench.providers.calls import Call
    from pytest_aecbench.providers.prices import Price

__all__ = ["DEFAULT_MAX_TOKENS", "ModelAgent", "add_reply"]

DEFAULT_MAX_TOKENS = 16384

_ParametersT = TypeVar("_ParametersT", bound=DirectParameters)

# How an agent ended -> its status. Every end is verified and scored.
_STATUS: dict[str, AgentStatus] = {
    "submitted": "completed",
    "replied": "completed",
    "written": "completed",
    "incomplete": "failed",
    "length": "limit_reached",
    "turn_limit": "limit_reached",
    "token_budget": "limit_reached",
    "cost_limit": "limit_reached",
    "call_limit": "limit_reached",
    "billable_input": "limit_reached",
    "context_length": "limit_reached",
    "deadline": "timed_out",
    "refusal": "failed",
    "rejected": "failed",
    "stopped": "failed",
}


class ModelAgent(Generic[_ParametersT]):
    """An agent on the host that calls a model, and acts only through the sandbox."""

    parameters_model: ClassVar[type[DirectParameters]]
    prompt_version: ClassVar[str]

    def __init__(self, spec: AgentSpec) -> None:
        self.spec = spec
        self.parameters: _ParametersT = read_parameters(  # type: ignore[assignment]
            spec.parameters, self.parameters_model, spec.name
        )
        self.route = self.route_to(spec.model)
        pinned = self.parameters.script
        if pinned and spec.source is not None and script_digest(spec.source) != pinned:
            raise SettingsError(
                f"{spec.name}: {shown_path(spec.source)} has changed since the run began; "
                "start the run again"
            )

    def route_to(self, model: str | None) -> Route:
        """Return the way to a model; this agent's client says where to ask."""
        if model is None:
            raise SettingsError(
                f"{self.spec.name}: no model; write {self.spec.harness}:MODEL, such as "
                f"{self.spec.harness}:claude-sonnet-4-20250514"
            )
        route = find_route(model, self.spec.client_settings(), self.spec.name)
        if route.provider == SCRIPTED and self.spec.source is not None and model == self.spec.model:
            return replace(route, model=str(self.spec.source))
        return route

    def preflight(self, prices: Mapping[str, Price]) -> None:
        """Raise SettingsError unless the model can be called, as far as this machine can tell."""
        self.check_model(self.route, prices)

    def check_model(self, route: Route, prices: Mapping[str, Price]) -> None:
        """Raise SettingsError for a model that cannot be called, or not within a cost limit."""
        check_route(route, self.spec.name)
        if self.parameters.max_cost_usd is not None:
            check_priced(route, prices, f"{self.spec.name}: parameters.max_cost_usd")

    def caller(
        self,
        sandbox: Sandbox,
        limits: AgentLimits,
        route: Route | None = None,
        clock: Clock | None = None,
    ) -> Caller:
        """Return what calls the model in this trial, or another model on the same clock."""
        route = route or self.route
        context = context_of(sandbox)
        cache = None
        if context.cache_dir is not None:
            cache = ReplyCache(context.cache_dir, context.repetition, context.trajectory.scrub)
        return Caller(
            make_model(route),
            clock or Clock(limits.timeout_sec),
            context.meter,
            tariff=find_price(route, context.prices),
            cache=cache,
            max_wait_sec=self.parameters.max_wait_sec,
            max_retries=self.parameters.max_retries,
        )

    def request(
        self,
        messages: tuple[Message, ...],
        system: str,
        limits: AgentLimits,
        tools: tuple[ToolSpec, ...] = (),
    ) -> ModelRequest:
        """Return a request with this agent's parameters."""
        return ModelRequest(
            messages,
            system,
            tools,
            max_tokens=limits.max_tokens or DEFAULT_MAX_TOKENS,
            temperature=self.parameters.temperature,
            reasoning_effort=self.parameters.reasoning_effort,
            cache_prompt=self.parameters.cache_prompt,
        )

    def result(
        self, caller: Caller, end: str, *, turns: int, error: str | None = None, **more: Any
    ) -> AgentResult:
        """Return how the agent ended, with what it used."""
        return AgentResult.metered(
            caller.meter,
            status=_STATUS[end],
            error=error,
            end=end,
            turns=turns,
            prompt_version=self.prompt_version,
            **more,
        )


def add_reply(trajectory: Trajectory, call: Call, turn: int, **more: Any) -> Entry:
    """Write the reply of a call into the trajectory; ``more`` is further metadata."""
    return trajectory.add(
        "assistant",
        call.reply.message.text,
        turn=turn,
        duration_ms=round(call.duration_sec * 1000),
        metadata={**_metadata(call), **more},
    )


def _metadata(call: Call) -> dict[str, Any]:
    """Return what a trajectory says of a call to a model."""
    reply, usage = call.reply, call.reply.usage
    about = {
        "model": reply.model,
        "stop": reply.stop,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "tokens_cache_read": usage.tokens_cache_read,
        "tokens_cache_write": usage.tokens_cache_write,
        "tokens_reasoning": usage.tokens_reasoning,
        "cost_usd": call.cost_usd,
        "cached": call.cached or None,
        "waited_sec": round(call.waited_sec, 1) or None,
        "failures": list(call.failures) or None,
        "request_id": reply.request_id,
        "reasoning": reply.reasoning or None,
    }
    return {name: value for name, value in about.items() if value is not None}
