"""The ledger as the viewer knows it: one thread reads the index, and experiments are kept at hand.

An index belongs to one thread. That thread answers questions first, and while there are none it
reads what is not indexed yet, the newest experiments first.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_aecbench.ledger.index import open_index
from pytest_aecbench.ledger.store import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.index import Experiment, Index

__all__ = ["Library", "Shelf"]

# So long the ledger is read on, although somebody asks.
_READ_SEC = 0.2
_LOOK_SEC = 2.0
_LATE_SEC = 1.0
_ANSWER_SEC = 300.0
_MAX_ENTRIES = 150_000  # at hand, of all experiments

_Result = TypeVar("_Result")


@dataclass
class Shelf:
    """The entries of one experiment as of a mark; ``kept`` holds what was made from them.

    ``drawing`` is held while figures are drawn, so that they are drawn once for all who ask.
    """

    mark: str | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    version: int = 0
    kept: dict[Any, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    drawing: threading.Lock = field(default_factory=threading.Lock)


class Library:
    """Answers questions on a ledger, from any thread."""

    def __init__(self, ledger_root: Path) -> None:
        self.root = ledger_root
        self.is_reading = True
        self._questions: queue.SimpleQueue[tuple[Callable[[Index], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._shelves: OrderedDict[str, Shelf] = OrderedDict()
        self._lock = threading.Lock()
        self._known: tuple[str, list[Experiment]] = ("", [])
        self._known_until = 0.0
        self._thread = threading.Thread(target=self._run, name="aec-view-index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, which closes the index."""
        self._questions.put(None)
        self._thread.join(timeout=10)

    def experiments(self) -> list[Experiment]:
        """Return the experiments that are indexed by now, the latest first.

        They are counted anew only so often while there is more to read.
        """

        def find(index: Index) -> list[Experiment]:
            stand, now = index.stand(), time.monotonic()
            is_fresh = self.is_reading and now < self._known_until
            if stand != self._known[0] and not is_fresh:
                self._known = stand, index.experiments(known=True)
                self._known_until = now + _LOOK_SEC
            return self._known[1]

        return self._ask(find)

    def experiments_with_directories(self) -> list[str]:
        """Return the names of all experiments, those without records included."""
        return Ledger(self.root).experiments()

    def find(self, prefix: str, most: int) -> list[Entry]:
        """Return entries whose trial id starts so, at most so many."""

        def find(index: Index) -> list[Entry]:
            while not index.catch_up():
                pass
            return index.find(prefix, most)

        return self._ask(find)

    def shelf(self, experiment_id: str) -> Shelf:
        """Return an experiment as it is now."""
        with self._lock:
            shelf = self._shelves.setdefault(experiment_id, Shelf())
            self._shelves.move_to_end(experiment_id)
        with shelf.lock:
            self._update(shelf, experiment_id)
        with self._lock:
            while len(self._shelves) > 1 and self._count() > _MAX_ENTRIES:
                self._shelves.popitem(last=False)
        return shelf

    def _count(self) -> int:
        return sum(len(shelf.entries) for shelf in self._shelves.values())

    def _update(self, shelf: Shelf, experiment_id: str) -> None:
        news = self._ask(lambda index: index.changes(shelf.mark, experiment_id, whole=True))
        shelf.mark = news.mark
        entries = {entry.trial_id: entry for entry in news.entries}
        problems = {problem.path.stem: str(problem) for problem in news.problems}
        gone = [trial_id for _, trial_id in news.removed]
        is_same = not (entries or gone or problems.items() - shelf.problems.items())
        if news.is_all:
            is_same = is_same and not shelf.entries and not shelf.problems
            shelf.entries, shelf.problems = entries, problems
        else:
            for trial_id in (*gone, *problems):
                shelf.entries.pop(trial_id, None)
            for trial_id in (*gone, *entries):
                shelf.problems.pop(trial_id, None)
            shelf.entries |= entries
            shelf.problems |= problems
        if not is_same:
            shelf.version += 1
            shelf.kept = {}  # not cleared, because figures of before may still be drawn

    def _ask(self, question: Callable[[Index], _Result]) -> _Result:
        answer: Future[_Result] = Future()
        self._questions.put((question, answer))
        return answer.result(timeout=_ANSWER_SEC)

    def _run(self) -> None:
        with open_index(self.root) as index:
            look_at = 0.0
            while True:
                is_due = time.monotonic() >= look_at and self._questions.empty()
                if is_due or self._is_late(look_at):
                    self._catch_up(index)
                    look_at = time.monotonic() + (0.0 if self.is_reading else _LOOK_SEC)
                try:
                    wait_sec = max(0.0, look_at - time.monotonic())
                    asked = self._questions.get(block=wait_sec > 0, timeout=wait_sec or None)
                except queue.Empty:
                    continue
                if asked is None:
                    return
                question, answer = asked
                try:
                    answer.set_result(question(index))
                except Exception as error:  # noqa: BLE001  (it is raised where it was asked)
                    answer.set_exception(error)

    def _is_late(self, look_at: float) -> bool:
        """Return whether so many ask that the ledger is not looked at any more."""
        return time.monotonic() > look_at + _LATE_SEC

    def _catch_up(self, index: Index) -> None:
        began = time.monotonic()

        def may_go_on() -> bool:
            return self._questions.empty() or time.monotonic() < began + _READ_SEC

        # A ledger that cannot be read now may be readable later, and who asks is told why.
        done = True
        with suppress(Exception):
            done = index.catch_up(may_go_on)
        self.is_reading = not done
