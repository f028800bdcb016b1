"""``--aec-progress``: show on a terminal, or say in lines, where a running run stands."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_aecbench.plugin._pytest_internals import begin_line, in_mid_line
from pytest_aecbench.plugin.nodes import is_trial
from pytest_aecbench.plugin.results import is_retried
from pytest_aecbench.plugin.state import has_trials, is_worker, settings_of, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdist.workermanage import WorkerController

    from pytest_aecbench.ledger.journal import Attempt
    from pytest_aecbench.plugin.region import Region
    from pytest_aecbench.plugin.standing import Standing

REDRAW_SEC = 1.0


def pytest_configure(config: pytest.Config) -> None:
    """Keep count where a person may be watching."""
    if not is_worker(config):
        config.pluginmanager.register(Progress(config), "aecbench-progress")


class Progress:
    """Listens to the run, and lets a thread say where it stands."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._node_ids: list[str] = []
        self._standing: Standing | None = None
        self._region: Region | None = None
        self._over = threading.Event()
        self._speaker: threading.Thread | None = None
        self._stream: TextIO | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the trials to run in this process."""
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(
        self, node: WorkerController, ids: Sequence[str]
    ) -> None:
        """Count the trials to run in workers, each of which collects them all."""
        if self._standing is None:
            self._expect(ids)

    def _expect(self, node_ids: Iterable[str]) -> None:
        self._node_ids = [node_id for node_id in node_ids if is_trial(node_id)]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Count a trial that begins, here or in a worker."""
        if not is_trial(nodeid) or not has_trials(self.config):
            return
        if self._standing is None:
            self._standing = self._start()
        self._standing.begin(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a trial that ends."""
        if self._standing is None or is_retried(report) or not is_trial(report.nodeid):
            return
        if report.when in ("teardown", "???"):
            result = getattr(report, "aecbench", {"reward": None, "error_cause": "crashed"})
            self._standing.end(
                report.nodeid,
                result["reward"],
                failed=result["error_cause"] is not None,
                reused=getattr(report, "aecbench_reused", False),
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Stop the progress, and restore the terminal."""
        self._over.set()
        if self._speaker is not None:
            self._speaker.join()
        if self._region is not None:
            self._region.close()
        if self._stream is not None:
            with suppress(BrokenPipeError):
                self._stream.close()

    def pytest_unconfigure(self) -> None:
        """Do the same where the session never finished."""
        self.pytest_sessionfinish()

    def _start(self) -> Standing:
        """Start the progress, where it can be shown."""
        # Imported here because a run without trials has no use for it.
        from pytest_aecbench.plugin.durations import past_durations
        from pytest_aecbench.plugin.region import Region
        from pytest_aecbench.plugin.standing import Standing

        config = self.config
        standing = Standing(
            self._node_ids,
            lambda node_id: past_durations(config, self._node_ids).get(node_id),
            reusable=len(state_of(config).reusable.settled),
            workers=_at_once(config, len(self._node_ids)),
        )
        interval_sec = settings_of(config).progress_sec
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not interval_sec:
            return standing
        self._stream = _uncaptured(sys.stdout)
        stream = self._stream or sys.stdout
        if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            if reporter.verbosity > -2:
                self._region = region = Region(stream)
                state_of(config).interrupts.last_acts.append(region.close)
                self._speak(REDRAW_SEC, lambda: region.draw(partial(self._lines, standing)))
        elif reporter.verbosity >= 0:
            self._speak(
                interval_sec,
                lambda: _write_line(reporter, stream, self._line(standing)),
            )
        return standing

    def _speak(self, interval_sec: float, say: Callable[[], None]) -> None:
        def repeat() -> None:
            while not self._over.wait(interval_sec):
                say()

        speaker = threading.Thread(target=repeat, name="aec-progress", daemon=True)
        with suppress(RuntimeError):  # no more threads are allowed; trials matter more
            speaker.start()
            self._speaker = speaker

    def _line(self, standing: Standing) -> str:
        told = _told(self.config)
        return standing.line(self._waiting()) + (f"; {told}" if told else "")

    def _lines(self, standing: Standing, width: int, most: int) -> Sequence[str]:
        told = _told(self.config)
        if not told or most < 3:
            return standing.lines(self._attempts(), width=width, most=most)
        head, *rows = standing.lines(self._attempts(), width=width, most=most - 1)
        return [head, f"aec: {told}"[:width], *rows]

    def _waiting(self) -> int:
        if _as_job(self.config):  # there are no slots
            return 0
        return sum(attempt.phase == "wait" for attempt in self._attempts())

    def _attempts(self) -> list[Attempt]:
        from pytest_aecbench.ledger import journal

        settings = settings_of(self.config)
        return journal.attempts(settings.ledger_root, settings.experiment_id, settings.run_id)


def _as_job(config: pytest.Config) -> bool:
    from pytest_aecbench.plugin.lanes import way_of

    return way_of(config).as_job


def _told(config: pytest.Config) -> str:
    """Return what the backend says about the job that trials wait for, if they do."""
    from pytest_aecbench.plugin.lookup import backend_of

    standing = getattr(backend_of(config), "standing", None)
    return str(standing()) if standing and _as_job(config) else ""


def _at_once(config: pytest.Config, trials: int) -> int:
    """Return how many trials run at once: no more than have a slot, or than their job allows."""
    from pytest_aecbench.plugin.lanes import lanes_of
    from pytest_aecbench.plugin.lookup import backend_of, concurrency_of

    if _as_job(config):
        allowed = getattr(backend_of(config), "concurrency", None)
        return max(1, min(trials, allowed() if allowed else trials))
    workers: int = config.getoption("numprocesses", None) or lanes_of(config) or 1
    return min(workers, concurrency_of(config) or workers)


def _uncaptured(stream: TextIO) -> TextIO | None:
    """Open a way to where the stream leads, which is captured itself while a test runs here."""
    try:
        descriptor = os.dup(stream.fileno())
    except (OSError, ValueError):  # kept in memory
        return None
    return open(descriptor, "w", encoding=stream.encoding, errors="replace")  # noqa: PTH123


def _write_line(reporter: pytest.TerminalReporter, stream: TextIO, line: str) -> None:
    """Write a line of its own, and let the reporter begin another."""
    newline = "\n" if in_mid_line(reporter) else ""
    with suppress(BrokenPipeError):  # not read any more
        stream.write(f"{newline}{line}\n")
        stream.flush()
    begin_line(reporter)
