"""`records()`: selected records of a project's ledger, for Python and notebooks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from pytest_aecbench.ledger.query import Query
    from pytest_aecbench.ledger.store import Ledger
    from pytest_aecbench.reports.records import Records

__all__ = ["find_records", "records"]


def records(
    experiment: str | None = None,
    *,
    agent: str | None = None,
    task: str | None = None,
    domain: str | None = None,
    outcome: str | None = None,
    dataset: str | None = None,
    since: str | datetime | None = None,
    ledger: str | Path | Ledger | None = None,
) -> Records:
    """Return the records that are asked for; all must hold, as for ``aec-bench ledger list``.

    ``experiment`` is an id or ``"latest"``, ``task`` a pattern such as ``"civil/*"``, ``since`` a
    time or an age such as ``"7d"``. ``ledger`` is by default that of the project in the current
    directory.

    Raises:
        SettingsError: something that was asked for is wrong.

    """
    from pytest_aecbench.ledger.query import Query

    begun = since if isinstance(since, datetime) else None
    wanted = {
        "agent": agent,
        "task": task,
        "domain": domain,
        "outcome": outcome,
        "dataset": dataset,
        "since": None if isinstance(since, datetime) else since,
    }
    query = Query.parse(wanted, str)
    if begun is not None:
        query = replace(query, since=begun if begun.tzinfo else begun.replace(tzinfo=timezone.utc))
    return find_records(_ledger_root(ledger), experiment, query, "experiment")


def find_records(ledger_root: Path, experiment: str | None, query: Query, where: str) -> Records:
    """Return the records of an experiment, or of all; ``where`` names the experiment in errors."""
    from pytest_aecbench.ledger.index import open_index
    from pytest_aecbench.reports.records import Records
    from pytest_aecbench.settings.resolve import find_experiment

    chosen = find_experiment(ledger_root, experiment, where) if experiment else None
    with open_index(ledger_root) as index:
        found = index.load(chosen)
    return Records(ledger_root, query.rows(found.sheet), found.problems)


def _ledger_root(ledger: str | Path | Ledger | None) -> Path:
    from pytest_aecbench.ledger.store import Ledger
    from pytest_aecbench.settings.layers import settings_at

    if ledger is None:
        return settings_at(Path.cwd()).ledger_root
    root = ledger.root if isinstance(ledger, Ledger) else Path(ledger)
    if not root.is_dir():
        raise SettingsError(f"ledger: {str(root)!r} is not a directory; use the ledger's")
    return root
