"""The options that select records of the ledger, for every command that reads some."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import print_problem, project_settings
from pytest_aecbench.cli.groups import option, option_group
from pytest_aecbench.ledger.query import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.reports.records import Records

__all__ = ["Filters", "with_filters"]

_HELP = {
    "experiment": "Only this experiment.",
    "agent": "Only this agent.",
    "task": "Only tasks whose id matches, such as 'civil/*'.",
    "domain": "Only this domain.",
    "outcome": "Only passed, failed, error or unverified.",
    "dataset": "Only trials of this NAME[@VERSION].",
    "since": "Only trials begun since a date, or 7d, 12h, 30m.",
}


@dataclass(frozen=True, slots=True)
class Filters:
    """The records that these options select."""

    experiment: str | None = None
    query: Query = field(default_factory=Query)

    @classmethod
    def parse(cls, values: Mapping[str, str | None]) -> Filters:
        """Check the options' values; None selects all records."""
        return cls(values.get("experiment"), Query.parse(values, "--{}".format))

    def found(self, where: str = "--experiment") -> Records:
        """Return the selected records; print the files that contain none.

        ``where`` names the experiment in an error.
        """
        from pytest_aecbench.notebooks import find_records

        root = project_settings().ledger_root
        found = find_records(root, self.experiment, self.query, where)
        gc.freeze()  # they stay as long as the command, so the collector need not look at them
        for problem in found.problems:
            print_problem(f"{problem}; skipped")
        return found

    def entries(self, where: str = "--experiment") -> list[Entry]:
        """Return the figures of the selected records; for the rest as ``found``."""
        entries = self.found(where).entries
        gc.freeze()
        return entries

    def records(self, where: str = "--experiment") -> Iterator[TrialRecord]:
        """Yield the selected records whole, one at a time; for the rest as ``found``."""
        from pytest_aecbench.ledger.store import LedgerProblem, read_record

        root = project_settings().ledger_root
        for entry in self.entries(where):
            found = read_record(root / entry.experiment_id, f"{entry.trial_id}.json")
            if isinstance(found, LedgerProblem):  # removed a moment ago
                print_problem(f"{found}; skipped")
            else:
                yield found


def with_filters(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options, or all, as its parameter ``filters``."""
    options = [
        option(name, Annotated[str | None, typer.Option(help=_HELP[name])])
        for name in names or _HELP
    ]
    return option_group("filters", options, Filters.parse)
