"""A sheet: columns of the figures of many records.

Most of what a record says it shares with others: its task, its agent, its experiment. A column that
follows from such a part is worked out once for it and not for each entry.
"""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_aecbench.ledger.entry import Entry

__all__ = ["Sheet"]

_OF_ENTRIES = frozenset(("details_json", "experiment_id", "trial_id"))
_PARTS = frozenset(("agent", "shared", "task"))


class Sheet:
    """Entries in some order, and their columns."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self._groups: dict[tuple[str, ...], tuple[list[Entry], array[int]]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def column(self, name: str) -> list[Any]:
        """Return a stored value of each entry, by its name in ``Entry`` or ``Own``.

        The value of a part that entries share is its identity.
        """
        is_of_entry = name in _OF_ENTRIES or name in _PARTS
        found = map(attrgetter(name if is_of_entry else f"own.{name}"), self.entries)
        return list(map(id, found) if name in _PARTS else found)

    def take(self, numbers: Iterable[int]) -> Sheet:
        """Return some of the entries, in the given order."""
        return Sheet([self.entries[number] for number in numbers])

    def of_each(
        self, names: tuple[str, ...], value: Callable[[Entry], Any]
    ) -> tuple[list[Any], array[int]]:
        """Return the values that entries have, each once or more, and which of them each entry has.

        ``value`` is asked once for entries with the same stored values of these names.
        """
        if names not in self._groups:
            self._groups[names] = self._group(names)
        entries, rows_of = self._groups[names]
        return list(map(value, entries)), rows_of

    def _group(self, names: tuple[str, ...]) -> tuple[list[Entry], array[int]]:
        """Return entries that differ in these stored values, and which of them each one is like."""
        stored = [self.column(name) for name in names]
        keys: Sequence[Any] = stored[0] if len(stored) == 1 else list(zip(*stored, strict=True))
        first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        numbers = sorted(first.values())
        place = {keys[number]: at for at, number in enumerate(numbers)}
        return self.take(numbers).entries, array("q", map(place.__getitem__, keys))
