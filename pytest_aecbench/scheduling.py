"""Between collection and the first trial: checks that nothing is spent in vain, and hand-over."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.config import expect_trials, has_trials, is_worker, settings_of
from pytest_aecbench.errors import AecBenchError, SettingsError, TaskError
from pytest_aecbench.nodes import SandboxItem, needs_sandbox
from pytest_aecbench.reusing import reusable_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from xdist.scheduler.load import LoadScheduling
    from xdist.workermanage import WorkerController


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Check what trials need, where this process runs them itself."""
    config = session.config
    if config.option.collectonly or config.option.setupplan:
        return
    if any(isinstance(item, SandboxItem) for item in session.items):
        _treat_sigterm_as_ctrl_c()
        if is_worker(config):
            expect_trials(config)
        else:
            _check(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Set pytest-timeout above all deadlines of a trial, for the case that one of them fails."""
    config = item.config
    if (
        isinstance(item, SandboxItem)
        and config.pluginmanager.hasplugin("timeout")
        and not config.getoption("timeout")
        and not config.getini("timeout")
        and item.get_closest_marker("timeout") is None
    ):
        with suppress(TaskError):  # shown when the trial itself reads the task
            item.add_marker(pytest.mark.timeout(item.guard_sec))
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: WorkerController, ids: Sequence[str]) -> None:
    """Check what trials need, where workers run them."""
    if not has_trials(node.config) and any(map(needs_sandbox, ids)):
        _treat_sigterm_as_ctrl_c()
        _check(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScheduling | None:
    """Deal trials in our own way, unless the user chose another."""
    if config.getoption("dist") != "load":
        return None
    from pytest_aecbench.dealing import TrialScheduling

    return TrialScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell each worker, also one that replaces another, which run it belongs to."""
    settings = settings_of(node.config)
    node.workerinput["aecbench_reusable"] = reusable_of(node.config)
    node.workerinput["aecbench"] = {
        "experiment_id": settings.experiment_id,
        "run_id": settings.run_id,
    }


def _treat_sigterm_as_ctrl_c() -> None:
    """Let a polite request to end tear sandboxes down, which by itself it would not."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    # Whoever handles it already knows better, and only a main thread may handle it at all.
    with suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, interrupt)


def _check(config: pytest.Config) -> None:
    """Refuse the run, in one line, while nothing has been spent on it."""
    from pytest_aecbench import underway
    from pytest_aecbench.checks.ledger import CHECKS
    from pytest_aecbench.ledger import Ledger
    from pytest_aecbench.lookup import backend_of

    settings = settings_of(config)
    try:
        backend = backend_of(config)
        if preflight := getattr(backend, "preflight", None):
            preflight()
        if settings.keep != "none" and not hasattr(backend, "keep"):
            raise SettingsError(f"--aec-keep: {settings.backend} keeps no sandboxes; leave it out")
        if reap := getattr(backend, "reap", None):
            reap()
        directory = CHECKS if settings.checks else settings.experiment_id
        Ledger(settings.ledger_root).check_writable(directory)
        left_behind = underway.recover(settings.ledger_root)
    except AecBenchError as error:
        raise pytest.UsageError(str(error)) from None
    expect_trials(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.verbosity >= 0:
        describe = getattr(backend, "describe", None)
        reporter.ensure_newline()
        if not settings.checks:
            reporter.write_line(f"aec: experiment {settings.experiment_id}")
        reporter.write_line(f"aec: backend {describe() if describe else settings.backend}")
        if settings.resume:
            count = len(reusable_of(config))
            reporter.write_line(f"aec: resuming: {count} trials have a reward and are reused")
        if left_behind:
            reporter.write_line(f"aec: recorded {len(left_behind)} trials that died with their run")
