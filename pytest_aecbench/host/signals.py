"""Interrupts: on a first SIGINT, SIGTERM or SIGHUP a run ends in order, on a second at once."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Interrupts"]

_SIGNALS: dict[signal.Signals, Any] = {  # with Python's own handlers
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,  # a closed terminal; nohup has it ignored
}
_INTERRUPTED = 2  # pytest's exit code for an interrupted run
_HURRIED = b"\naec: stopped at once; the next run records the unfinished trials\n"


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP, which have the same effect.

    A worker handles only the first, because its controller receives every Ctrl-C too and kills
    the worker at the second. A controller runs its ``last_acts`` before it exits at once.
    """

    def __init__(self, *, hurries: bool) -> None:
        self.last_acts: list[Callable[[], object]] = []
        self._hurries = hurries
        self._received = False
        self._held_back = False
        self._pending = False
        self.on_pending: Callable[[], object] = lambda: None

    def listen(self) -> None:
        """Install our handlers unless other code has installed its own."""
        with suppress(ValueError):  # not in the main thread
            for number, default in _SIGNALS.items():
                if signal.getsignal(number) is default:
                    signal.signal(number, self._answer)

    def ignore(self) -> None:
        """Restore Python's own handlers."""
        with suppress(ValueError):
            for number, default in _SIGNALS.items():
                if signal.getsignal(number) == self._answer:
                    signal.signal(number, default)
        if self._received:
            # Python remembers an interrupt that left code from a string, such as a dataclass being
            # made, also if it was caught later; `python -m` then dies of SIGINT in place of its
            # exit code. It forgets the interrupt when it runs other code from a string.
            exec("")  # noqa: S102

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Delay a first signal until the end of the block, which must not be left half done."""
        self._held_back = True
        try:
            yield
        finally:
            self._held_back = False
            if self._pending:
                self._pending = False
                raise KeyboardInterrupt

    def hold_back(self, held_back: bool) -> bool:
        """Set whether a first signal is delayed from now on; return how it was."""
        before, self._held_back = self._held_back, held_back
        return before

    def take_pending(self) -> bool:
        """Return whether a signal was delayed; the caller answers it."""
        pending, self._pending = self._pending, False
        return pending

    def _answer(self, number: int, frame: object) -> None:
        if not self._received:
            self._received = True
            if not self._held_back:
                raise KeyboardInterrupt
            self._pending = True
            self.on_pending()
        elif self._hurries:
            for act in self.last_acts:
                with suppress(Exception):
                    act()
            with suppress(OSError):
                os.write(2, _HURRIED)
            os._exit(_INTERRUPTED)
