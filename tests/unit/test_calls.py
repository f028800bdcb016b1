"""Calls to models: what is tried again, what is waited for, what is counted."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_aecbench.errors import (
    AuthFailed,
    ConnectionFailed,
    ModelTimeout,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Refused,
    RequestRejected,
    ServerFailed,
)
from pytest_aecbench.providers import (
    Message,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    Usage,
)
from pytest_aecbench.providers.budget import Budget
from pytest_aecbench.providers.cache import ReplyCache
from pytest_aecbench.providers.calls import Caller, DeadlineReached, Meter
from pytest_aecbench.providers.clock import Clock
from pytest_aecbench.providers.prices import Price, find_price
from pytest_aecbench.providers.routing import Route

pytestmark = pytest.mark.usefixtures("own_machine")

ROUTE = Route("openai", "gpt-test", {"base_url": "http://127.0.0.1:1/v1"})
REQUEST = ModelRequest((Message("user", (Text("What is 2 + 2?"),)),))
REPLY = ModelReply(
    Message(
        "assistant",
        (Text("four"), ToolCall("c1", "bash", {"command": "ls"}, '{"command": "ls"}')),
        native=[{"type": "reasoning", "encrypted": "x"}],
    ),
    "tool_calls",
    Usage(tokens_in=1000, tokens_out=100, tokens_cache_read=2000),
    "gpt-test-1",
    "req_1",
)


class Provider:
    """A provider that fails as it is told, and then answers."""

    def __init__(self, *failures: ProviderError, route: Route = ROUTE) -> None:
        self.route = route
        self.failures = list(failures)
        self.asked = 0
        self.timeouts: list[float] = []

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        self.asked += 1
        self.timeouts.append(timeout_sec)
        if self.failures:
            raise self.failures.pop(0)
        return REPLY


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times that calls wait, which pass at once."""
    slept: list[float] = []
    monotonic, clock = time.monotonic(), time.time()
    monkeypatch.setattr(time, "monotonic", lambda: monotonic + sum(slept))
    monkeypatch.setattr(time, "time", lambda: clock + sum(slept))

    def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    return slept


def caller(provider: Provider, **options: object) -> Caller:
    return Caller(provider, Clock(100), Meter(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Overloaded, ServerFailed, ModelTimeout, ConnectionFailed])
def test_a_failure_that_may_pass_is_tried_again(
    kind: type[ProviderError], naps: list[float]
) -> None:
    provider = Provider(kind("no"), kind("no"))
    call = caller(provider).call(REQUEST)
    assert call.reply == REPLY
    assert provider.asked == 3
    assert [failure.partition(":")[0] for failure in call.failures] == [kind.__name__] * 2
    assert 0.75 <= naps[0] <= 1.25
    assert 1.5 <= naps[1] <= 2.5


@pytest.mark.parametrize("kind", [AuthFailed, QuotaExceeded, RequestRejected])
def test_a_failure_that_cannot_pass_is_not_tried_again(
    kind: type[ProviderError], naps: list[float]
) -> None:
    provider = Provider(kind("no"))
    with pytest.raises(ProviderError, match="no"):
        caller(provider).call(REQUEST)
    assert (provider.asked, naps) == (1, [])


def test_retries_come_to_an_end(naps: list[float]) -> None:
    provider = Provider(*(ServerFailed("no") for _ in range(99)))
    with pytest.raises(ServerFailed):
        caller(provider, max_retries=3).call(REQUEST)
    assert provider.asked == 4


def test_the_providers_own_delay_is_honoured_and_not_charged_to_the_agent(
    naps: list[float],
) -> None:
    ours = caller(Provider(RateLimited("slow down", retry_after_sec=42)))
    call = ours.call(REQUEST)
    assert naps == [42]
    assert call.waited_sec == pytest.approx(42)
    assert ours.meter.waited_sec == pytest.approx(42)
    assert ours.clock.left_sec == pytest.approx(100)


def test_a_rate_limit_is_waited_for_until_patience_ends(naps: list[float]) -> None:
    provider = Provider(*(RateLimited("slow down", retry_after_sec=40) for _ in range(99)))
    with pytest.raises(RateLimited):
        caller(provider, max_wait_sec=100, max_retries=0).call(REQUEST)
    assert sum(naps) <= 100
    assert provider.asked == 3


