"""Trials whose process died: keep their records, and remove secrets from the files they left."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pytest_aecbench.errors import TaskError
from pytest_aecbench.host import runs
from pytest_aecbench.ledger import journal
from pytest_aecbench.tasks.task import Task
from pytest_aecbench.trials.trial import scrubber_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.settings.model import Settings

__all__ = ["end_dead_leases", "recover"]


def recover(
    settings: Settings, *, interrupted: bool = False, dry_run: bool = False
) -> list[TrialRecord]:
    """Keep the records of attempts whose process is dead, and return them.

    ``interrupted`` says that this run was told to end, and its processes with it.
    """
    recovered = journal.recover(
        settings.ledger_root,
        interrupted_run=settings.run_id if interrupted else "",
        dry_run=dry_run,
        # The files come first: a trial is recovered once, and this process may die as well.
        prepare=partial(_scrub, settings),
    )
    if settings.max_cost_usd is not None and not dry_run:
        for record in recovered:
            if record.run_id == settings.run_id:
                runs.add_cost(settings.run_id, record.cost.usd)
    return recovered


def end_dead_leases(ledger_root: Path) -> None:
    """Remove the leases of dead runs that have nothing left to record in this ledger, or in none.

    Workers may survive their run for a short time, and leave more to record when they end.
    """
    here = ledger_root.absolute()
    for lease in runs.find_leases().dead:
        is_recorded = lease.ledger_root == here and journal.is_quiet(here, lease.run_id)
        if is_recorded or not lease.ledger_root.exists():
            runs.end(lease.run_id)


def _scrub(settings: Settings, record: TrialRecord) -> None:
    task = None
    with suppress(TaskError):  # it has changed since, or is gone
        task = Task.load(settings.tasks_root / record.task.task_id)
    directory = settings.jobs_root / record.experiment_id / record.trial_id
    if directory.is_dir():
        scrubber_of(settings, task).tree(directory)
