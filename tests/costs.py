"""What tests may cost: some are left to the night, and none is slow unless it says so."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

__all__ = ["NIGHTLY", "REQUIRED", "Costs", "at_night", "patience"]

NIGHTLY = os.environ.get("AEC_NIGHTLY") == "1"
REQUIRED = os.environ.get("AEC_REQUIRE") == "all"
SLOW_SEC = float(os.environ.get("AEC_SLOW_LIMIT", "20"))
# The key under which a worker tells what it deselected; xdist keeps that to the worker.
LEFT = "aec_tests_left_to_the_night"


def patience() -> float:
    """Return how many times longer than alone a test may take: processes per processor."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def at_night(*values: Any, **options: Any) -> Any:
    """Return parameters that are left to the night, where others are tried by day."""
    return pytest.param(*values, marks=pytest.mark.nightly, **options)


class Costs:
    """Deselects what is left to the night, and measures what each test takes for itself.

    ``turn`` is the fixture with which a test waits for its turn. That, and what sets up fixtures
    that tests share, is not the time of the test that happens to need it first.
    """

    def __init__(self, turn: str) -> None:
        self._turn = turn
        self._waiting = 0
        self._waited_sec = 0.0
        self._own_sec = 0.0
        self._long: list[tuple[float, str]] = []
        self._told = False

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        left = [item for item in items if not NIGHTLY and item.get_closest_marker("nightly")]
        if left:
            items[:] = [item for item in items if not item.get_closest_marker("nightly")]
            config.hook.pytest_deselected(items=left)
        if hasattr(config, "workeroutput"):
            config.workeroutput[LEFT] = [item.nodeid for item in left]

    def pytest_testnodedown(self, node: Any) -> None:
        """Count what the workers deselected once, since all of them collect the same."""
        left = getattr(node, "workeroutput", {}).get(LEFT)
        if left and not self._told:
            self._told = True
            items = [SimpleNamespace(nodeid=nodeid) for nodeid in left]
            node.config.hook.pytest_deselected(items=items)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function" and fixturedef.argname != self._turn:
            return (yield)
        began = time.monotonic()
        self._waiting += 1
        try:
            return (yield)
        finally:
            self._waiting -= 1
            if not self._waiting:  # what a shared fixture needs is shared as well
                self._waited_sec += time.monotonic() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        own_sec = report.duration - self._waited_sec
        self._waited_sec = 0.0
        self._own_sec = own_sec if report.when == "setup" else self._own_sec + own_sec
        marked = any(item.get_closest_marker(name) for name in ("slow", "nightly"))
        if report.when != "call" or marked or self._own_sec < SLOW_SEC:
            return report
        vars(report)["own_sec"] = self._own_sec
        too_long = self._own_sec > SLOW_SEC * patience()
        if report.passed and REQUIRED and not NIGHTLY and too_long:
            report.outcome = "failed"
            report.longrepr = f"it took {self._own_sec:.0f} s; make it faster, or mark it slow"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        own_sec = getattr(report, "own_sec", None)
        if own_sec is not None:
            self._long.append((own_sec, report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._long:
            terminalreporter.section(f"over {SLOW_SEC:.0f} s, and not marked slow")
        for own_sec, nodeid in sorted(self._long, reverse=True):
            terminalreporter.write_line(f"{own_sec:.0f} s  {nodeid}")
