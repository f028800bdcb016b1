"""``--aec-resume``: reuse what an earlier run of the experiment has settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.plugin.state import state_of

if TYPE_CHECKING:
    import pytest

    from pytest_aecbench.ledger.claims import Claims
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.settings.model import Settings
    from pytest_aecbench.trials.trial import Trial

__all__ = ["find_reusable", "reused_record", "stored_record"]


def find_reusable(settings: Settings, claims: Claims) -> dict[str, str]:
    """Return the ids of the records that need not be earned again, by trial key."""
    if not settings.resume:
        return {}
    # First, so that another run's records are all there, or it is known to be at work.
    claims.enter(alone=not settings.join)
    if settings.rerun == "all":
        return {}
    from pytest_aecbench.ledger.identity import final_attempts
    from pytest_aecbench.ledger.index import open_index

    with open_index(settings.ledger_root) as index:
        records = index.load(settings.experiment_id).entries
    return {
        record.trial_key: record.trial_id
        for record in final_attempts(records, lambda record: record.trial_key)
        if record.scored and (settings.rerun == "error" or record.evaluation.passed)
    }


def reused_record(config: pytest.Config, trial: Trial) -> TrialRecord | None:
    """Return the record to reuse instead of running the trial, if there is one."""
    reusable = state_of(config).reusable
    if not reusable or (trial_id := reusable.get(trial.key)) is None:
        return None
    return stored_record(trial, trial_id)


def stored_record(trial: Trial, trial_id: str) -> TrialRecord:
    """Return a record of the trial's experiment."""
    from pytest_aecbench.ledger.record import TrialRecord

    path = trial.settings.experiment_ledger / f"{trial_id}.json"
    try:
        return TrialRecord.from_json(path.read_bytes())
    except OSError as error:
        reused = "the trial was to be reused; run it again"
        raise LedgerError(f"{path}: cannot be read, {error.strerror}; {reused}") from None
