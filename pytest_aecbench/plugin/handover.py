"""A plugin for runs that Python code starts: it hands over what came of them.

Loaded by ``-p``, and by no other pytest run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.results import results_of
from pytest_aecbench.plugin.state import has_trials, is_worker, settings_of

if TYPE_CHECKING:
    from collections.abc import Generator

VARIABLE = "AEC_BENCH_HANDOVER"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None]:
    """Write which records are the run's, once all are kept."""
    yield
    config = session.config
    results = results_of(config)
    if is_worker(config) or results is None or not has_trials(config):
        return
    settings = settings_of(config)
    trials = results.settled(orderly=exitstatus in (0, 1))
    told = {
        "experiment_id": settings.experiment_id,
        "directory": str(settings.experiment_ledger),
        "trial_ids": [trial.trial_id for trial in trials],
    }
    Path(os.environ[VARIABLE]).write_text(json.dumps(told), encoding="utf-8")
