"""A plugin for runs that Python code starts: it hands over what came of them.

Loaded by ``-p``, and by no other pytest run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.nodes import is_trial
from pytest_aecbench.plugin.results import is_crash, is_retried, results_of
from pytest_aecbench.plugin.state import has_trials, is_worker, settings_of

if TYPE_CHECKING:
    from collections.abc import Generator

VARIABLE = "AEC_BENCH_HANDOVER"


def pytest_configure(config: pytest.Config) -> None:
    """Listen where all results come in, which is not in a worker."""
    if not is_worker(config):
        config.pluginmanager.register(Handover(config), "aecbench-handover")


class Handover:
    """Writes which records are the run's, and what its checks came to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._checks: list[dict[str, str | int]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the last attempt at each check."""
        if is_retried(report):
            return
        if report.when == "teardown" and hasattr(report, "aecbench_check"):
            self._checks.append(report.aecbench_check)
        elif is_crash(report) and not is_trial(report.nodeid):
            self._checks.append(self._crashed(report))

    def _crashed(self, report: pytest.TestReport) -> dict[str, str | int]:
        """Return the record of a check whose process died before it could write one."""
        from dataclasses import asdict

        from pytest_aecbench.ledger.checks import CheckRecord

        settings = settings_of(self._config)
        path, _, name = report.nodeid.partition("::check[")
        record = CheckRecord(
            task_id=settings.task_id((self._config.rootpath / path).parent),
            task_digest="",
            check=name.removesuffix("]"),
            outcome="error",
            backend=settings.backend,
            message=str(report.longrepr),
            run_id=settings.run_id,
        )
        return asdict(record)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        """Write, once all records are kept."""
        yield
        results = results_of(self._config)
        if results is None or not has_trials(self._config):
            return
        settings = settings_of(self._config)
        trials = results.settled()
        told = {
            "experiment_id": settings.experiment_id,
            "directory": str(settings.experiment_ledger),
            "trial_ids": [trial.trial_id for trial in trials],
            "checks": self._checks,
        }
        Path(os.environ[VARIABLE]).write_text(json.dumps(told), encoding="utf-8")
