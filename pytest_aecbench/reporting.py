"""What the person at the terminal sees of rewards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_aecbench.config import is_worker, settings_of

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Listen for results where they are shown, which is not in a worker."""
    if not is_worker(config):
        config.pluginmanager.register(Results(), "aecbench-results")


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str] | None:
    """Put the reward behind the word; failures keep their category, or they would vanish."""
    result = getattr(report, "aecbench", None)
    if result is None or report.when != "call":
        return None
    if result["reward"] is None:
        return ("unverified", "u", "UNVERIFIED") if report.passed else None
    reward = f"{result['reward']:.4g}"
    if report.failed:
        return "failed", "F", f"FAILED ({reward})"
    return "passed", ".", "PASSED" if result["reward"] == 1 else f"PASSED ({reward})"


class Results:
    """The results that came in, from this process or from workers, and the summary of them."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.results: list[dict[str, str | int | float | bool | None]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember each finished attempt once."""
        # Not at "call", which other plugins report more than once.
        if report.when == "teardown" and hasattr(report, "aecbench"):
            self.results.append(report.aecbench)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table per agent, if there were trials."""
        if not self.results or terminalreporter.verbosity < -1:
            return
        # Imported here because a run without trials has no use for it.
        from pytest_aecbench.statistics import TrialResult
        from pytest_aecbench.summary import summary_lines

        settings = settings_of(terminalreporter.config)
        terminalreporter.section(f"aec: {settings.experiment_id}")
        results = [TrialResult.from_dict(result) for result in self.results]
        for line in summary_lines(results, time.monotonic() - self.started):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"records in {settings.shown(settings.experiment_ledger)}")
