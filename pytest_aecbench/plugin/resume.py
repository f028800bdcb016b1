"""What an earlier run of the experiment has settled, so that nothing is paid for twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.state import is_worker, settings_of

if TYPE_CHECKING:
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.trials.trial import Trial

__all__ = ["reusable_of", "reused_record"]

_REUSABLE = pytest.StashKey[dict[str, str]]()


def reusable_of(config: pytest.Config) -> dict[str, str]:
    """Return the ids of reusable records by trial key, as they were when the run began."""
    if _REUSABLE not in config.stash:
        if is_worker(config):
            config.stash[_REUSABLE] = getattr(config, "workerinput", {})["aecbench_reusable"]
        else:
            config.stash[_REUSABLE] = _find(config)
    return config.stash[_REUSABLE]


def _find(config: pytest.Config) -> dict[str, str]:
    settings = settings_of(config)
    if not settings.resume or settings.rerun == "all":
        return {}
    from pytest_aecbench.ledger.identity import final_attempts
    from pytest_aecbench.ledger.store import Ledger

    records = Ledger(settings.ledger_root).records(settings.experiment_id)
    return {
        record.trial_key: record.trial_id
        for record in final_attempts(records, lambda record: record.trial_key)
        if record.scored and (settings.rerun == "error" or record.evaluation.passed)
    }


def reused_record(config: pytest.Config, trial: Trial) -> TrialRecord | None:
    """Return the record to reuse instead of running the trial, if there is one."""
    reusable = reusable_of(config)
    if not reusable or (trial_id := reusable.get(trial.key)) is None:
        return None
    from pytest_aecbench.ledger.record import TrialRecord

    path = trial.settings.experiment_ledger / f"{trial_id}.json"
    return TrialRecord.from_json(path.read_bytes())
