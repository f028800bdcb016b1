"""Calls to a vendor: each with a deadline, and repeated only if that is safe."""

from __future__ import annotations

import queue
import random
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from pytest_aecbench.errors import BackendError, BackendLost

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Busy", "Full", "Lost", "bounded", "retry", "says_full"]

_T = TypeVar("_T")

PATIENCE_SEC = 180.0  # longer than a vendor's deployment takes
FIRST_WAIT_SEC = 0.5
_LONGEST_WAIT_SEC = 20.0


class Busy(BackendLost):
    """The vendor refused a call that changed nothing: a rate limit, no capacity, a bad gateway."""

    def __init__(self, message: str, retry_after_sec: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_sec = retry_after_sec


class Lost(BackendError):  # noqa: N818  (a state)
    """The connection failed after the call was sent, so its effect is unknown."""


class Full(BackendError):  # noqa: N818  (a state)
    """A sandbox's disk has no room left."""


def says_full(message: str) -> bool:
    """Return whether a message of a vendor or of a program means that a disk has no room left."""
    return "no space left on device" in message.lower()


def bounded(call: Callable[[], _T], timeout_sec: float, what: str) -> _T:
    """Return the call's result, or raise Lost if it takes too long.

    It runs in its own thread, because some vendors' clients use SIGALRM on the main one and none
    of them can be interrupted.
    """
    answers: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001  (raised again in the waiting thread)
            answers.put((None, error))

    threading.Thread(target=run, name="aec-call", daemon=True).start()
    try:
        answer, error = answers.get(timeout=timeout_sec)
    except queue.Empty:
        raise Lost(f"{what}: no answer within {timeout_sec:.0f} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]


def retry(
    call: Callable[[], _T],
    *,
    on_lost: bool = False,
    on_busy: Callable[[], object] | None = None,
    patience_sec: float | None = None,
) -> _T:
    """Repeat a call while the vendor is busy; with ``on_lost``, also when its effect is unknown.

    ``on_busy`` is called once, the first time the vendor is busy.
    """
    deadline = time.monotonic() + (PATIENCE_SEC if patience_sec is None else patience_sec)
    wait = FIRST_WAIT_SEC
    while True:
        try:
            return call()
        except Busy as error:
            pause = max(wait * random.uniform(0.5, 1), error.retry_after_sec or 0)  # noqa: S311
            if on_busy:
                on_busy()
                on_busy = None
            if time.monotonic() + pause > deadline:
                raise
        except Lost:
            pause = wait
            if not on_lost or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        wait = min(wait * 2, _LONGEST_WAIT_SEC)
