"""Replace secrets in output while it comes, also those that lie across two chunks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.host.secrets.search import Span, replaced

if TYPE_CHECKING:
    from pytest_aecbench.host.secrets.scrubber import Scrubber

__all__ = ["ScrubbedStream"]

# Of the bytes that are out, so many are remembered: a secret may have begun there with too few
# characters to be held back.
_REMEMBERED = 64


class ScrubbedStream:
    """Passes on output in whole lines, except a line in which a secret could have begun."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._search = scrubber.search
        self._passed = b""
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what can be passed on now that ``data`` has come."""
        return self._pass_on(self._held + data, is_over=False)

    def end(self) -> bytes:
        """Return the rest of the output."""
        rest = self._pass_on(self._held, is_over=True)
        self._passed = b""
        return rest

    def _pass_on(self, pending: bytes, *, is_over: bool) -> bytes:
        data, done = self._passed + pending, len(self._passed)
        found = self._search.find(data)
        stop = len(data) if is_over else self._stop(data, found)
        self._passed = data[max(0, stop - _REMEMBERED) : stop]
        self._held = data[stop:]
        ready = [
            Span(max(start, done) - done, min(end, stop) - done, label)
            for start, end, label in found
            if start < stop and end > done
        ]
        return b"".join(replaced(data[done:stop], ready))

    def _stop(self, data: bytes, found: list[Span]) -> int:
        """Return how far the data can be passed on."""
        done = len(self._passed)
        stop = self._search.beginning(data)
        if len(data) - stop > self._search.reach:
            return len(data)
        stop = next((span.start for span in found if span.start < stop < span.end), stop)
        if stop < len(data):
            stop = data.rfind(b"\n", 0, stop) + 1
        return max(stop, done)
