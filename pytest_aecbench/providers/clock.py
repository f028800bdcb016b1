"""The clock of an agent, which stands still while a provider lets it wait."""

from __future__ import annotations

import threading
import time

__all__ = ["Clock"]


class Clock:
    """Counts the time that an agent works, up to a limit; calls in several threads may share it.

    While any of them waits the clock stands still, and two that wait at once stop it once.
    """

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._waits: list[tuple[float, float]] = []  # apart from one another

    @property
    def left_sec(self) -> float:
        """The working time that is left; never below 0."""
        worked = time.monotonic() - self._start - self.waited_sec
        return max(0.0, self._limit_sec - worked)

    @property
    def waited_sec(self) -> float:
        """The time that was not work."""
        with self._lock:
            return sum(end - start for start, end in self._waits)

    def wait(self, start: float) -> float:
        """Count the time from ``start`` until now as waiting, not as work; return how long it was.

        ``start`` is a time of ``time.monotonic``.
        """
        end = time.monotonic()
        with self._lock:
            met = [one for one in self._waits if one[0] <= end and start <= one[1]]
            self._waits = [one for one in self._waits if one not in met]
            first, last = zip((start, end), *met, strict=True)
            self._waits.append((min(first), max(last)))
        return end - start