def test_all_callers_of_a_model_wait_when_one_is_told_to(naps: list[float]) -> None:
    Budget(ROUTE).pause(30, fewer=True)
    with Budget(ROUTE).turn(60):
        pass
    other = Route("openai", "gpt-other")
    before = len(naps)
    with Budget(other).turn(60):
        pass
    assert 30 <= sum(naps[:before]) <= 60
    assert len(naps) == before


def test_another_process_waits_too() -> None:
    told = "from pytest_aecbench.providers.budget import Budget; "
    told += "from pytest_aecbench.providers.routing import Route; "
    told += f"Budget(Route({ROUTE.provider!r}, {ROUTE.model!r})).pause(300, fewer=True)"
    subprocess.run([sys.executable, "-c", told], check=True)
    with pytest.raises(TimeoutError), Budget(ROUTE).turn(1):
        pass


def test_a_pause_that_is_longer_than_patience_is_a_rate_limit(naps: list[float]) -> None:
    Budget(ROUTE).pause(300, fewer=True)
    provider = Provider()
    with pytest.raises(RateLimited, match="no turn within 5 s of waiting"):
        caller(provider, max_wait_sec=5).call(REQUEST)
    assert provider.asked == 0


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    route = Route("openai", "gpt-busy", {"max_in_flight": 2})
    level, highest, lock = 0, 0, threading.Lock()
    together = threading.Barrier(2, timeout=30)

    class Busy(Provider):
        def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
            nonlocal level, highest
            with lock:
                level += 1
                highest = max(highest, level)
            together.wait()  # two of them, and never a third, are here at once
            with lock:
                level -= 1
            return REPLY

    def work() -> None:
        Caller(Busy(route=route), Clock(100), Meter()).call(REQUEST)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert highest == 2


def test_a_call_has_no_more_time_than_the_agent() -> None:
    provider = Provider()
    Caller(provider, Clock(7), Meter()).call(REQUEST)
    assert 6 < provider.timeouts[0] <= 7
    Caller(provider, Clock(10_000), Meter()).call(REQUEST)
    assert provider.timeouts[1] == 600


def test_a_provider_that_never_answered_is_an_error_and_not_a_deadline(naps: list[float]) -> None:
    provider = Provider(*(ModelTimeout("no answer") for _ in range(99)))
    with pytest.raises(ModelTimeout):
        Caller(provider, Clock(10), Meter(), max_retries=2).call(REQUEST)


class SlowProvider(Provider):
    """A provider that takes all the time it is given before it fails."""

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        if self.failures:
            time.sleep(timeout_sec)
        return super().complete(request, timeout_sec=timeout_sec)


def test_a_model_that_is_too_slow_at_the_end_has_reached_the_deadline() -> None:
    provider = SlowProvider()
    ours = Caller(provider, Clock(1), Meter())
    ours.call(REQUEST)
    provider.failures.append(ModelTimeout("no answer"))
    with pytest.raises(DeadlineReached):
        ours.call(REQUEST)


def test_a_provider_that_gives_up_before_the_deadline_is_asked_again(naps: list[float]) -> None:
    provider = Provider()
    ours = caller(provider)
    ours.call(REQUEST)
    provider.failures.append(ModelTimeout("openai answered 408: nothing"))
    assert ours.call(REQUEST).reply == REPLY
    assert provider.asked == 3


def test_an_answer_of_an_earlier_run_does_not_show_that_the_provider_answers(
    tmp_path: Path,
) -> None:
    caller(Provider(), cache=ReplyCache(tmp_path)).call(REQUEST)
    provider = SlowProvider(ModelTimeout("no answer"))
    ours = Caller(provider, Clock(0.2), Meter(), cache=ReplyCache(tmp_path), max_retries=0)
    assert ours.call(REQUEST).cached
    with pytest.raises(ModelTimeout):
        ours.call(ModelRequest((Message("user", (Text("And 3 + 3?"),)),)))


