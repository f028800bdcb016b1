"""``--aec-max-cost``: skip trials once the budget is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.items import TrialItem
from pytest_aecbench.plugin.results import results_of
from pytest_aecbench.plugin.state import settings_of, state_of
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark the report of a trial that was not run."""
    report = yield
    if isinstance(item, TrialItem) and item.not_run and report.skipped:
        report.aecbench_not_run = True  # type: ignore[attr-defined]
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let no run pass that did not do what it was asked to, whatever the gate says."""
    results = results_of(session.config)
    if results is None or not results.not_run:
        return
    from pytest_aecbench.host.runs import spent

    state_of(session.config).spent = spent(settings_of(session.config).run_id)
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write how many trials are left, why, and how to run them."""
    results, spent = results_of(config), state_of(config).spent
    if results is None or spent is None:
        return
    settings = settings_of(config)
    terminalreporter.section("aec: cost limit reached")
    unknown = f" ({spent.unknown} of unknown cost, counted as 0)" if spent.unknown else ""
    terminalreporter.write_line(
        f"{counted(results.not_run, 'trial')} not run: this run's attempts{unknown} have cost "
        f"{spent.usd:.2f} USD, --aec-max-cost is {settings.max_cost_usd:g}"
    )
    terminalreporter.write_line(f"--aec-resume={settings.experiment_id} runs them")
