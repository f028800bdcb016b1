"""Between collection and the first trial: checks that nothing is spent in vain, and hand-over."""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import AecBenchError, SettingsError, TaskError
from pytest_aecbench.plugin.dataset import dataset_of, handed_over
from pytest_aecbench.plugin.evaluate import rows_of, summary_of
from pytest_aecbench.plugin.items import SandboxItem
from pytest_aecbench.plugin.nodes import needs_sandbox
from pytest_aecbench.plugin.resume import reusable_of
from pytest_aecbench.plugin.state import (
    expect_trials,
    freeze,
    has_trials,
    interrupts_of,
    is_worker,
    settings_of,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from xdist.scheduler.load import LoadScheduling
    from xdist.workermanage import WorkerController


_WORKERS = pytest.StashKey[set["WorkerController"]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Check what trials need, where this process runs them itself."""
    config = session.config
    if config.option.collectonly or config.option.setupplan:
        return
    if any(isinstance(item, SandboxItem) for item in session.items):
        interrupts_of(config).listen()
        if is_worker(config):
            expect_trials(config)
        else:
            _check(config, [item.nodeid for item in session.items])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tell workers that the run is stopped, who would hear of it only seconds later."""
    if has_trials(session.config) and exitstatus == pytest.ExitCode.INTERRUPTED:
        _signal_workers(session.config, signal.SIGINT)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave signals to whoever had them before."""
    if has_trials(config):
        interrupts_of(config).ignore()


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
        interrupts = interrupts_of(node.config)
        interrupts.last_acts.append(partial(_signal_workers, node.config, signal.SIGKILL))
        interrupts.listen()
        _check(node.config, ids)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: WorkerController) -> None:
    """Take note of a worker."""
    node.config.stash.setdefault(_WORKERS, set()).add(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Forget a worker, whose number may come to mean another process."""
    node.config.stash.setdefault(_WORKERS, set()).discard(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScheduling | None:
    """Deal trials in our own way, unless the user chose another."""
    if config.getoption("dist") != "load":
        return None
    from pytest_aecbench.plugin.workers import TrialScheduling

    return TrialScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell each worker, also one that replaces another, which run it belongs to."""
    config, told = node.config, node.workerinput
    told.update(aecbench={}, aecbench_reusable={}, aecbench_dataset=None, aecbench_stored=[])
    with suppress(pytest.UsageError):  # said if there turn out to be trials
        told.update(
            aecbench=freeze(config),
            aecbench_reusable=reusable_of(config),
            aecbench_dataset=handed_over(config),
            aecbench_stored=rows_of(config),
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Resolve the settings before workers start, so that they inherit what ``.env`` sets."""
    with suppress(pytest.UsageError):
        settings_of(config)


def _signal_workers(config: pytest.Config, number: signal.Signals) -> None:
    for node in config.stash.get(_WORKERS, ()):
        # Neither xdist nor execnet tells; without it, workers end by themselves after a while.
        popen = getattr(getattr(node.gateway, "_io", None), "popen", None)
        if popen is not None and popen.poll() is None:
            popen.send_signal(number)


def _check(config: pytest.Config, node_ids: Sequence[str]) -> None:
    """Refuse the run, in one line, while nothing has been spent on it."""
    from pytest_aecbench.host import runs
    from pytest_aecbench.ledger import journal
    from pytest_aecbench.ledger.store import CHECKS, Ledger
    from pytest_aecbench.plugin import plan
    from pytest_aecbench.plugin.lookup import backend_of
    from pytest_aecbench.settings.experiment import experiment_yaml
    from pytest_aecbench.trials.stages import check_space

    settings = settings_of(config)
    try:
        backend = backend_of(config)
        if preflight := getattr(backend, "preflight", None):
            preflight()
        if examine := getattr(backend, "examine", None):
            paths = {node_id.partition("::")[0] for node_id in node_ids if needs_sandbox(node_id)}
            examine([(config.rootpath / path).parent for path in sorted(paths)])
        if settings.keep != "none" and not hasattr(backend, "keep"):
            raise SettingsError(f"--aec-keep: {settings.backend} keeps no sandboxes; leave it out")
        if reap := getattr(backend, "reap", None):
            reap()
        ledger = Ledger(settings.ledger_root)
        ledger.check_writable(CHECKS if settings.checks else settings.experiment_id)
        check_space(settings.jobs_root)
        if not settings.checks:
            experiment = experiment_yaml(settings, [*map(str, config.invocation_params.args)])
            ledger.keep_experiment(settings.experiment_id, experiment)
        plan.freeze(config, node_ids, _order(config, node_ids))
        left_behind = journal.recover(settings.ledger_root)
        runs.begin(settings.run_id, settings.ledger_root)
    except AecBenchError as error:
        raise pytest.UsageError(str(error)) from None
    expect_trials(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and settings.notes:
        reporter.ensure_newline()
        for note in settings.notes:
            reporter.write_line(f"aec: warning: {note}", yellow=True)
    if reporter is not None and reporter.verbosity >= 0:
        describe = getattr(backend, "describe", None)
        if reporter._tw.width_of_current_line:  # such as xdist's, on a terminal
            reporter.write_line("")
        if not settings.checks:
            known_as = (settings.experiment_id, settings.experiment_name, settings.project_name)
            reporter.write_line(f"aec: experiment {', '.join(name for name in known_as if name)}")
        reporter.write_line(f"aec: backend {describe() if describe else settings.backend}")
        if (dataset := dataset_of(config)) is not None:
            reporter.write_line(f"aec: dataset {dataset}, tasks in it {len(dataset.tasks)}")
            for change in dataset.changes:
                reporter.write_line(f"aec: not as in the dataset: {change}")
        if settings.resume:
            count = len(reusable_of(config))
            reporter.write_line(f"aec: resuming: {count} trials have a reward and are reused")
        if settings.evaluate is not None:
            reporter.write_line(f"aec: {summary_of(config)}")
        if left_behind:
            reporter.write_line(f"aec: recorded {len(left_behind)} trials that died with their run")


def _order(config: pytest.Config, node_ids: Sequence[str]) -> list[int]:
    """Return the order of the tests' places: that of dealing, if it is ours, else as collected."""
    if config.getoption("dist", "no") != "load":
        return list(range(len(node_ids)))
    from pytest_aecbench.plugin.workers import longest_first

    return longest_first(config, node_ids)
