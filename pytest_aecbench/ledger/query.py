"""A query: it selects records of the ledger."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_aecbench.ledger.entry import Recorded, RecordedT
    from pytest_aecbench.ledger.sheet import Sheet

__all__ = ["OUTCOMES", "Query", "outcome_of", "parse_since"]

OUTCOMES = ("error", "failed", "passed", "unverified")

_AGO = re.compile(r"([0-9]{1,5})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions on a record; an empty one holds for every record, and all must hold."""

    agent: str | None = None
    task: str | None = None
    domain: str | None = None
    outcome: str | None = None
    dataset: str | None = None
    since: datetime | None = None

    @classmethod
    def parse(cls, values: Mapping[str, str | None], where: Callable[[str], str]) -> Query:
        """Check conditions that a user wrote, by name; ``where`` tells what to call one.

        Raises:
            SettingsError: one is not valid.

        """
        outcome, since = values.get("outcome"), values.get("since")
        if outcome and outcome not in OUTCOMES:
            choices = ", ".join(map(repr, OUTCOMES))
            raise SettingsError(
                f"{where('outcome')}: {outcome!r} is not valid; use one of {choices}"
            )
        others = {key: values.get(key) for key in ("agent", "task", "domain", "dataset")}
        begun = parse_since(since, where("since")) if since else None
        return cls(**others, outcome=outcome or None, since=begun)

    def select(self, records: Iterable[RecordedT]) -> list[RecordedT]:
        """Return the records that are asked for, in the order in which they were started."""
        chosen = [record for record in records if self._admits(record)]
        return sorted(chosen, key=lambda record: (record.started_sec, record.trial_id))

    def rows(self, sheet: Sheet) -> Sheet:
        """Return the rows that are asked for, the oldest first; of one moment, as they were."""
        chosen: Iterable[int] = range(len(sheet))
        if self != Query():
            chosen = (number for number, one in enumerate(sheet.entries) if self._admits(one))
        return sheet.take(sorted(chosen, key=sheet.column("started").__getitem__))

    def _admits(self, record: Recorded) -> bool:
        return (
            (self.agent is None or record.agent.name == self.agent)
            and (self.task is None or fnmatchcase(record.task.task_id, self.task))
            and (self.domain is None or record.task.domain == self.domain)
            and (self.outcome is None or outcome_of(record) == self.outcome)
            and (self.dataset is None or _is_of(record, self.dataset))
            and (self.since is None or record.timing.started_at >= self.since)
        )


def outcome_of(record: Recorded) -> str:
    """Return how the attempt ended, in a word of ``OUTCOMES``."""
    evaluation = record.evaluation
    if evaluation.error is not None:
        return "error"
    if evaluation.passed is None:
        return "unverified"
    return "passed" if evaluation.passed else "failed"


def _is_of(record: Recorded, wanted: str) -> bool:
    dataset = record.dataset
    return dataset is not None and wanted in (dataset.name, f"{dataset.name}@{dataset.version}")


def parse_since(text: str, where: str) -> datetime:
    """Read a date, a time (UTC unless it says otherwise), or how long ago, such as ``7d``."""
    if ago := _AGO.fullmatch(text):
        return datetime.now(timezone.utc) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        # Python before 3.11 does not know the Z.
        found = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        return (
            found.astimezone(timezone.utc) if found.tzinfo else found.replace(tzinfo=timezone.utc)
        )
    except (ValueError, OverflowError):
        raise SettingsError(
            f"{where}: {text!r} is not a time; use one such as '2026-04-12', "
            "'2026-04-12T09:30' or, for how long ago, '7d', '12h' or '30m'"
        ) from None
