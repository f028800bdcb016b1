"""Slots: how many sandboxes run at once on this machine, counted over all runs of a user.

A slot is a locked file, which the kernel unlocks when its holder dies. A process that finds all
slots taken becomes the heir of one by locking a second file. No other process takes a slot that
has an heir, so a worker that frees its slot and returns at once cannot overtake those that wait.
Threads and lanes of one process wait in line, and the first of them looks for a slot.

A backend may start with fewer slots, or get fewer after it could not serve more; the number then
doubles in regular steps until all are in use.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import re
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pytest_aecbench.host.files import shared_directory, whole
from pytest_aecbench.host.lanes import Bell, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from filelock import BaseFileLock

__all__ = ["cores", "file_name", "lower", "slot"]

# How many slots a waiting process tries in each round, besides the one it is the heir of.
_GLANCES = 8
# When the number of slots doubles: after a start, and after a backend could not serve more.
_RAMP_SEC = 5.0
_LOWERED_SEC = 60.0
# After this long without use the ramp starts again.
_IDLE_SEC = 600.0
_LONGEST_NAME = 100


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
    seeker = _Seeker(backend, count)
    try:
        until(partial(_look, seeker, backend, count, give_up), seeker.bell)
        seeker.stop_seeking()
        yield
    finally:
        seeker.stop_seeking()
        seeker.release()


def _look(seeker: _Seeker, backend: str, count: int, give_up: float) -> bool:
    if seeker.is_first():
        seeker.look(_usable(backend, count))
    if not seeker.has_slot and time.monotonic() >= give_up:
        raise TimeoutError
    return seeker.has_slot


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
    return shared_directory("slots") / f"{file_name(backend)}.limit"


def file_name(backend: str) -> str:
    """Return a name for files about a backend or a model, which may have a long one."""
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", backend)
    if len(slug) <= _LONGEST_NAME:
        return slug
    return f"{slug[:_LONGEST_NAME]}-{hashlib.sha256(backend.encode()).hexdigest()[:16]}"


# The slots that this process has: with hundreds of them, to try each takes longer than a trial.
_ours: set[str] = set()


class _Line:
    """The seekers of this process for the same slots, in the order in which they came.

    Only the first looks. It is told of each slot that this process frees, so that none stays free
    until the next poll, and its claim stands for all of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seekers: list[_Seeker] = []
        self._freed: set[int] = set()

    def join(self, seeker: _Seeker) -> None:
        """Let it wait behind the others."""
        with self._lock:
            self._seekers.append(seeker)

    def is_first(self, seeker: _Seeker) -> bool:
        """Return whether it is its turn to look."""
        return self._seekers[0] is seeker

    def leave(self, seeker: _Seeker) -> None:
        """Let those behind it go on; do nothing if it has left."""
        with self._lock:
            if seeker in self._seekers:
                self._seekers.remove(seeker)
                self._ring()

    def free(self, number: int) -> None:
        """Let the first try a slot that is free now."""
        with self._lock:
            self._freed.add(number)
            self._ring()

    def take_freed(self) -> set[int]:
        """Return the slots that have become free since this was last called."""
        with self._lock:
            freed, self._freed = self._freed, set()
            return freed

    def _ring(self) -> None:
        if self._seekers:
            self._seekers[0].bell.ring()


# By the names of their files and by their number: those with a smaller limit hold up no others.
_lines: dict[tuple[str, int], _Line] = {}


class _Seeker:
    """A trial that looks for a slot and meanwhile may be the heir of one."""

    def __init__(self, backend: str, count: int) -> None:
        self._files = f"{shared_directory('slots') / file_name(backend)}-"
        self.bell = Bell()
        self._slot: tuple[int, BaseFileLock] | None = None
        self._claim: tuple[int, BaseFileLock] | None = None
        self._has_looked = False
        self._line = _lines.setdefault((self._files, count), _Line())
        self._line.join(self)

    @property
    def has_slot(self) -> bool:
        """True once it has found one."""
        return self._slot is not None

    def is_first(self) -> bool:
        """Return whether no other of this process came before."""
        return self._line.is_first(self)

    def look(self, usable: int) -> None:
        """Lock a slot, the one that it is the heir of before others, or else become an heir."""
        if self._claim is not None and self._claim[0] >= usable:
            self._disclaim()
        freed = self._line.take_freed()
        if self._has_looked:
            glances = random.sample(range(usable), min(usable, _GLANCES))
            numbers = [*(number for number in freed if number < usable), *glances]
        else:
            self._has_looked = True
            # Start with the last one, because processes with a smaller limit use only the first.
            numbers = [n for n in reversed(range(usable)) if self._path(n) not in _ours]
        if self._claim is not None:
            self._try(self._claim[0])
        for number in numbers:
            if self._slot is None:
                self._try_unclaimed(number)
        if self._slot is not None:
            _ours.add(self._path(self._slot[0]))

    def _path(self, number: int) -> str:
        return f"{self._files}{number}.slot"

    def _try_unclaimed(self, number: int) -> None:
        """Take a slot that has no heir, or become its heir if it is taken."""
        claim = None if self._claim and self._claim[0] == number else self._lock(f"{number}.heir")
        if claim is None:
            return
        self._try(number)
        if self._slot is None and self._claim is None:
            self._claim = number, claim
        else:
            claim.release()

    def _try(self, number: int) -> None:
        if lock := self._lock(f"{number}.slot"):
            self._slot = number, lock

    def _lock(self, name: str) -> BaseFileLock | None:
        lock = FileLock(f"{self._files}{name}")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    def stop_seeking(self) -> None:
        """Leave the line, and stop being the heir of a slot."""
        self._disclaim()
        self._line.leave(self)

    def _disclaim(self) -> None:
        if self._claim is not None:
            self._claim[1].release()
            self._claim = None

    def release(self) -> None:
        """Free the slot, if it has one."""
        if self._slot is not None:
            number, lock = self._slot
            lock.release()
            _ours.discard(self._path(number))
            for (files, _), line in list(_lines.items()):
                if files == self._files:
                    line.free(number)
