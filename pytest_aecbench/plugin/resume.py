"""``--aec-resume``: reuse what an earlier run of the experiment has settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_aecbench.ledger.identity import final_attempts
from pytest_aecbench.plugin.state import state_of

if TYPE_CHECKING:
    import pytest

    from pytest_aecbench.ledger.claims import Claims
    from pytest_aecbench.ledger.entry import Recorded
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.settings.model import Settings
    from pytest_aecbench.trials.trial import Trial

__all__ = ["Reusable", "find_reusable", "reused_record", "stored_record"]


@dataclass(frozen=True, slots=True)
class Reusable:
    """The scored records of an experiment, in plain types, which can be handed to workers.

    ``trial_ids`` has the records by trial key. ``settled`` has those of them that need not be
    earned again as far as the ledger tells: a task may have its own threshold, which counts when
    its trial begins.
    """

    trial_ids: dict[str, str] = field(default_factory=dict)
    settled: dict[str, str] = field(default_factory=dict)


def find_reusable(settings: Settings, claims: Claims) -> Reusable:
    """Return the records that perhaps need not be earned again."""
    found = Reusable()
    if not settings.resume:
        return found
    # First, so that another run's records are all there, or it is known to be at work.
    claims.enter(alone=not settings.join)
    if settings.rerun == "all":
        return found
    from pytest_aecbench.ledger.index import open_index

    with open_index(settings.ledger_root) as index:
        records = index.load(settings.experiment_id).entries
    for record in final_attempts(records, lambda record: record.trial_key):
        if record.scored:
            found.trial_ids[record.trial_key] = record.trial_id
            threshold = settings.threshold
            if threshold is None:
                threshold = record.evaluation.threshold
            if _is_settled(settings, record, threshold):
                found.settled[record.trial_key] = record.trial_id
    return found


def _is_settled(settings: Settings, record: Recorded, threshold: float) -> bool:
    """Return whether a scored trial need not be run again."""
    reward = record.evaluation.reward
    return settings.rerun == "error" or (reward is not None and reward >= threshold)


def reused_record(config: pytest.Config, trial: Trial) -> TrialRecord | None:
    """Return the record to reuse instead of running the trial, if there is one."""
    trial_id = state_of(config).reusable.trial_ids.get(trial.key)
    if trial_id is None:
        return None
    record = stored_record(trial, trial_id)
    return record if _is_settled(trial.settings, record, trial.threshold) else None


def stored_record(trial: Trial, trial_id: str) -> TrialRecord:
    """Return a record of the trial's experiment, judged by the trial's threshold of today."""
    from pytest_aecbench.ledger.record import TrialRecord

    path = trial.settings.experiment_ledger / f"{trial_id}.json"
    record = TrialRecord.from_json(path.read_bytes())
    evaluation = record.evaluation
    passed = None if evaluation.reward is None else evaluation.reward >= trial.threshold
    judged = {"threshold": trial.threshold, "passed": passed}
    return record.model_copy(update={"evaluation": evaluation.model_copy(update=judged)})
