"""The budgets of a trial that calls several models, maybe at once: checked before each call."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.providers.prices import find_price
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents import AgentLimits
    from pytest_aecbench.providers import ModelRequest
    from pytest_aecbench.providers.calls import Call, Caller, Meter
    from pytest_aecbench.providers.prices import Price
    from pytest_aecbench.providers.routing import Route

__all__ = ["Budgets", "LimitReached", "Spending", "check_priced", "tightened"]


class LimitReached(Exception):  # noqa: N818  (a state)
    """A budget is spent; ``end`` names it as records do, and the message says how much it was."""

    def __init__(self, end: str, reason: str) -> None:
        super().__init__(reason)
        self.end = end


@dataclass(frozen=True, slots=True)
class Budgets:
    """The tokens, money and calls that a trial may use in all; None leaves one out.

    ``billable_input`` is input that was not read from the provider's cache. ``max_calls`` are those
    that ``Spending.call`` is told to count.
    """

    token_budget: int | None = None
    billable_input: int | None = None
    max_cost_usd: float | None = None
    max_calls: int | None = None


class Spending:
    """Makes the calls of a trial as long as its budgets last; threads may share it.

    Calls in flight are not known to cost anything yet, so as many as there are threads may begin
    before a budget of tokens or money is found to be spent. A number of calls is exact.
    """

    def __init__(self, meter: Meter, budgets: Budgets) -> None:
        self.meter = meter
        self.budgets = budgets
        self._lock = threading.Lock()
        self._begun = 0

    def check(self) -> None:
        """Raise LimitReached if a budget of tokens or money is spent."""
        meter, budgets = self.meter, self.budgets
        if _is_spent(meter.counted_tokens, budgets.token_budget):
            raise LimitReached("token_budget", f"used {meter.counted_tokens} tokens")
        if _is_spent(meter.counted_input, budgets.billable_input):
            reason = f"used {meter.counted_input} tokens of input that no cache had"
            raise LimitReached("billable_input", reason)
        if _is_spent(meter.counted_usd, budgets.max_cost_usd):
            raise LimitReached("cost_limit", f"cost {meter.counted_usd:.4f} USD")

    def call(self, caller: Caller, request: ModelRequest, *, counts: bool = False) -> Call:
        """Make a call, or raise LimitReached before it; ``counts`` makes it one of ``max_calls``.

        Raises:
            ProviderError: there is no answer, also after retries.
            DeadlineReached: the agent has no working time left.

        """
        self.check()
        if counts:
            self._count()
        return caller.call(request)

    @property
    def counted_calls(self) -> int:
        """The calls that have begun and count."""
        return self._begun

    def share_of_tokens(self) -> float:
        """Return the share of the budget of tokens that is used; 0 without one."""
        budget = self.budgets.token_budget
        return self.meter.counted_tokens / budget if budget else 0.0

    def _count(self) -> None:
        most = self.budgets.max_calls
        with self._lock:
            if _is_spent(self._begun, most):
                raise LimitReached("call_limit", f"made {counted(self._begun, 'call')}")
            self._begun += 1


def _is_spent(used: float, budget: float | None) -> bool:
    return budget is not None and used >= budget


def tightened(budgets: Budgets, limits: AgentLimits) -> Budgets:
    """Return the budgets of a task's file as the agent's own parameters tighten them."""
    return Budgets(
        _least(budgets.token_budget, limits.token_budget),
        budgets.billable_input,
        _least(budgets.max_cost_usd, limits.max_cost_usd),
        budgets.max_calls,
    )


_NumberT = TypeVar("_NumberT", int, float)


def _least(one: _NumberT | None, other: _NumberT | None) -> _NumberT | None:
    known = [value for value in (one, other) if value is not None]
    return min(known) if known else None


def check_priced(route: Route, prices: Mapping[str, Price], where: str) -> None:
    """Raise SettingsError for a model of unknown price, which a limit in USD could not stop."""
    if find_price(route, prices) is None:
        raise SettingsError(
            f"{where}: the price of {route.model!r} is not known; add it under [prices] in "
            "aec-bench.toml, or pip install 'pytest-aecbench[prices]'"
        )
