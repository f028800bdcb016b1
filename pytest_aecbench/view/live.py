"""Runs and attempts under way: what is planned, what runs and for how long, and what has died."""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.host.below import read_below
from pytest_aecbench.host.runs import is_alive
from pytest_aecbench.ledger import journal
from pytest_aecbench.ledger.indexing import modified_ns
from pytest_aecbench.reports.html.texts import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.journal import Attempt

__all__ = ["UnderWay", "runs_of", "trials_done"]

_MAX_ATTEMPTS = 1000
_MAX_PLANS = 5
_MAX_PLAN_BYTES = 64 << 20
_PLAN = re.compile(r"([A-Za-z0-9._-]{1,128})\.plan\.json")
# An attempt of a process that cannot be looked up is dead if it has been silent for so long.
_SILENT_SEC = 3600.0
# Notes are read once for all who ask within this time.
_FRESH_SEC = 0.7
_SETTLED_NS = 2 * 10**9


class UnderWay:
    """The attempts of an experiment that have no record yet, read no more often than needed."""

    def __init__(self, ledger_root: Path, experiment_id: str) -> None:
        self._root = ledger_root
        self._experiment_id = experiment_id
        self._found: list[dict[str, Any]] = []
        self._stamp = -1
        self._at = 0.0

    def attempts(self) -> list[dict[str, Any]]:
        """Return the attempts, the oldest first."""
        # A note that comes or goes changes its directory; a phase that is entered does not.
        stamp = modified_ns(self._root / self._experiment_id)
        is_settled = stamp < time.time_ns() - _SETTLED_NS
        is_fresh = time.monotonic() - self._at < _FRESH_SEC
        if stamp != self._stamp or (self._found and not is_fresh):
            self._found = _attempts(self._root, self._experiment_id)
            self._stamp = stamp if is_settled else -1
            self._at = time.monotonic()
        return self._found


def _attempts(ledger_root: Path, experiment_id: str) -> list[dict[str, Any]]:
    now = time.time()
    found = journal.attempts(ledger_root, experiment_id)
    return [
        {
            "trial": attempt.trial_id,
            "task": shown(attempt.task_id),
            "agent": shown(attempt.agent),
            "repetition": attempt.repetition,
            "phase": shown(attempt.phase),
            "run": shown(attempt.run_id),
            "seconds": max(0.0, round(now - attempt.started_at.timestamp(), 1)),
            "dead": _is_dead(ledger_root, experiment_id, attempt, now),
        }
        for attempt in found[:_MAX_ATTEMPTS]
    ]


def _is_dead(ledger_root: Path, experiment_id: str, attempt: Attempt, now: float) -> bool:
    if attempt.owner.is_in_sight():
        return attempt.owner.is_dead()
    # Not by a file of its own in the ledger, as a run would ask: the viewer writes nothing there.
    note = ledger_root / experiment_id / f".{attempt.trial_id}.running"
    with suppress(OSError):
        return now - note.stat().st_mtime > _SILENT_SEC
    return False


def runs_of(
    jobs_root: Path,
    experiment_id: str,
    done: Mapping[str, int],
    attempts: Sequence[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the latest runs: how many of their trials are done, and whether they go on.

    ``done`` has the number of trials that have a record, by run. A run is ``running``, ``dead`` if
    its process is gone with trials under way, or ``over``.
    """
    return [
        {
            "run": shown(plan.run_id),
            "state": _state(plan.run_id, attempts),
            "done": min(done.get(plan.run_id, 0) + plan.reused, plan.trials),
            "of": plan.trials,
        }
        for plan in _plans(jobs_root, experiment_id)
    ]


def trials_done(entries: Iterable[Entry]) -> dict[str, int]:
    """Return how many trials have a record, by run; attempts at the same trial count once."""
    # Two tasks with the same contents have trials with the same keys.
    keys: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for entry in entries:
        keys[entry.run_id].add((entry.task.task_id, entry.trial_key))
    return {run_id: len(found) for run_id, found in keys.items()}


def _state(run_id: str, attempts: Sequence[dict[str, Any]]) -> str:
    alive = is_alive(run_id)
    own = [attempt for attempt in attempts if attempt["run"] == run_id]
    if alive or any(not attempt["dead"] for attempt in own):
        return "running"
    return "dead" if own or alive is False else "over"


class _Plan(NamedTuple):
    run_id: str
    trials: int
    reused: int


def _plans(jobs_root: Path, experiment_id: str) -> list[_Plan]:
    """Return the latest plans of an experiment."""
    found = []
    with suppress(OSError):
        directory = f"{jobs_root}/{experiment_id}"
        names = [name for name in os.listdir(directory) if _PLAN.fullmatch(name)]  # noqa: PTH208
        stamps = {name: os.lstat(f"{directory}/{name}").st_mtime_ns for name in names}
        for name in sorted(names, key=stamps.__getitem__, reverse=True)[:_MAX_PLANS]:
            plan = _plan(jobs_root, f"{experiment_id}/{name}", stamps[name])
            found += [plan] if plan else []
    return found


@lru_cache(maxsize=64)
def _plan(jobs_root: Path, path: str, stamp: int) -> _Plan | None:
    """Read a plan, which never changes; None if it is not one."""
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
        plan = json.loads(read_below(jobs_root, path, _MAX_PLAN_BYTES))
        return _Plan(str(plan["run_id"]), len(plan["trials"]), len(plan["reused"]))
    return None
