"""Signals that ask a run to end: the first ends it in good order, a second at once."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Interrupts"]

_SIGNALS: dict[signal.Signals, Any] = {  # and what answers them where nobody said otherwise
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}
_INTERRUPTED = 2  # pytest's exit code for it
_HURRIED = b"\naec: stopped at once; the next run records what was under way\n"


class Interrupts:
    """SIGINT and SIGTERM, which mean the same.

    A worker answers only the first: its controller gets every Ctrl-C too, and ends a worker that
    is to end at once. ``last_acts`` are what a controller does before it does so itself.
    """

    def __init__(self, *, hurries: bool) -> None:
        self.last_acts: list[Callable[[], object]] = []
        self._hurries = hurries
        self._received = False
        self._held_back = False
        self._pending = False

    def listen(self) -> None:
        """Answer the signals, unless someone else does who knows better."""
        with suppress(ValueError):  # only a main thread may
            for number, default in _SIGNALS.items():
                if signal.getsignal(number) is default:
                    signal.signal(number, self._answer)

    def ignore(self) -> None:
        """Answer no more."""
        with suppress(ValueError):
            for number, default in _SIGNALS.items():
                if signal.getsignal(number) == self._answer:
                    signal.signal(number, default)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Let what must not be left half done end before a first signal is answered."""
        self._held_back = True
        try:
            yield
        finally:
            self._held_back = False
            if self._pending:
                self._pending = False
                raise KeyboardInterrupt

    def _answer(self, number: int, frame: object) -> None:
        if not self._received:
            self._received = True
            if not self._held_back:
                raise KeyboardInterrupt
            self._pending = True
        elif self._hurries:
            for act in self.last_acts:
                with suppress(Exception):
                    act()
            with suppress(OSError):
                os.write(2, _HURRIED)
            os._exit(_INTERRUPTED)
