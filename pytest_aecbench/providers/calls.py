"""Calls to a model: retries, the shared budget, the cache of replies, tokens and cost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_aecbench.errors import (
    ConnectionFailed,
    ModelTimeout,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    ServerFailed,
)
from pytest_aecbench.providers import Model, ModelReply, ModelRequest, Usage
from pytest_aecbench.providers.budget import Budget
from pytest_aecbench.text import encodable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_aecbench.providers.cache import ReplyCache
    from pytest_aecbench.providers.clock import Clock
    from pytest_aecbench.providers.prices import Tariff

__all__ = ["Call", "Caller", "DeadlineReached", "Meter"]

_RETRIED = (RateLimited, Overloaded, ServerFailed, ModelTimeout, ConnectionFailed)
_LONGEST_CALL_SEC = 600.0
_MARGIN_SEC = 0.1  # by which clocks may differ
_FIRST_DELAY_SEC = 1.0
_LONGEST_DELAY_SEC = 60.0
# Of arguments; far below what Python's recursion allows, far above what a tool takes.
_MAX_DEPTH = 64


class DeadlineReached(Exception):  # noqa: N818  (a state)
    """The agent's working time is over."""


@dataclass(frozen=True, slots=True)
class Call:
    """One answered call; ``failures`` are the errors after which it was made again."""

    reply: ModelReply
    cost_usd: float | None = None
    cached: bool = False
    duration_sec: float = 0.0
    waited_sec: float = 0.0
    failures: tuple[str, ...] = ()


@dataclass(slots=True)
class Meter:
    """The sum of a trial's calls to models, also of those before an error.

    The ``counted`` figures include calls that were answered from the cache, so that a limit ends a
    replayed run where it ended the first one.
    """

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    price_source: str | None = None
    calls: int = 0
    cached_calls: int = 0
    waited_sec: float = 0.0
    counted_tokens: int = 0
    counted_input: int = 0  # without what was read from the provider's cache
    counted_usd: float = 0.0
    unpriced: bool = False
    on_call: Callable[[Meter], object] | None = None  # told after each call
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, call: Call, tariff: Tariff | None) -> None:
        """Add a call that was answered; threads may add theirs at once."""
        with self._lock:
            self._add(call, tariff)
            if self.on_call is not None:
                self.on_call(self)

    def _add(self, call: Call, tariff: Tariff | None) -> None:
        usage = call.reply.usage
        self.calls += 1
        self.waited_sec += call.waited_sec
        self.counted_tokens += usage.total
        self.counted_input += (usage.tokens_in or 0) + (usage.tokens_cache_write or 0)
        usd = tariff.cost(usage) if tariff else None
        self.counted_usd += usd or 0.0
        self.price_source = tariff.source if tariff else self.price_source
        self.cached_calls += call.cached
        if not call.cached:
            self.usage += usage
            self.unpriced = self.unpriced or usd is None
        # One call of unknown price makes the sum unknown.
        self.cost_usd = None if self.unpriced else (self.cost_usd or 0.0) + (call.cost_usd or 0.0)


