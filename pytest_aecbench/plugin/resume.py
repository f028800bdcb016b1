"""``--aec-resume``: reuse what an earlier run of the experiment has settled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_aecbench.errors import LedgerError
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

    ``trial_ids`` has the records by trial key, of which several are at one place or name each.
    ``settled`` has one for each key that need not be earned again as far as the ledger tells: a
    task may have its own threshold, which counts when its trial begins.
    """

    trial_ids: dict[str, list[str]] = field(default_factory=dict)
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
    for record in final_attempts(records, _named):
        if record.scored:
            found.trial_ids.setdefault(record.trial_key, []).append(record.trial_id)
            threshold = settings.threshold
            if threshold is None:
                threshold = record.evaluation.threshold
            if _is_settled(settings, record, threshold):
                found.settled[record.trial_key] = record.trial_id
    return found


def _named(record: Recorded) -> tuple[str, str, str]:
    return record.trial_key, record.task.task_id, record.agent.name


def _is_settled(settings: Settings, record: Recorded, threshold: float) -> bool:
    """Return whether a scored trial need not be run again."""
    reward = record.evaluation.reward
    return settings.rerun == "error" or (reward is not None and reward >= threshold)


def reused_record(config: pytest.Config, trial: Trial) -> TrialRecord | None:
    """Return the record to reuse instead of running the trial, if there is one.

    The same task may be at another place too, and the same agent may have another name. The trial's
    own record goes before theirs.
    """
    trial_ids = state_of(config).reusable.trial_ids.get(trial.key)
    if trial_ids is None:
        return None
    records = [_read(trial, trial_id) for trial_id in trial_ids]
    name = trial.key, trial.task.task_id, trial.agent.name
    own = [record for record in records if _named(record) == name]
    (record,) = final_attempts(own or records, lambda record: record.trial_key)
    return _as_of(trial, record) if _is_settled(trial.settings, record, trial.threshold) else None


def stored_record(trial: Trial, trial_id: str) -> TrialRecord:
    """Return a record of the trial's experiment, as one of this very trial."""
    return _as_of(trial, _read(trial, trial_id))


def _read(trial: Trial, trial_id: str) -> TrialRecord:
    from pytest_aecbench.ledger.record import TrialRecord

    path = trial.settings.experiment_ledger / f"{trial_id}.json"
    try:
        return TrialRecord.from_json(path.read_bytes())
    except OSError as error:
        reused = "the trial was to be reused; run it again"
        raise LedgerError(f"{path}: cannot be read, {error.strerror}; {reused}") from None


def _as_of(trial: Trial, record: TrialRecord) -> TrialRecord:
    """Return the record with the names of the trial, and judged by its threshold of today."""
    task, evaluation = trial.task, record.evaluation
    passed = None if evaluation.reward is None else evaluation.reward >= trial.threshold
    judged = {"threshold": trial.threshold, "passed": passed}
    placed = {"task_id": task.task_id, "domain": task.domain}
    return record.model_copy(
        update={
            "task": record.task.model_copy(update=placed),
            "agent": record.agent.model_copy(update={"name": trial.agent.name}),
            "evaluation": evaluation.model_copy(update=judged),
        }
    )