def test_a_reply_that_cannot_be_used_is_paid_for(tmp_path: Path) -> None:
    deep: dict[str, object] = {}
    for _ in range(70):
        deep = {"x": deep}
    message = Message("assistant", (ToolCall("c1", "bash", deep),))

    class Nesting(Provider):
        def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
            return replace(REPLY, message=message)

    ours = caller(Nesting(), cache=ReplyCache(tmp_path))
    with pytest.raises(Refused, match="nested too deep"):
        ours.call(REQUEST)
    assert (ours.meter.calls, ours.meter.usage) == (1, REPLY.usage)
    assert ReplyCache(tmp_path).get(ROUTE, REQUEST) is None


def test_the_meter_adds_tokens_and_cost() -> None:
    tariff = find_price(ROUTE, {"gpt-test": Price(input=2, output=10, cache_read=0.5)})
    ours = caller(Provider(), tariff=tariff)
    ours.call(REQUEST)
    ours.call(REQUEST)
    assert ours.meter.usage == Usage(2000, 200, 4000)
    # 2 x (1000 x 2 + 100 x 10 + 2000 x 0.5) / 1e6
    assert ours.meter.cost_usd == pytest.approx(0.008)
    assert ours.meter.price_source == "own"


def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    ours = caller(Provider(), tariff=find_price(ROUTE, {}))
    ours.call(REQUEST)
    assert ours.meter.cost_usd is None


def test_published_prices_are_found_and_named() -> None:
    route = Route("anthropic", "claude-sonnet-4-20250514")
    tariff = find_price(route, {})
    assert tariff is not None
    assert tariff.source.startswith("genai-prices ")
    # USD 3 in, 15 out, 0.3 for reading and 3.75 for writing the cache, per million
    usage = Usage(1_000_000, 100_000, 1_000_000, 1_000_000)
    assert tariff.cost(usage) == pytest.approx(3 + 1.5 + 0.3 + 3.75)
    assert find_price(Route("anthropic", "claude-imaginary-9"), {}) is None


def test_a_model_of_a_users_own_server_has_no_published_price() -> None:
    assert find_price(Route("openai", "gpt-4.1"), {}) is not None
    assert find_price(Route("openai", "gpt-4.1", {"base_url": "http://x/v1"}), {}) is None


def test_a_reply_is_served_again_without_asking_or_paying(tmp_path: Path) -> None:
    tariff = find_price(ROUTE, {"gpt-test": Price(input=2, output=10)})
    first = caller(Provider(), cache=ReplyCache(tmp_path), tariff=tariff)
    first.call(REQUEST)
    provider = Provider()
    second = caller(provider, cache=ReplyCache(tmp_path), tariff=tariff)
    call = second.call(REQUEST)
    assert call.cached
    assert call.reply == REPLY
    assert provider.asked == 0
    assert second.meter.usage == Usage()
    assert second.meter.cost_usd == 0
    assert (second.meter.calls, second.meter.cached_calls) == (1, 1)
    assert second.meter.counted_usd == first.meter.counted_usd > 0


def test_another_request_repetition_or_model_is_asked(tmp_path: Path) -> None:
    caller(Provider(), cache=ReplyCache(tmp_path)).call(REQUEST)
    other = ModelRequest((Message("user", (Text("What is 3 + 3?"),)),))
    assert ReplyCache(tmp_path).get(ROUTE, other) is None
    assert ReplyCache(tmp_path, repetition=2).get(ROUTE, REQUEST) is None
    assert ReplyCache(tmp_path).get(Route("openai", "gpt-test"), REQUEST) is None
    assert ReplyCache(tmp_path).get(ROUTE, REQUEST) == REPLY


def test_a_damaged_reply_is_asked_for_again(tmp_path: Path) -> None:
    caller(Provider(), cache=ReplyCache(tmp_path)).call(REQUEST)
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text(kept.read_text()[:-20])
    provider = Provider()
    assert not caller(provider, cache=ReplyCache(tmp_path)).call(REQUEST).cached
    assert provider.asked == 1
    assert caller(provider, cache=ReplyCache(tmp_path)).call(REQUEST).cached
