"""A line now and then on where a long run stands."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.config import has_trials, is_retried, is_worker, settings_of
from pytest_aecbench.nodes import TASK_FILE, is_trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdist.workermanage import WorkerController


def pytest_configure(config: pytest.Config) -> None:
    """Keep count where a person may be watching."""
    if not is_worker(config):
        config.pluginmanager.register(Progress(config), "aecbench-progress")


class Progress:
    """Which trials run and how many are done; says so every so many seconds."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.total = 0
        self.done = 0
        self.errors = 0
        self.rewards: list[float] = []
        self.running: dict[str, float] = {}
        self.started = time.monotonic()
        self._over = threading.Event()
        self._speaker: threading.Thread | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the trials to run in this process."""
        self.total = sum(is_trial(item.nodeid) for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(
        self, node: WorkerController, ids: Sequence[str]
    ) -> None:
        """Count the trials to run in workers, each of which collects them all."""
        self.total = sum(map(is_trial, ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Take note of a trial that begins, here or in a worker."""
        if not is_trial(nodeid) or not has_trials(self.config):
            return
        self.running[nodeid] = time.monotonic()
        interval_sec = settings_of(self.config).progress_sec
        if self._speaker is None and interval_sec:
            self._speaker = threading.Thread(target=self._speak, args=(interval_sec,), daemon=True)
            self._speaker.start()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a trial that ends."""
        if is_retried(report) or not is_trial(report.nodeid):
            return
        if report.when in ("teardown", "???") and report.nodeid in self.running:
            del self.running[report.nodeid]
            self.done += 1
            result = getattr(report, "aecbench", {"reward": None})
            if result["reward"] is None:
                self.errors += 1
            else:
                self.rewards.append(result["reward"])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Say no more."""
        self._over.set()
        if self._speaker is not None:
            self._speaker.join()

    def _speak(self, interval_sec: float) -> None:
        while not self._over.wait(interval_sec):
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None and reporter.verbosity >= 0:
                reporter.ensure_newline()
                reporter.write_line(self.line())

    def line(self) -> str:
        """Return where the run stands."""
        now = time.monotonic()
        parts = [f"{self.done} of {self.total} trials done"]
        if self.rewards:
            parts.append(f"mean reward {sum(self.rewards) / len(self.rewards):.2f}")
        if self.errors:
            parts.append(f"{self.errors} without a reward")
        running = list(self.running.items())  # the main thread adds and removes meanwhile
        if running:
            node_id, since = min(running, key=lambda trial: trial[1])
            name = node_id.partition(f"/{TASK_FILE}")[0].rpartition("/")[2]
            parts.append(f"{len(running)} running, longest {name} for {now - since:.0f} s")
        if self.done:
            left_sec = (now - self.started) / self.done * (self.total - self.done)
            parts.append(f"about {left_sec / 60:.0f} min left")
        return "aec: " + ", ".join(parts)