class Caller:
    """Calls one model for one agent in one trial, and tells the meter.

    A rate limit is waited for until ``max_wait_sec`` are spent on waiting; any other failure that
    may pass is tried again ``max_retries`` times.
    """

    def __init__(
        self,
        model: Model,
        clock: Clock,
        meter: Meter,
        *,
        tariff: Tariff | None = None,
        cache: ReplyCache | None = None,
        max_wait_sec: float = 600.0,
        max_retries: int = 6,
    ) -> None:
        self.model = model
        self.clock = clock
        self.meter = meter
        self.tariff = tariff
        self._has_answered = False
        self._cache = cache
        self._budget = Budget(model.route)
        self._max_wait_sec = max_wait_sec
        self._max_retries = max_retries

    def call(self, request: ModelRequest) -> Call:
        """Return the model's answer.

        Raises:
            ProviderError: there is no answer, also after retries.
            DeadlineReached: the agent has no working time left.

        """
        answered = self._cached(request) or self._asked(request)
        # An answer is paid for, whatever becomes of it.
        self.meter.add(answered, self.tariff)
        answered = replace(answered, reply=_encodable(answered.reply))
        if self._cache is not None and not answered.cached:
            self._cache.put(self.model.route, request, answered.reply)
        return answered

    def _cached(self, request: ModelRequest) -> Call | None:
        if self._cache is None:
            return None
        reply = self._cache.get(self.model.route, request)
        return Call(reply, 0.0, cached=True) if reply else None

    def _asked(self, request: ModelRequest) -> Call:
        waits = _Waits(self.clock)
        failures: list[str] = []
        while True:
            delay = _Delay(len(failures) + 1)
            try:
                reply, duration_sec = self._attempt(request, delay, waits)
                break
            except _RETRIED as error:
                failures.append(f"{type(error).__name__}: {error}")
                self._await_retry(error, delay, waits)
        self._has_answered = True
        return Call(
            reply,
            self.tariff.cost(reply.usage) if self.tariff else None,
            duration_sec=duration_sec,
            waited_sec=waits.total_sec,
            failures=tuple(failures),
        )

    def _attempt(
        self, request: ModelRequest, delay: _Delay, waits: _Waits
    ) -> tuple[ModelReply, float]:
        """Ask once; the time of an attempt that failed counts as waiting."""
        entered = time.monotonic()
        try:
            with self._budget.turn(self._patience_sec):
                waits.add(entered)
                try:
                    return self._timed(request, waits)
                except (RateLimited, Overloaded) as error:
                    # All wait, also the next one in this place, which is not free yet.
                    if (seconds := delay.after(error)) <= self._patience_sec:
                        self._budget.pause(seconds, fewer=delay.failed == 1)
                    raise
        except TimeoutError:
            waits.add(entered)
            raise RateLimited(
                f"{self.model.route.provider}: no turn within {self._max_wait_sec:g} s of waiting; "
                "raise max_wait_sec or run fewer trials at once"
            ) from None

    def _timed(self, request: ModelRequest, waits: _Waits) -> tuple[ModelReply, float]:
        left_sec = self.clock.left_sec
        if left_sec <= 0:
            raise DeadlineReached
        start = time.monotonic()
        try:
            asked = self.model.complete(request, timeout_sec=min(_LONGEST_CALL_SEC, left_sec))
        except ModelTimeout:
            # A model that has answered before is too slow for the time that its agent left it.
            # One that never did is a provider that hangs, which is not the agent's fault, and one
            # that gives up earlier has failed.
            if self._has_answered and self.clock.left_sec < _MARGIN_SEC:
                raise DeadlineReached from None
            waits.add(start)
            raise
        except ProviderError:
            waits.add(start)
            raise
        return asked, time.monotonic() - start

    def _await_retry(self, error: ProviderError, delay: _Delay, waits: _Waits) -> None:
        """Wait until it makes sense to ask again; or give up."""
        delay_sec = delay.after(error)
        too_long = delay_sec > self._patience_sec
        has_failed = delay.failed > self._max_retries and not isinstance(error, RateLimited)
        if too_long or has_failed:
            raise error
        entered = time.monotonic()
        try:
            time.sleep(delay_sec)
        finally:
            waits.add(entered)

    @property
    def _patience_sec(self) -> float:
        return max(0.0, self._max_wait_sec - self.clock.waited_sec)


@dataclass(slots=True)
class _Waits:
    """The waits of one call, which stop its agent's clock."""

    clock: Clock
    total_sec: float = 0.0

    def add(self, start: float) -> None:
        """Count the time since ``start``."""
        self.total_sec += self.clock.wait(start)


_T = TypeVar("_T")


def _encodable(value: _T, depth: int = _MAX_DEPTH) -> _T:
    """Return a reply that UTF-8 can carry and that is not nested too deep to be sent back.

    JSON can escape half a character, and a model can write any number of brackets; it must not be
    able to make the next request fail, which would not be scored.
    """
    if depth < 0:
        raise Refused("the reply is nested too deep to be read")
    made: Any = value
    if isinstance(value, str):
        made = encodable(value)
    elif isinstance(value, Mapping):
        made = {encodable(key): _encodable(item, depth - 1) for key, item in value.items()}
    elif isinstance(value, (list, tuple)):
        made = type(value)(_encodable(item, depth - 1) for item in value)
    elif is_dataclass(value) and not isinstance(value, type):
        names = [part.name for part in fields(value)]
        made = replace(value, **{name: _encodable(getattr(value, name), depth) for name in names})
    result: _T = made
    return result


class _Delay:
    """The time to wait after a failure: as the provider says, and longer each time."""

    def __init__(self, failed: int) -> None:
        self.failed = failed
        backoff_sec = min(_LONGEST_DELAY_SEC, _FIRST_DELAY_SEC * 2.0 ** (failed - 1))
        self._backoff_sec = backoff_sec * random.uniform(0.75, 1.25)  # noqa: S311

    def after(self, error: ProviderError) -> float:
        """Return the seconds."""
        if error.retry_after_sec is None:
            return self._backoff_sec
        if self.failed == 1:
            return error.retry_after_sec
        return max(error.retry_after_sec, self._backoff_sec)
