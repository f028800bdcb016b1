"""Budgets over several models: checked before each call, exact, and safe among threads."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from pytest_aecbench.agents import AgentLimits
from pytest_aecbench.agents.spending import Budgets, LimitReached, Spending, tightened
from pytest_aecbench.agents.workers import Workers
from pytest_aecbench.providers import Message, ModelReply, ModelRequest, Text, Usage
from pytest_aecbench.providers.calls import Caller, Meter
from pytest_aecbench.providers.clock import Clock
from pytest_aecbench.providers.prices import Price, find_price
from pytest_aecbench.providers.routing import Route

pytestmark = pytest.mark.usefixtures("own_machine")

REQUEST = ModelRequest((Message("user", (Text("What is 2 + 2?"),)),))
USAGE = Usage(tokens_in=100, tokens_out=10, tokens_cache_read=1000, tokens_cache_write=5)
PRICES = {"one": Price(1.0, 1.0), "two": Price(2.0, 2.0)}


class Answering:
    """A model that answers at once, or when it is allowed to."""

    def __init__(self, name: str = "one", gate: threading.Barrier | None = None) -> None:
        self.route = Route("openai", name, {"base_url": "http://127.0.0.1:1/v1"})
        self.asked = 0
        self._gate = gate

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        self.asked += 1
        if self._gate is not None:
            self._gate.wait(30)
        return ModelReply(Message("assistant", (Text("four"),)), "end", USAGE)


def caller(model: Answering, meter: Meter) -> Caller:
    return Caller(model, Clock(100), meter, tariff=find_price(model.route, PRICES))


@pytest.mark.parametrize(
    ("budgets", "end", "calls"),
    [
        (Budgets(token_budget=1115), "token_budget", 1),
        (Budgets(token_budget=1116), "token_budget", 2),
        (Budgets(billable_input=105), "billable_input", 1),
        (Budgets(billable_input=211), "billable_input", 3),
        (Budgets(max_cost_usd=0.003), "cost_limit", 2),
        (Budgets(max_calls=3), "call_limit", 3),
    ],
)
def test_a_spent_budget_stops_the_next_call_to_any_model(
    budgets: Budgets, end: str, calls: int
) -> None:
    spending = Spending(Meter(), budgets)
    one, two = Answering("one"), Answering("two")
    for n in range(calls):
        spending.call(caller((one, two)[n % 2], spending.meter), REQUEST, counts=True)
    with pytest.raises(LimitReached) as caught:
        spending.call(caller(one, spending.meter), REQUEST, counts=True)
    assert (caught.value.end, one.asked + two.asked) == (end, calls)
    assert (spending.meter.calls, spending.meter.usage.tokens_in) == (calls, 100 * calls)


def test_calls_that_do_not_count_are_not_limited_but_summed() -> None:
    spending = Spending(Meter(), Budgets(max_calls=1))
    model = Answering()
    for counts in (False, True, False):
        spending.call(caller(model, spending.meter), REQUEST, counts=counts)
    with pytest.raises(LimitReached, match="made 1 call"):
        spending.call(caller(model, spending.meter), REQUEST, counts=True)
    assert (spending.meter.calls, spending.counted_calls) == (3, 1)


def test_no_budget_is_no_limit() -> None:
    spending = Spending(Meter(), Budgets())
    spending.call(caller(Answering(), spending.meter), REQUEST, counts=True)
    assert spending.share_of_tokens() == 0
    assert Spending(spending.meter, Budgets(token_budget=2230)).share_of_tokens() == 0.5


def test_threads_make_exactly_as_many_calls_as_count() -> None:
    spending, model, workers = Spending(Meter(), Budgets(max_calls=20)), Answering(), Workers(8)
    ours = caller(model, spending.meter)
    futures = [workers.submit(spending.call, ours, REQUEST, counts=True) for _ in range(50)]
    wait(futures, 60)
    ends = [future.exception() for future in futures]
    assert sum(end is None for end in ends) == model.asked == spending.meter.calls == 20
    assert all(isinstance(end, LimitReached) for end in ends if end is not None)
    assert spending.meter.usage.tokens_out == 200
    assert spending.meter.counted_tokens == 20 * USAGE.total


def test_workers_are_as_many_as_they_may_be_and_keep_the_order() -> None:
    gate, workers = threading.Barrier(3), Workers(3)
    running: list[int] = []
    begun: list[int] = []
    lock = threading.Lock()
    most = 0

    def job(number: int) -> int:
        nonlocal most
        with lock:
            begun.append(number)
            running.append(number)
            most = max(most, len(running))
        gate.wait(30)
        with lock:
            running.remove(number)
        return number

    futures = [workers.submit(job, number) for number in range(9)]
    assert [future.result(30) for future in futures] == list(range(9))
    assert most == 3
    assert [sorted(begun[n : n + 3]) for n in (0, 3, 6)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_job_that_is_cancelled_does_not_run_and_an_error_is_the_waiters() -> None:
    gate, workers = threading.Event(), Workers(1)
    first = workers.submit(gate.wait, 30)
    second, third = workers.submit(int, "x"), workers.submit(int, "3")
    third.cancel()
    gate.set()
    assert first.result(30) is True
    with pytest.raises(ValueError, match="invalid literal"):
        second.result(30)
    assert third.cancelled()


def test_waits_of_threads_that_overlap_stop_the_clock_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = Clock(100)
    for start, end in ((5.0, 7.0), (0.0, 10.0), (20.0, 30.0), (25.0, 32.0)):
        now = end
        assert clock.wait(start) == end - start
    assert clock.waited_sec == 22
    now = 40.0
    assert clock.left_sec == 100 - (40 - 22)


def test_an_agents_own_limits_tighten_those_of_the_task_and_never_loosen_them() -> None:
    file = Budgets(token_budget=500, max_cost_usd=None, max_calls=7)
    assert tightened(file, AgentLimits(60, token_budget=400)).token_budget == 400
    assert tightened(file, AgentLimits(60, token_budget=600)).token_budget == 500
    assert tightened(file, AgentLimits(60, max_cost_usd=0.5)).max_cost_usd == 0.5
    assert tightened(file, AgentLimits(60)) == file
