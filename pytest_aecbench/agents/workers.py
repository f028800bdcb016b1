"""Workers: threads of one trial that make calls to models side by side, a few at a time."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pytest_aecbench.host.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Workers"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Workers:
    """Runs jobs in the order in which they come, at most ``most`` of them at once.

    Its threads do not keep a process from ending, so a run that is interrupted need not wait for
    calls that are under way.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = 0

    def submit(self, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run a job as soon as a worker is free."""
        future: Future[_T] = Future()
        # The context says which lane the thread works for, if the run has lanes.
        work = partial(copy_context().run, _settle, future, partial(job, *args, **kwargs))
        with self._lock:
            self._waiting.append(work)
            if self._busy >= self._most:
                return future
            self._busy += 1
        run_in_thread(self._work)
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy -= 1
                    return
                work = self._waiting.popleft()
            work()


def _settle(future: Future[_T], job: Callable[[], _T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = job()
    except BaseException as error:  # noqa: BLE001  (it is for the thread that waits)
        future.set_exception(error)
    else:
        future.set_result(result)
