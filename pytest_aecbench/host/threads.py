"""Threads that are reused and live as long as their process.

A process that asks the kernel to be killed with its parent dies when the *thread* ends that started
it, so a thread that has started a sandbox must not end while the sandbox is needed.
"""

from __future__ import annotations

import itertools
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_in_thread"]

_jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
_idle = threading.Semaphore(0)
_numbers = itertools.count(1)


def run_in_thread(job: Callable[[], object]) -> None:
    """Run a job, which must not raise, in a thread that is free, or in a new one."""
    _jobs.put(job)
    if not _idle.acquire(blocking=False):
        name = f"aec-away-{next(_numbers)}"
        threading.Thread(target=_work, name=name, daemon=True).start()


def _work() -> None:
    while True:
        _jobs.get()()
        _idle.release()
