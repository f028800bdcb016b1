"""``--aec-join``: share an experiment's trials with other runs, which are kept out without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.plugin.state import settings_of, state_of

if TYPE_CHECKING:
    from pytest_aecbench.ledger.claims import Claim
    from pytest_aecbench.trials.trial import Trial

__all__ = ["check_experiment", "claim_trial"]


def check_experiment(config: pytest.Config) -> None:
    """Claim the experiment; raise SettingsError if another run has it, or had it before."""
    from pytest_aecbench.host.files import shown_path
    from pytest_aecbench.ledger.store import Ledger

    settings, state = settings_of(config), state_of(config)
    name = settings.experiment_id
    where = settings.where("resume", settings.where("experiment_id", "experiment_id"))
    if not state.claims.enter(alone=not settings.join):
        raise SettingsError(
            f"{where}: another run is working on {name!r}; wait until it ends, "
            "or add --aec-join to run only trials that it does not run"
        )
    if not state.claims.has_locks:
        state.notes.append(
            f"{shown_path(settings.ledger_root)}: its filesystem has no locks, so that another run "
            "of the experiment cannot be noticed; let no two work on it at once"
        )
    if not settings.resume and Ledger(settings.ledger_root).has_trials(name):
        ways = "give another id" if settings.evaluate else f"continue it with --aec-resume={name}"
        raise SettingsError(
            f"{where}: {name!r} has records in {shown_path(settings.ledger_root)}; {ways}"
            + ("" if settings.evaluate else ", or give another id")
        )


def claim_trial(config: pytest.Config, trial: Trial, name: str) -> Claim:
    """Claim a trial, of an item of that name; skip it if another run is running it."""
    # The key is not enough, because two directories may hold the same task, and a fixture of the
    # user's may have parameters.
    names = (trial.key, trial.task.task_id, trial.agent.name, str(trial.repetition), name)
    claim = state_of(config).claims.claim(*names)
    if claim is None:
        pytest.skip("another run of the experiment is running this trial")
    return claim
