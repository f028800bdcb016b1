"""Threads that are reused and live as long as their process.

A process that asks the kernel to be killed with its parent dies when the *thread* ends that started
it, so a thread that has started a sandbox must not end while the sandbox is needed.
"""

from __future__ import annotations

import errno
import itertools
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_in_thread"]

_jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
_idle = threading.Semaphore(0)
_late = threading.Semaphore(0)  # jobs for which no thread could be started
_threads: list[threading.Thread] = []
_numbers = itertools.count(1)


def run_in_thread(job: Callable[[], object]) -> None:
    """Run a job, which must not raise, in a thread that is free, or in a new one.

    Where no more threads can be started, it waits for one of those that there are.

    Raises:
        OSError: there are none.

    """
    if not _idle.acquire(blocking=False):
        name = f"aec-away-{next(_numbers)}"
        thread = threading.Thread(target=_work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not _threads:
                raise BlockingIOError(errno.EAGAIN, str(error)) from None
            _late.release()
        else:
            _threads.append(thread)
    _jobs.put(job)


def _work() -> None:
    while True:
        _jobs.get()()
        if not _late.acquire(blocking=False):
            _idle.release()
