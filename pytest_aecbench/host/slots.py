"""How many sandboxes run at once on this machine: a slot for each, shared by all runs of a user.

A slot is a locked file, which the kernel unlocks when its holder dies. Whoever finds all slots
taken becomes the heir of one, by the lock of another file: nobody takes a slot that has an heir, so
a worker that frees its slot and comes back at once cannot overtake those who wait.

A backend may be given fewer slots at first, or after it could not serve more; twice as many are
used after a while, and again, until it has all of them.
"""

from __future__ import annotations

import os
import random
import re
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pytest_aecbench.host.files import shared_directory, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from filelock import BaseFileLock

__all__ = ["cores", "lower", "slot"]

_POLL_SEC = 0.05
# How many slots a waiting process looks at in each round, besides the one it is the heir of.
_GLANCES = 8
# After how long twice as many slots are used: at first, and after a backend could not serve more.
_RAMP_SEC = 5.0
_LOWERED_SEC = 60.0
# Whoever comes after so long finds the backend as it was at first.
_IDLE_SEC = 600.0


@contextmanager
def slot(backend: str, count: int, first: int | None = None) -> Iterator[None]:
    """Hold one of the backend's first ``count`` slots, waiting for it as long as it takes.

    With ``first``, no more than these are used in the first seconds.
    """
    if first is not None:
        _ramp_up(backend, first)
    seeker = _Seeker(backend)
    try:
        # From the last one: those who may use fewer slots have only the first ones.
        seeker.look(reversed(range(_usable(backend, count))))
        while seeker.slot is None:
            time.sleep(_POLL_SEC)
            now = _usable(backend, count)
            seeker.look(random.sample(range(now), min(now, _GLANCES)))
        seeker.disclaim()
        yield
    finally:
        seeker.disclaim()
        if seeker.slot is not None:
            seeker.slot.release()


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lower(backend: str, count: int) -> int:
    """Let all runs use half as many slots for a while; return how many that are."""
    now = max(1, _usable(backend, count) // 2)
    _limit(backend, now, _LOWERED_SEC)
    return now


def _ramp_up(backend: str, first: int) -> None:
    path = _limit_file(backend)
    try:
        idle = time.time() - path.stat().st_mtime > _IDLE_SEC
    except FileNotFoundError:
        idle = True
    if idle:
        _limit(backend, first, _RAMP_SEC)
    else:
        with suppress(FileNotFoundError):
            os.utime(path)


def _limit(backend: str, limit: int, every_sec: float) -> None:
    with whole(_limit_file(backend), durable=False) as file:
        file.write(f"{limit} {time.time()} {every_sec}".encode())


def _usable(backend: str, count: int) -> int:
    try:
        limit, since, every_sec = map(float, _limit_file(backend).read_text().split())
    except (FileNotFoundError, ValueError):
        return count
    doublings = max(0.0, time.time() - since) // every_sec
    return max(1, int(min(count, limit * 2.0 ** min(doublings, 64))))


def _limit_file(backend: str) -> Path:
    return shared_directory("slots") / f"{_slug(backend)}.limit"


def _slug(backend: str) -> str:
    return re.sub(r"\W+", "-", backend)


class _Seeker:
    """One process on its way to a slot; meanwhile it may be the heir of one."""

    def __init__(self, backend: str) -> None:
        self._files = shared_directory("slots") / _slug(backend)
        self.slot: BaseFileLock | None = None
        self._claim: BaseFileLock | None = None
        self._claimed = -1

    def look(self, numbers: Iterable[int]) -> None:
        """Take the slot that it is the heir of, or one of these; be the heir of one at least."""
        if self._claim is not None:
            self.slot = self._lock(f"{self._claimed}.slot")
        for number in numbers:
            if self.slot is not None:
                return
            claim = None if number == self._claimed else self._lock(f"{number}.heir")
            if claim is None:
                continue
            self.slot = self._lock(f"{number}.slot")
            if self.slot is None and self._claim is None:
                self._claim, self._claimed = claim, number
            else:
                claim.release()

    def _lock(self, name: str) -> BaseFileLock | None:
        lock = FileLock(f"{self._files}-{name}")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    def disclaim(self) -> None:
        """Leave to others what it was the heir of."""
        if self._claim is not None:
            self._claim.release()
            self._claim = None
