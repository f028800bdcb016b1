"""What the person at the terminal sees of rewards."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_aecbench.config import has_trials, is_retried, is_worker, settings_of
from pytest_aecbench.nodes import TASK_FILE

if TYPE_CHECKING:
    import pytest

    from pytest_aecbench.statistics import TrialResult

# Exit codes of runs in which every trial made a report: all passed, or some did not.
_ORDERLY = (0, 1)


def pytest_configure(config: pytest.Config) -> None:
    """Listen for results where they are shown, which is not in a worker."""
    if not is_worker(config):
        config.pluginmanager.register(Results(), "aecbench-results")


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str] | None:
    """Put the reward behind the word; failures keep their category, or they would vanish."""
    if is_retried(report):
        return "retried", "R", "RETRIED"
    if _is_crash(report):
        return "error", "E", "ERROR"  # its worker died, which says nothing about the agent
    result = getattr(report, "aecbench", None)
    if result is None or report.when != "call":
        return None
    if result["reward"] is None:
        return ("unverified", "u", "UNVERIFIED") if report.passed else None
    reward = f"{result['reward']:.4g}"
    if report.failed:
        return "failed", "F", f"FAILED ({reward})"
    return "passed", ".", "PASSED" if result["reward"] == 1 else f"PASSED ({reward})"


def _is_crash(report: pytest.CollectReport | pytest.TestReport) -> bool:
    return report.when == "???" and f"{TASK_FILE}::trial[" in report.nodeid


class Results:
    """The results that came in, from this process or from workers, and the summary of them."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.results: list[dict[str, str | int | float | bool | None]] = []
        self.crashed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember each finished attempt once."""
        # Not at "call", which other plugins report more than once.
        settled = report.when == "teardown" or is_retried(report)
        if settled and hasattr(report, "aecbench"):
            self.results.append(report.aecbench)
        self.crashed = self.crashed or _is_crash(report)

    def settled(self, config: pytest.Config, exitstatus: int) -> list[TrialResult]:
        """Return all results of the run, also of trials that were stopped or died unreported."""
        # Imported here because a run without trials has no use for it.
        from pytest_aecbench.errors import LedgerError
        from pytest_aecbench.ledger import Ledger
        from pytest_aecbench.statistics import TrialResult

        results = [TrialResult.from_dict(result) for result in self.results]
        if has_trials(config) and (self.crashed or exitstatus not in _ORDERLY):
            settings = settings_of(config)
            known = {result.trial_id for result in results}
            with suppress(LedgerError):
                results += [
                    TrialResult.from_record(record)
                    for record in Ledger(settings.ledger_root).records(settings.experiment_id)
                    if record.run_id == settings.run_id and record.trial_id not in known
                ]
        return results

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int
    ) -> None:
        """Print the table per agent, if there were trials."""
        results = self.settled(terminalreporter.config, exitstatus)
        if not results or terminalreporter.verbosity < -1:
            return
        from pytest_aecbench.summary import summary_lines

        settings = settings_of(terminalreporter.config)
        terminalreporter.section(f"aec: {settings.experiment_id}")
        for line in summary_lines(results, time.monotonic() - self.started):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"records in {settings.shown(settings.experiment_ledger)}")
