"""The terminal: rewards behind each outcome, and the summary at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.plugin.results import Results, is_crash, is_retried, results_of
from pytest_aecbench.plugin.state import has_trials, is_worker, settings_of
from pytest_aecbench.text import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.settings.model import Settings

_INTERRUPTED = 2  # pytest's exit code
_LINKED = 5  # failed trials


def pytest_configure(config: pytest.Config) -> None:
    """Listen for results where they are shown, which is not in a worker."""
    if not is_worker(config):
        Results(config)


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str] | None:
    """Put the reward behind the word; failures keep their category, or they would vanish."""
    if is_retried(report):
        return "retried", "R", "RETRIED"
    if is_crash(report):
        return "error", "E", "ERROR"  # its worker died, which says nothing about the agent
    result = getattr(report, "aecbench", None)
    if result is None or report.when != "call" or hasattr(report, "wasxfail"):
        return None
    if result["reward"] is None:
        return ("unverified", "u", "UNVERIFIED") if report.passed else None
    reward = f"{result['reward']:.4g}"
    if getattr(report, "aecbench_reused", False):
        reward += ", reused"
    if report.failed:
        return "failed", "F", f"FAILED ({reward})"
    return "passed", ".", "PASSED" if reward == "1" else f"PASSED ({reward})"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Print the table per agent, if there were trials."""
    results = results_of(config)
    if results is None or terminalreporter.verbosity < -1:
        return
    trials = results.settled()
    is_stopped = exitstatus == _INTERRUPTED and has_trials(config)
    if not trials and not is_stopped:
        return
    # Imported here because a run without trials has no use for it.
    from pytest_aecbench.host.files import shown_path
    from pytest_aecbench.reports.text import summary_lines

    settings = settings_of(config)
    terminalreporter.section(f"aec: {settings.experiment_id}")
    for line in summary_lines(trials, results.wall_sec) if trials else ():
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"records in {shown_path(settings.experiment_ledger)}")
    if is_stopped and settings.evaluate is None:  # an evaluation cannot be resumed
        terminalreporter.write_line(f"--aec-resume={settings.experiment_id} runs what is left")
    for line in _closer(settings, trials):
        terminalreporter.write_line(line)
    if settings.keep != "none":
        _say_what_is_kept(terminalreporter)


def _closer(settings: Settings, trials: Sequence[TrialResult]) -> Iterator[str]:
    """Yield where to look closer; a viewer's token is not told, because logs are shared."""
    from pytest_aecbench.errors import BackendError
    from pytest_aecbench.reports.results import final_results
    from pytest_aecbench.view.lease import find_viewer

    yield f"look closer: aec-bench view {settings.experiment_id}"
    try:
        viewer = find_viewer(settings.ledger_root)
    except BackendError:  # no place for leases, so there are none
        return
    if viewer is not None:
        yield f"  {viewer.address}/e/{settings.experiment_id}"
        failed = [result for result in final_results(trials) if result.passed is False]
        for result in failed[:_LINKED]:
            name = printable(f"{result.task_id}[{result.agent}-{result.repetition}]")
            yield f"  {viewer.address}/t/{result.trial_id[:8]}  {shortened(name, 60)}"


def _say_what_is_kept(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what pytest shows of failed trials, but not of others."""
    failed = {report.nodeid for report in terminalreporter.stats.get("failed", [])}
    for report in terminalreporter.stats.get("", []):
        for name, text in getattr(report, "sections", ()):
            if "kept sandbox" in name and report.nodeid not in failed:
                terminalreporter.section(f"kept sandbox: {report.nodeid}", "-")
                terminalreporter.write_line(text)
