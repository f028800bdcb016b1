"""Trials whose process died: keep their records, and remove secrets from the files they left."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.errors import BackendError, SettingsError, TaskError
from pytest_aecbench.host import runs
from pytest_aecbench.host.secrets import Scrubber
from pytest_aecbench.ledger import journal
from pytest_aecbench.settings.resolve import thaw
from pytest_aecbench.tasks.task import Task
from pytest_aecbench.trials.trial import secrets_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.settings.model import Settings

__all__ = ["end_dead_leases", "recover"]

_WITHOUT_FILES = ("build", "wait", "launch")


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
        prepare=partial(_without_secrets, settings),
    )
    if settings.max_cost_usd is not None and not dry_run:
        for record in recovered:
            if record.run_id == settings.run_id:
                with suppress(BackendError, OSError):  # it is on record
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


def _without_secrets(settings: Settings, record: TrialRecord) -> TrialRecord:
    """Remove secrets from an attempt's files; return its record, which says where that failed."""
    if record.run_id == settings.run_id:
        return _scrubbed(record, settings, settings, ())
    lease = next((one for one in runs.find_leases().dead if one.run_id == record.run_id), None)
    if lease is not None:
        with suppress(SettingsError):  # what it was given is not there any more
            theirs = thaw(lease.settings, settings.root)
            return _scrubbed(record, settings, theirs, lease.secrets)
    return _scrubbed(record, settings, settings, ())


def _scrubbed(
    record: TrialRecord, settings: Settings, theirs: Settings, names: Iterable[str]
) -> TrialRecord:
    """Remove the secrets of this run, and of the dead one, which knew secrets of these names."""
    secrets = {**settings.secrets(), **theirs.secrets()}
    with suppress(TaskError):  # it has changed since, or is gone
        secrets.update(secrets_of(theirs, Task.load(theirs.tasks_root / record.task.task_id)))
    directory = _directory(record, theirs)
    if directory is None:
        missed = ["the files of this trial, which were not found"] if _has_files(record) else []
    else:
        missed = [path.name for path in Scrubber(secrets).tree(directory)]
        known = {name for name, value in secrets.items() if value}
        if theirs.root != settings.root:  # whose .env is not read here
            known -= {*theirs.secret_names}
        unknown = sorted({*names} - known)
        missed += [f"the files of this trial, for {', '.join(unknown)}"] if unknown else []
    warnings = (f"not checked for secrets: {name}" for name in missed)
    return record.model_copy(update={"warnings": (*record.warnings, *warnings)})


def _directory(record: TrialRecord, theirs: Settings) -> Path | None:
    """Return the directory of an attempt's files; None if it is not there.

    The record says where its run put them, as seen from the project that it ran in.
    """
    own = Path(record.experiment_id, record.trial_id)
    places = [theirs.jobs_root / own]
    if record.outputs.jobs_dir is not None:
        named = theirs.root / record.outputs.jobs_dir
        places += [named] if named.parts[-2:] == own.parts else []
    return next((place for place in places if place.is_dir()), None)


def _has_files(record: TrialRecord) -> bool:
    """Return whether the attempt had come to a phase in which it surely has files."""
    error = record.evaluation.error
    return error is not None and error.phase not in _WITHOUT_FILES
