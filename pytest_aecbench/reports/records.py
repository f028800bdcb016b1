"""Records of a ledger as one value: a sequence, tables, files, and a leaderboard in a notebook."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.files import output_file, shown_path
from pytest_aecbench.ledger.identity import final_attempts
from pytest_aecbench.ledger.store import LedgerProblem, read_record
from pytest_aecbench.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas
    import pyarrow

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.ledger.sheet import Sheet

__all__ = ["Records"]


class Records(Sequence["TrialRecord"]):
    """The records of attempts, the oldest first; each is read when it is asked for.

    Tables need only the figures of records, which are known already. Their columns are those of
    ``aec-bench ledger export --format csv`` and, unless ``details`` is False, ``details.<name>``
    for each part of a reward. ``problems`` are the files that hold no record, and why.
    """

    def __init__(
        self, ledger_root: Path, sheet: Sheet, problems: Sequence[LedgerProblem] = ()
    ) -> None:
        self.sheet = sheet
        self.problems = tuple(problems)
        self._root = ledger_root

    @property
    def entries(self) -> list[Entry]:
        """The figures of the records."""
        return self.sheet.entries

    def __len__(self) -> int:
        return len(self.sheet)

    @overload
    def __getitem__(self, index: int) -> TrialRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> TrialRecord | Records:
        if isinstance(index, slice):
            return self._only(range(len(self))[index])
        return self._read(range(len(self))[index])

    def __iter__(self) -> Iterator[TrialRecord]:
        return map(self._read, range(len(self)))

    def __repr__(self) -> str:
        experiments = counted(len(set(self.sheet.column("experiment_id"))), "experiment")
        problems = f", {counted(len(self.problems), 'problem')}" if self.problems else ""
        return f"<Records: {counted(len(self), 'attempt')} of {experiments}{problems}>"

    def final(self) -> Records:
        """Return the attempt that settles each trial: its last scored one, else its last."""
        final = final_attempts(
            self.entries,
            lambda one: (one.experiment_id, one.task.task_id, one.agent.name, one.trial_key),
        )
        chosen = {id(one) for one in final}
        return self._only(n for n, one in enumerate(self.entries) if id(one) in chosen)

    def to_dicts(self, *, details: bool = True) -> list[dict[str, Any]]:
        """Return each attempt as values by column; None is unknown."""
        from pytest_aecbench.reports.tables import rows

        return list(rows(self.entries, details=details))

    def to_pandas(self, *, details: bool = True) -> pandas.DataFrame:
        """Return a data frame with nullable integers and booleans, UTC times and categories."""
        from pytest_aecbench.reports.tables import data_frame

        return data_frame(self.sheet, details=details)

    def to_arrow(self, *, details: bool = True) -> pyarrow.Table:
        """Return a table of Arrow, with dictionaries for texts that repeat."""
        from pytest_aecbench.reports.tables import arrow_table

        return arrow_table(self.sheet, details=details)

    def to_parquet(self, path: str | Path, *, details: bool = True) -> None:
        """Write a file of Parquet, whole or not at all, as the other methods that write."""
        from pytest_aecbench.reports.tables import write_parquet

        with output_file(Path(path)) as file:
            write_parquet(file, self.sheet, details=details)

    def to_csv(self, path: str | Path, *, details: bool = True) -> None:
        """Write a row for each attempt."""
        from pytest_aecbench.reports.tables import write_csv

        with (
            output_file(Path(path)) as file,
            io.TextIOWrapper(file, encoding="utf-8", newline="") as text,
        ):
            write_csv(text, self.entries, details=details)

    def to_jsonl(self, path: str | Path) -> None:
        """Write the records whole, one JSON object on each line."""
        with output_file(Path(path)) as file:
            file.writelines(record.model_dump_json().encode() + b"\n" for record in self)

    def _repr_html_(self) -> str:
        from pytest_aecbench.reports.leaderboard import leaderboard
        from pytest_aecbench.reports.rankings import board_cells, board_head, board_notes

        board = leaderboard(self.entries)
        if not board.rows:
            return f"<p>{escape(repr(self))}; no trials to rank</p>"
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in board_head(board))
        body = "".join(_row(board_cells(board, row)) for row in board.rows)
        notes = "".join(f"<p>{escape(printable(one))}</p>" for one in board_notes(board, str))
        title = "Agents, as <code>aec-bench report leaderboard</code> ranks them"
        return (
            f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{notes}"
        )

    def _only(self, numbers: Iterable[int]) -> Records:
        return Records(self._root, self.sheet.take(numbers), self.problems)

    def _read(self, number: int) -> TrialRecord:
        entry = self.entries[number]
        found = read_record(self._root / entry.experiment_id, f"{entry.trial_id}.json")
        if isinstance(found, LedgerProblem):  # removed or changed a moment ago
            raise LedgerError(f"{shown_path(found.path)}: {found.reason}")
        return found


def _row(cells: Sequence[str]) -> str:
    name, *figures = (escape(printable(cell)) for cell in cells)
    shown = "".join(f"<td>{figure}</td>" for figure in figures)
    return f'<tr><th scope="row">{name}</th>{shown}</tr>'
