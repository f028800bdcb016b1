"""The results of a run, as they come in from this process or from workers."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.nodes import is_trial, needs_sandbox
from pytest_aecbench.plugin.state import has_trials, settings_of

if TYPE_CHECKING:
    from pytest_aecbench.reports.results import TrialResult

__all__ = ["Results", "is_crash", "is_retried", "results_of"]

_NAME = "aecbench-results"


def is_crash(report: pytest.CollectReport | pytest.TestReport) -> bool:
    """Return whether the report is of a trial or check whose worker died."""
    return report.when == "???" and needs_sandbox(report.nodeid)


def is_retried(report: pytest.CollectReport | pytest.TestReport) -> bool:
    """Return whether the report is of an attempt after which there was another."""
    return str(report.outcome) == "retried"


def results_of(config: pytest.Config) -> Results | None:
    """Return the run's results; None in a worker."""
    found: Results | None = config.pluginmanager.get_plugin(_NAME)
    return found


class Results:
    """The results that came in so far; a plugin, because only plugins get reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.started = time.monotonic()
        self.crashed = False
        self.others_failed = False
        self.not_run = 0
        self._session: pytest.Session | None = None
        self._unkept: str | None = None  # the first trial whose record could not be kept
        self._results: list[dict[str, str | int | float | bool | None]] = []
        config.pluginmanager.register(self, _NAME)

    @property
    def wall_sec(self) -> float:
        """The time that the run has taken so far."""
        return time.monotonic() - self.started

    @property
    def is_orderly(self) -> bool:
        """True if the run came to its own end; one that ``-x`` stops exits like one that failed."""
        session = self._session
        if session is None or session.shouldfail or session.shouldstop:
            return False
        return session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Remember the session, which knows how it ends."""
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember each finished attempt once."""
        if hasattr(report, "aecbench_unkept"):
            if self._unkept is not None:  # every worker has such a trial, for the same reason
                report.longrepr = f"LedgerError: not recorded either; see {self._unkept}"
            self._unkept = self._unkept or report.nodeid
        # Not at "call", which other plugins report more than once.
        settled = report.when == "teardown" or is_retried(report)
        if settled and hasattr(report, "aecbench"):
            self._results.append(report.aecbench)
        self.not_run += hasattr(report, "aecbench_not_run")
        self.crashed = self.crashed or is_crash(report)
        if report.failed and not is_trial(report.nodeid):
            self.others_failed = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember that something could not be collected."""
        self.others_failed = self.others_failed or report.failed

    def settled(self) -> list[TrialResult]:
        """Return all results; unless all was orderly, also of trials that made no report."""
        if not self._results and not has_trials(self.config):
            return []  # before the imports, because every pytest run on the machine comes here
        from pytest_aecbench.reports.results import TrialResult

        results = [TrialResult.from_dict(result) for result in self._results]
        if has_trials(self.config) and (self.crashed or not self.is_orderly):
            from pytest_aecbench.errors import LedgerError
            from pytest_aecbench.ledger.index import open_index

            settings = settings_of(self.config)
            known = {result.trial_id for result in results}
            with suppress(LedgerError), open_index(settings.ledger_root) as index:
                results += [
                    TrialResult.from_record(record)
                    for record in index.load(settings.experiment_id).entries
                    if record.run_id == settings.run_id and record.trial_id not in known
                ]
        return results
