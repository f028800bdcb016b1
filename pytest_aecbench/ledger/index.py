"""An index of a ledger: the figures of its records, so that a reader need not read every file.

An entry holds for a file of the same name, size and time of change, so nothing that it says is out
of date: files that are new, gone or changed are found by listing the ledger. The index is kept in a
file that may be removed at any time (``index_file``).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import chain, islice, starmap
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_aecbench.ledger.entry import Entry, Own, Parts, more_of, parsed
from pytest_aecbench.ledger.index_file import IndexFile
from pytest_aecbench.ledger.indexing import modified_ns, refresh
from pytest_aecbench.ledger.sheet import Sheet
from pytest_aecbench.ledger.store import (
    Ledger,
    LedgerProblem,
    check_experiment_id,
    no_garbage_collection,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


__all__ = ["Changes", "Experiment", "Index", "Indexed", "open_index"]

RECENT_EXPERIMENTS = 10
# So many rows are parsed at once.
_BATCH = 5000
# A query of SQLite takes no more values in its oldest versions.
_PLACES = 999
_COLUMNS = "problem, own, experiment, name, details, task, agent, shared"
_SELECT = f"SELECT {_COLUMNS}, NULL FROM records"  # noqa: S608  (only names)
_SELECT_WHOLE = f"SELECT {_COLUMNS}, data FROM records LEFT JOIN more USING (experiment, name)"  # noqa: S608

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Indexed:
    """The rows of the ledger, and the files that hold no record."""

    sheet: Sheet
    problems: list[LedgerProblem]

    @property
    def entries(self) -> list[Entry]:
        """The entries of the rows."""
        return self.sheet.entries


class Experiment(NamedTuple):
    """An experiment that has records: when its attempts ran, how they ended, whose they are."""

    name: str
    started_at: datetime
    finished_at: datetime
    outcomes: Mapping[str, int]
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """The news since a mark, and the next mark.

    If ``is_all``, the mark was of another index: these are all entries, and earlier ones are void.
    ``removed`` has the experiment and the trial id of records that are gone.
    """

    mark: str
    is_all: bool
    entries: list[Entry]
    problems: list[LedgerProblem]
    removed: list[tuple[str, str]] = field(default_factory=list)


@contextlib.contextmanager
def open_index(ledger_root: Path) -> Iterator[Index]:
    """Open the index of a ledger, which may be new and empty; use it in one thread."""
    file = IndexFile(ledger_root)
    try:
        yield Index(ledger_root, file)
    finally:
        file.close()


class Index:
    """Answers questions on the records of a ledger as it is at that moment."""

    def __init__(self, ledger_root: Path, file: IndexFile) -> None:
        self._ledger = Ledger(ledger_root)
        self._file = file

    def load(self, experiment_id: str | None = None) -> Indexed:
        """Return the rows of one experiment or of all, the oldest first."""

        def load(connection: sqlite3.Connection) -> Indexed:
            chosen = self._chosen(connection, experiment_id)
            unkept = refresh(connection, self._ledger, chosen)
            query = f"{_SELECT} WHERE experiment = ? AND NOT gone ORDER BY name"
            rows = chain.from_iterable(connection.execute(query, (name,)) for name in chosen)
            found = self._found(connection, rows)
            started = found.sheet.column("started")
            oldest_first = sorted(range(len(started)), key=started.__getitem__)
            problems = sorted([*unkept, *found.problems], key=lambda problem: problem.path)
            return Indexed(found.sheet.take(oldest_first), problems)

        with no_garbage_collection():
            return self._answer(load)

    def experiments(self, *, known: bool = False) -> list[Experiment]:
        """Return the experiments that have records, the latest first; maybe only ``known`` ones."""

        def find(connection: sqlite3.Connection) -> list[Experiment]:
            if not known:
                refresh(connection, self._ledger, self._chosen(connection), quick=True)
            rows = connection.execute(
                "SELECT experiment, agent_name, outcome, count(*), min(started), max(finished) "
                "FROM records WHERE own IS NOT NULL GROUP BY experiment, agent_name, outcome"
            )
            by_name: dict[str, list[tuple[Any, ...]]] = {}
            for name, *rest in rows:
                by_name.setdefault(name, []).append(tuple(rest))
            found = [_experiment(name, groups) for name, groups in by_name.items()]
            return sorted(found, key=lambda one: (one.started_at, one.name), reverse=True)

        return self._answer(find)

    def changes(
        self, mark: str | None = None, experiment_id: str | None = None, *, whole: bool = False
    ) -> Changes:
        """Return the news since a mark that this method gave; without one, everything.

        Looks only into directories that have changed, so that it can be asked every second. With an
        experiment, the news are its own; the mark must come from the same question. Entries are
        ``whole`` if they have what only pages show.
        """

        def find(connection: sqlite3.Connection) -> Changes:
            chosen = self._chosen(connection, experiment_id)
            unkept = refresh(connection, self._ledger, chosen, quick=True)
            generation, last = _generation(connection), _last(connection)
            of, _, number = (mark or "").partition(".")
            is_all = of != generation or not number.isdecimal()
            since = 0 if is_all else int(number)
            news = "WHERE seq > ? AND seq <= ?"
            values: tuple[object, ...] = (since, last)
            if experiment_id is not None:
                news, values = f"{news} AND experiment = ?", (*values, experiment_id)
            select = _SELECT_WHOLE if whole else _SELECT
            query = f"{select} {news} AND NOT gone ORDER BY experiment, name"
            found = self._found(connection, connection.execute(query, values))
            problems = [*unkept, *found.problems]
            gone = f"SELECT experiment, name FROM records {news} AND gone"  # noqa: S608
            removed = [] if is_all else connection.execute(gone, values).fetchall()
            ids = [(experiment, name.removesuffix(".json")) for experiment, name in removed]
            return Changes(f"{generation}.{last}", is_all, found.entries, problems, ids)

        with no_garbage_collection():
            return self._answer(find)

    def catch_up(self, may_go_on: Callable[[], bool] = lambda: True) -> bool:
        """Read files that are not indexed yet while it may go on; return True if there were none.

        The experiments that changed last come first, and those that are gone at the end.
        """

        def read(connection: sqlite3.Connection) -> bool:
            before = _last(connection)
            names = dict.fromkeys([*self._newest_first(), *self._chosen(connection)])
            refresh(connection, self._ledger, names, quick=True, may_go_on=may_go_on)
            return _last(connection) == before

        return self._answer(read)

    def stand(self) -> str:
        """Return a mark of everything that is indexed, without looking for news."""
        return self._answer(lambda connection: f"{_generation(connection)}.{_last(connection)}")

    def find(self, prefix: str, most: int) -> list[Entry]:
        """Return entries whose trial id starts so, at most so many; looks for no news."""

        def find(connection: sqlite3.Connection) -> list[Entry]:
            wanted = "name >= ? AND name < ? AND own IS NOT NULL"
            query = f"{_SELECT} WHERE {wanted} ORDER BY name LIMIT ?"
            rows = connection.execute(query, (prefix, f"{prefix}\x7f", most))
            return self._found(connection, rows).entries

        return self._answer(find)

    def past_durations(
        self, works: Iterable[tuple[str, str]], most: int
    ) -> dict[tuple[str, str], float]:
        """Return how long recent scored trials took: the median by task id and agent's name.

        Reads at most so many files that are not indexed yet, the newest first: what they would tell
        is an estimate, and not worth waiting for.
        """
        names = self._newest_first()[:RECENT_EXPERIMENTS]

        def find(connection: sqlite3.Connection) -> dict[tuple[str, str], float]:
            refresh(connection, self._ledger, names, quick=True, most=most)
            places = ", ".join("?" * len(names))
            query = (
                "SELECT spent FROM records WHERE task_id = ? AND agent_name = ? "  # noqa: S608
                f"AND experiment IN ({places}) AND spent IS NOT NULL"
            )
            found = {}
            for work in set(works):
                if spent := [row[0] for row in connection.execute(query, (*work, *names))]:
                    found[work] = median(spent)
            return found

        return self._answer(find)

    def _newest_first(self) -> list[str]:
        return sorted(
            self._ledger.experiments(),
            key=lambda name: modified_ns(self._ledger.root / name),
            reverse=True,
        )

    def _chosen(
        self, connection: sqlite3.Connection, experiment_id: str | None = None
    ) -> list[str]:
        """Return one experiment, or all that are there or were when the index was made."""
        if experiment_id is not None:
            return [check_experiment_id(experiment_id, "experiment")]
        known = (name for (name,) in connection.execute("SELECT name FROM experiments"))
        return sorted({*self._ledger.experiments(), *known})

    def _answer(self, ask: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Ask, and ask again where the file has failed."""
        while True:
            try:
                return ask(self._file.connection)
            except sqlite3.Error as error:
                self._file.replace(error)

    def _found(self, connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> Indexed:
        """Return rows that hold a record as a sheet, and the others as problems."""
        found: list[Entry] = []
        problems: list[LedgerProblem] = []
        parts = Parts(lambda numbers: _texts(connection, numbers))
        waiting = iter(rows)
        # The text of all rows takes as much memory as what is made of it.
        while batch := list(islice(waiting, _BATCH)):
            good = [row for row in batch if row[1] is not None]
            problems += [
                LedgerProblem(self._ledger.root / experiment / name, problem)
                for problem, own, experiment, name, *_ in batch
                if own is None
            ]
            if good:
                _, owns, experiments, names, details, *numbers, mores = zip(*good, strict=True)
                found += map(
                    Entry,
                    map(parts.once, experiments),
                    (name.removesuffix(".json") for name in names),
                    starmap(Own, parsed(owns)),
                    map(parts.once, details),
                    parts.tasks(numbers[0]),
                    parts.agents(numbers[1]),
                    parts.shared(numbers[2]),
                    map(more_of, parsed(text or "null" for text in mores)),
                )
        return Indexed(Sheet(found), problems)


def _texts(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return the JSON of parts by their numbers."""
    found: dict[int, str] = {}
    waiting = iter(sorted(numbers))
    while some := list(islice(waiting, _PLACES)):
        places = ", ".join("?" * len(some))
        query = f"SELECT id, data FROM parts WHERE id IN ({places})"  # noqa: S608
        found.update(connection.execute(query, some))
    return found


def _generation(connection: sqlite3.Connection) -> str:
    return str(connection.execute("SELECT generation FROM identity").fetchone()[0])


def _last(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()[0])


def _experiment(name: str, groups: list[tuple[Any, ...]]) -> Experiment:
    outcomes: Counter[str] = Counter()
    for _, outcome, count, _, _ in groups:
        outcomes[outcome] += count
    return Experiment(
        name,
        datetime.fromtimestamp(min(group[3] for group in groups), timezone.utc),
        datetime.fromtimestamp(max(group[4] for group in groups), timezone.utc),
        outcomes,
        tuple(sorted({group[0] for group in groups})),
    )
