"""``--aec-gate`` and ``--aec-baseline``: the exit code, a testcase in JUnit, a summary for CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin._pytest_internals import junit_plugins
from pytest_aecbench.plugin.results import results_of
from pytest_aecbench.plugin.state import settings_of, state_of

if TYPE_CHECKING:
    from pytest_aecbench.reports.comparison import Comparison
    from pytest_aecbench.reports.gates import Verdict
    from pytest_aecbench.reports.results import TrialResult


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the gate decide whether the run passed; a run that was stopped did not."""
    config = session.config
    results = results_of(config)
    if results is None or not results.is_orderly or not (trials := results.settled()):
        return
    verdict = _judge(config, trials)
    if verdict is None:
        return
    state_of(config).verdict = verdict
    passed = verdict.passed and not results.others_failed
    session.exitstatus = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED
    _report_to_junit(config, verdict)


def _judge(config: pytest.Config, trials: list[TrialResult]) -> Verdict | None:
    settings = settings_of(config)
    has_bounds = settings.gate is not None or settings.max_error_rate is not None
    if not has_bounds and not settings.fail_on_regression:
        return None
    from pytest_aecbench.reports.comparison import judge_regression
    from pytest_aecbench.reports.gates import Verdict, judge_error_rate
    from pytest_aecbench.reports.scores import MAX_MISSING

    verdicts = []
    max_missing = MAX_MISSING if settings.max_error_rate is None else settings.max_error_rate
    if settings.gate is not None:
        verdicts.append(settings.gate.judge(trials, max_missing))
    if settings.max_error_rate is not None:
        verdicts.append(judge_error_rate(trials, settings.max_error_rate))
        if settings.gate is None and not settings.fail_on_regression:
            failed = any(trial.passed is False for trial in trials)
            verdicts.append(Verdict(not failed, ()))
    if settings.fail_on_regression and (comparison := comparison_of(config, trials)):
        verdicts.append(judge_regression(comparison, max_missing=max_missing))
    if not verdicts:
        return None
    lines = tuple(line for verdict in verdicts for line in verdict.lines)
    return Verdict(all(verdict.passed for verdict in verdicts), lines)


def _report_to_junit(config: pytest.Config, verdict: Verdict) -> None:
    """Add a testcase for the gate, without counting it as a test in the terminal."""
    text = "\n".join(verdict.lines)
    for plugin in junit_plugins(config):
        for when in ("call", "teardown"):
            failed = when == "call" and not verdict.passed
            report = pytest.TestReport(
                nodeid="aec::gate",
                location=("aec", None, "gate"),
                keywords={},
                outcome="failed" if failed else "passed",
                longrepr=text if failed else None,
                when=when,
                user_properties=[("aec.gate", text)] if when == "teardown" else [],
            )
            plugin.pytest_runtest_logreport(report)  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Compare with the baseline, say how the gate decided, and write the summary for CI."""
    results = results_of(config)
    if results is None or not (trials := results.settled()):
        return
    comparison = comparison_of(config, trials)
    if comparison is not None:
        from pytest_aecbench.reports.text import comparison_lines

        terminalreporter.section(f"aec: compared with {comparison.before}")
        for line in comparison_lines(comparison):
            terminalreporter.write_line(line)
    verdict = state_of(config).verdict
    if verdict is not None:
        terminalreporter.section(f"aec gate {'passed' if verdict.passed else 'failed'}")
        for line in verdict.lines:
            terminalreporter.write_line(line)
    _write_summaries(terminalreporter, trials, results.wall_sec, verdict, comparison)


def _write_summaries(
    terminalreporter: pytest.TerminalReporter,
    trials: list[TrialResult],
    wall_sec: float,
    verdict: Verdict | None,
    comparison: Comparison | None,
) -> None:
    settings = settings_of(terminalreporter.config)
    wanted = {settings.summary_md: "w", os.environ.get("GITHUB_STEP_SUMMARY"): "a"}
    for name, mode in wanted.items():
        if not name:
            continue
        from pytest_aecbench.reports.markdown import markdown_summary

        text = markdown_summary(
            trials,
            experiment_id=settings.experiment_id,
            wall_sec=wall_sec,
            verdict=verdict,
            comparison=comparison,
        )
        try:
            with Path(settings.root, name).open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            terminalreporter.write_line(f"aec: {name}: cannot be written; {error.strerror}")


def comparison_of(config: pytest.Config, trials: list[TrialResult]) -> Comparison | None:
    """Return how the run's trials compare with the baseline's, if there is one."""
    settings = settings_of(config)
    if settings.baseline is None:
        return None
    state = state_of(config)
    if state.comparison is None:
        # Imported here because most runs have no baseline.
        from pytest_aecbench.ledger.index import open_index
        from pytest_aecbench.ledger.query import Query
        from pytest_aecbench.reports.comparison import compare
        from pytest_aecbench.reports.results import TrialResult

        with open_index(settings.ledger_root) as index:
            records = Query().select(index.load(settings.baseline).entries)
        state.comparison = compare(
            map(TrialResult.from_record, records),
            trials,
            names=(settings.baseline, settings.experiment_id),
        )
    return state.comparison
