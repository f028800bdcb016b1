"""A sheet: the figures of many records in rows, of which tables are made without an entry for each.

Most of what a record says it shares with others: its task, its agent, its experiment. A row has the
numbers of such parts, so that what follows from a part is found out once and not for each row.
"""

from __future__ import annotations

from array import array
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_aecbench.ledger.entry import OWN
from pytest_aecbench.ledger.store import no_garbage_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_aecbench.ledger.entry import Entry, Parts

__all__ = ["ROW", "Row", "Sheet"]

# The arguments of ``Parts.entry``.
ROW = ("experiment_id", "trial_id", "own", "details", "task", "agent", "shared", "more")
Row: TypeAlias = "tuple[Any, ...]"


class Sheet:
    """Rows of stored figures, in some order."""

    def __init__(self, rows: Sequence[Row], parts: Parts) -> None:
        self._rows = rows
        self._parts = parts
        self._groups: dict[tuple[str, ...], tuple[list[Entry], array[int]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> Row:
        """Return the stored values of a row."""
        return self._rows[number]

    @cached_property
    def entries(self) -> list[Entry]:
        """An entry of each row."""
        with no_garbage_collection():
            return [self._parts.entry(*row) for row in self._rows]

    def drain(self) -> list[Entry]:
        """Return an entry of each row, and forget the rows: both take much memory."""
        rows, self._rows = [*reversed(self._rows)], []
        with no_garbage_collection():
            return [self._parts.entry(*rows.pop()) for _ in range(len(rows))]

    def column(self, name: str) -> list[Any]:
        """Return a stored value of each row, by its name in ``ROW`` or ``OWN``."""
        if name in ROW:
            return list(map(itemgetter(ROW.index(name)), self._rows))
        read, own = itemgetter(OWN.index(name)), itemgetter(ROW.index("own"))
        return list(map(read, map(own, self._rows)))

    def take(self, numbers: Iterable[int]) -> Sheet:
        """Return some of the rows, in the given order."""
        return Sheet([self._rows[number] for number in numbers], self._parts)

    def of_each(
        self, names: tuple[str, ...], value: Callable[[Entry], Any]
    ) -> tuple[list[Any], array[int]]:
        """Return the values that entries have, each once or more, and which of them each row has.

        ``value`` is asked once for rows with the same stored values of these names.
        """
        if names not in self._groups:
            self._groups[names] = self._group(names)
        entries, rows_of = self._groups[names]
        return list(map(value, entries)), rows_of

    def _group(self, names: tuple[str, ...]) -> tuple[list[Entry], array[int]]:
        """Return entries that differ in these stored values, and which of them each row is like."""
        stored = [self.column(name) for name in names]
        keys: Sequence[Any] = stored[0] if len(stored) == 1 else list(zip(*stored, strict=True))
        first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        numbers = sorted(first.values())
        place = {keys[number]: at for at, number in enumerate(numbers)}
        return self.take(numbers).entries, array("q", map(place.__getitem__, keys))
