"""Tells a run of the tests that left some of them out from one in which some failed."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.costs import REQUIRED

__all__ = ["NOT_WHOLE", "Completeness"]

# The exit code of such a run: running the failed tests again does not make it whole.
NOT_WHOLE = 9


class Completeness:
    """Ends the run with a code of its own unless each collected test was reported."""

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._problems: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed or (report.skipped and REQUIRED):
            self._problems.append(f"{report.nodeid} was not collected")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        is_partial = session.shouldfail or session.shouldstop or session.config.option.collectonly
        if hasattr(session.config, "workerinput") or is_partial:
            return
        if missing := session.testscollected - len(self._reported):
            self._problems.append(f"{missing} of {session.testscollected} tests have no report")
        if self._problems and session.exitstatus in (0, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = NOT_WHOLE
        if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
            for problem in self._problems:
                reporter.ensure_newline()
                reporter.write_line(problem, red=True)
