"""Slots: how many sandboxes run at once on this machine, counted over all runs of a user.

A slot is a locked file, which the kernel unlocks when its holder dies. A process that finds all
slots taken becomes the heir of one by locking a second file. No other process takes a slot that
has an heir, so a worker that frees its slot and returns at once cannot overtake those that wait.

A backend may start with fewer slots, or get fewer after it could not serve more; the number then
doubles in regular steps until all are in use.
"""

from __future__ import annotations

import math
import os
import random
import re
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pytest_aecbench.host.files import shared_directory, whole
from pytest_aecbench.host.lanes import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from filelock import BaseFileLock

__all__ = ["cores", "lower", "slot"]

# How many slots a waiting process tries in each round, besides the one it is the heir of.
_GLANCES = 8
# When the number of slots doubles: after a start, and after a backend could not serve more.
_RAMP_SEC = 5.0
_LOWERED_SEC = 60.0
# After this long without use the ramp starts again.
_IDLE_SEC = 600.0


@contextmanager
def slot(
    backend: str, count: int, first: int | None = None, patience_sec: float = math.inf
) -> Iterator[None]:
    """Hold one of the backend's first ``count`` slots, or raise TimeoutError.

    With ``first``, no more than these are used in the first seconds.
    """
    give_up = time.monotonic() + patience_sec
    if first is not None:
        _ramp_up(backend, first)
    seeker = _Seeker(backend)
    try:
        # Start with the last one, because processes with a smaller limit use only the first ones.
        seeker.look(reversed(range(_usable(backend, count))), ours=False)
        if seeker.slot is None:
            until(partial(_look_again, seeker, backend, count, give_up))
        seeker.release_claim()
        yield
    finally:
        seeker.release_claim()
        seeker.release()


def _look_again(seeker: _Seeker, backend: str, count: int, give_up: float) -> bool:
    if time.monotonic() >= give_up:
        raise TimeoutError
    now = _usable(backend, count)
    seeker.look(random.sample(range(now), min(now, _GLANCES)))
    return seeker.slot is not None


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lower(backend: str, count: int) -> int:
    """Halve the number of slots of all runs for a while; return the new number."""
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
    if (elapsed := time.time() - since) < 0:  # the clock was set back
        _limit(backend, int(limit), every_sec)
        elapsed = 0.0
    doublings = elapsed // every_sec
    return max(1, int(min(count, limit * 2.0 ** min(doublings, 64))))


def _limit_file(backend: str) -> Path:
    return shared_directory("slots") / f"{_slug(backend)}.limit"


def _slug(backend: str) -> str:
    return re.sub(r"\W+", "-", backend)


# The slots that this process has: with hundreds of them, to try each takes longer than a trial.
_ours: set[str] = set()


class _Seeker:
    """A trial that looks for a slot and meanwhile may be the heir of one."""

    def __init__(self, backend: str) -> None:
        self._files = shared_directory("slots") / _slug(backend)
        self.slot: BaseFileLock | None = None
        self._claim: BaseFileLock | None = None
        self._claimed = -1

    def look(self, numbers: Iterable[int], *, ours: bool = True) -> None:
        """Lock the slot that it is the heir of, or one of these, or else become an heir.

        Without ``ours``, it does not try the slots that this process has.
        """
        if self._claim is not None:
            self.slot = self._lock(f"{self._claimed}.slot")
        for number in numbers:
            if self.slot is not None:
                break
            if not ours and self._path(f"{number}.slot") in _ours:
                continue
            claim = None if number == self._claimed else self._lock(f"{number}.heir")
            if claim is None:
                continue
            self.slot = self._lock(f"{number}.slot")
            if self.slot is None and self._claim is None:
                self._claim, self._claimed = claim, number
            else:
                claim.release()
        if self.slot is not None:
            _ours.add(self.slot.lock_file)

    def _path(self, name: str) -> str:
        return f"{self._files}-{name}"

    def _lock(self, name: str) -> BaseFileLock | None:
        lock = FileLock(self._path(name))
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    def release_claim(self) -> None:
        """Stop being the heir of a slot."""
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def release(self) -> None:
        """Free the slot, if it has one."""
        if self.slot is not None:
            _ours.discard(self.slot.lock_file)
            self.slot.release()
