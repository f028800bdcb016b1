"""The budget of a model: requests in flight and pauses, shared by all runs of a user.

Workers and threads that ask the same model share both: a request holds a slot, and when one of them
is told to slow down, all of them wait and fewer requests are in flight for a while.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pytest_aecbench.host import lanes, slots
from pytest_aecbench.host.files import shared_directory, whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.providers.routing import Route

__all__ = ["Budget"]

_IN_FLIGHT = 64
# After a pause not all go at once: each waits up to this share of the pause longer.
_SPREAD = 0.1
_LONGEST_PAUSE_SEC = 600.0
_POLL_SEC = 0.5


class Budget:
    """The budget of one model at one provider."""

    def __init__(self, route: Route) -> None:
        self._name = f"model-{route.provider}-{route.model}"
        self._count = int(route.settings.get("max_in_flight") or _IN_FLIGHT)

    @contextmanager
    def turn(self, patience_sec: float) -> Iterator[None]:
        """Hold a place among the requests in flight; raise TimeoutError if none comes free."""
        give_up = time.monotonic() + patience_sec
        self._await_pause(give_up)
        with slots.slot(self._name, self._count, patience_sec=give_up - time.monotonic()):
            self._await_pause(give_up)  # that began while it waited for its place
            yield

    def pause(self, seconds: float, *, fewer: bool) -> None:
        """Let all requests wait for so many seconds; ``fewer`` halves how many are in flight."""
        until = time.time() + min(seconds, _LONGEST_PAUSE_SEC)
        if until > self._paused_until():
            with suppress(OSError), whole(self._file, durable=False) as file:
                file.write(repr(until).encode())
        if fewer:
            slots.lower(self._name, self._count)

    def _await_pause(self, give_up: float) -> None:
        while (left := self._paused_until() - time.time()) > 0:
            if time.monotonic() + left > give_up:
                raise TimeoutError
            lanes.pause(min(left, _POLL_SEC) + random.uniform(0, left * _SPREAD))  # noqa: S311

    def _paused_until(self) -> float:
        try:
            until = float(self._file.read_text())
        except (OSError, ValueError):
            return 0.0
        return min(until, time.time() + _LONGEST_PAUSE_SEC)

    @property
    def _file(self) -> Path:
        return shared_directory("slots") / f"{slots.file_name(self._name)}.pause"
