"""Trials whose process died: keep their records, and remove secrets from the files they left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_aecbench.errors import TaskError
from pytest_aecbench.host import runs
from pytest_aecbench.ledger import journal
from pytest_aecbench.tasks.task import Task
from pytest_aecbench.trials.trial import scrubber_of

if TYPE_CHECKING:
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.settings.model import Settings

__all__ = ["recover"]


def recover(settings: Settings, *, interrupted: bool = False) -> list[TrialRecord]:
    """Keep the records of attempts whose process is dead, and return them.

    ``interrupted`` says that these processes were told to end.
    """
    dead = journal.recover(settings.ledger_root, dry_run=True)
    # The files come first: a trial is recovered once, and this process may die as well.
    for record in dead:
        _scrub(settings, record)
    if not dead:
        return []
    recovered = journal.recover(settings.ledger_root, interrupted=interrupted)
    if settings.max_cost_usd is not None:
        for record in recovered:
            if record.run_id == settings.run_id:
                runs.add_cost(settings.run_id, record.cost.usd)
    return recovered


def _scrub(settings: Settings, record: TrialRecord) -> None:
    task = None
    with suppress(TaskError):  # it has changed since, or is gone
        task = Task.load(settings.tasks_root / record.task.task_id)
    directory = settings.jobs_root / record.experiment_id / record.trial_id
    if directory.is_dir():
        scrubber_of(settings, task).tree(directory)
