"""The clock of an agent, which stands still while a provider lets it wait."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Clock"]


class Clock:
    """Counts the time that an agent works, up to a limit."""

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._start = time.monotonic()
        self.waited_sec = 0.0

    @property
    def left_sec(self) -> float:
        """The working time that is left; never below 0."""
        worked = time.monotonic() - self._start - self.waited_sec
        return max(0.0, self._limit_sec - worked)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Count the block as waiting, not as work."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.waited_sec += time.monotonic() - start
