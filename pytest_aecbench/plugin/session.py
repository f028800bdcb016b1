"""The session of a run: checks before the first trial, the header, signals, xdist's workers."""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import (
    AecBenchError,
    LedgerError,
    SettingsError,
    TaskError,
)
from pytest_aecbench.plugin._pytest_internals import in_mid_line
from pytest_aecbench.plugin.items import SandboxItem
from pytest_aecbench.plugin.nodes import is_trial, needs_sandbox
from pytest_aecbench.plugin.state import has_trials, is_worker, settings_of, state_of
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from xdist.scheduler.load import LoadScheduling
    from xdist.workermanage import WorkerController

    from pytest_aecbench.settings.model import Settings

# More than these are worth a hint on how to check faster.
_MANY_CHECKS = 20


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Check what trials need, where this process runs them itself."""
    config = session.config
    if config.option.collectonly or config.option.setupplan:
        return
    if any(isinstance(item, SandboxItem) for item in session.items):
        state_of(config).interrupts.listen()
        if is_worker(config):
            state_of(config).has_trials = True
        else:
            _start(config, [item.nodeid for item in session.items])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Signal workers at once that the run is stopped; xdist would do so seconds later."""
    if has_trials(session.config) and exitstatus == pytest.ExitCode.INTERRUPTED:
        _signal_workers(session.config, signal.SIGINT)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the previous signal handlers."""
    state_of(config).interrupts.ignore()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Set pytest-timeout above all deadlines of a trial, in case one of them fails."""
    config = item.config
    if (
        isinstance(item, SandboxItem)
        and config.pluginmanager.hasplugin("timeout")
        and not config.getoption("timeout")
        and not config.getini("timeout")
        and item.get_closest_marker("timeout") is None
        and not _waits_for_a_job(config)
    ):
        with suppress(TaskError):  # shown when the trial itself reads the task
            item.add_marker(pytest.mark.timeout(item.guard_sec))
    return (yield)


def _waits_for_a_job(config: pytest.Config) -> bool:
    """Return whether trials wait for a job, whose queue has no deadline and whose tasks have."""
    from pytest_aecbench.backends import is_batch
    from pytest_aecbench.plugin.lookup import backend_of

    return is_batch(backend_of(config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: WorkerController, ids: Sequence[str]) -> None:
    """Check what trials need, where workers run them."""
    if not has_trials(node.config) and any(map(needs_sandbox, ids)):
        interrupts = state_of(node.config).interrupts
        interrupts.last_acts.append(partial(_signal_workers, node.config, signal.SIGKILL))
        interrupts.listen()
        _start(node.config, ids)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: WorkerController) -> None:
    """Remember a worker, which may have to be signalled."""
    state_of(node.config).workers.add(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Forget a worker, because its process id may come to mean another process."""
    state_of(node.config).workers.discard(node)


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart() -> Generator[None, None, None]:
    """Name the limit of this process that does not let xdist start its workers."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        _refuse_low_limit(error)
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScheduling | None:
    """Deal trials in our own way, unless the user chose another."""
    if config.getoption("dist") != "load":
        return None
    from pytest_aecbench.plugin.workers import TrialScheduling

    return TrialScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Hand the state of the run over to each worker, also to one that replaces another."""
    state_of(node.config).tell(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Resolve the settings before workers start, so that they inherit what ``.env`` sets."""
    with suppress(pytest.UsageError):
        settings_of(config)


def _signal_workers(config: pytest.Config, number: signal.Signals) -> None:
    from pytest_aecbench.plugin._xdist_internals import signal_worker

    for node in state_of(config).workers:
        signal_worker(node, number)


def _start(config: pytest.Config, node_ids: Sequence[str]) -> None:
    """Check everything that trials need, open the run, and write its header."""
    from pytest_aecbench.plugin.join import check_experiment
    from pytest_aecbench.plugin.unread import outlive_reader

    try:
        _preflight(config, node_ids)
        if not settings_of(config).checks:
            check_experiment(config)
        recovered = _open_run(config, node_ids)
        state_of(config).has_trials = True
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            outlive_reader(config, reporter)
            _write_header(config, reporter, recovered)
    except AecBenchError as error:
        raise pytest.UsageError(str(error)) from None
    except (OSError, RuntimeError) as error:
        _refuse_low_limit(error)
        raise


def _refuse_low_limit(error: OSError | RuntimeError) -> None:
    from pytest_aecbench.host.limits import exhausted_limit

    if (exhausted := exhausted_limit(error)) is not None:
        raise pytest.UsageError(f"the run cannot begin: {exhausted}") from None


def _preflight(config: pytest.Config, node_ids: Sequence[str]) -> None:
    """Refuse the run, in one line, while nothing has been spent on it."""
    from pytest_aecbench.ledger.store import CHECKS, Ledger
    from pytest_aecbench.plugin.follow import check_follow
    from pytest_aecbench.plugin.lanes import check_lanes
    from pytest_aecbench.plugin.last_failed import check_last_failed
    from pytest_aecbench.plugin.lookup import backend_of, preflight_agents
    from pytest_aecbench.plugin.reruns import check_reruns
    from pytest_aecbench.trials.full_disk import check_space
    from pytest_aecbench.trials.preflight import check_gpus

    check_follow(config)
    check_lanes(config)
    check_reruns(config)
    check_last_failed(config, node_ids)
    preflight_agents(config, [node_id for node_id in node_ids if is_trial(node_id)])
    settings, backend = settings_of(config), backend_of(config)
    if preflight := getattr(backend, "preflight", None):
        _announce(config, getattr(backend, "awaited", None))
        preflight()
    if warning := getattr(backend, "warning", None):
        state_of(config).notes.append(warning)
    paths = {node_id.partition("::")[0] for node_id in node_ids if needs_sandbox(node_id)}
    task_dirs = [(config.rootpath / path).parent for path in sorted(paths)]
    if examine := getattr(backend, "examine", None):
        examine(task_dirs)
    check_gpus(task_dirs, backend, settings.backend)
    if settings.keep != "none" and not hasattr(backend, "keep"):
        right = "leave the option out"
        raise SettingsError(f"--aec-keep: {settings.backend} cannot keep sandboxes; {right}")
    ledger = Ledger(settings.ledger_root)
    ledger.check_writable(CHECKS if settings.checks else settings.experiment_id)
    check_space(settings.jobs_root)


def _announce(config: pytest.Config, awaited: str | None) -> None:
    """Write what the run waits for before it starts, if that may take long."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if awaited and reporter is not None and reporter.verbosity >= 0:
        if in_mid_line(reporter):  # such as xdist's, on a terminal
            reporter.write_line("")
        reporter.write_line(f"aec: {awaited}")


def _open_run(config: pytest.Config, node_ids: Sequence[str]) -> int:
    """Clean up after dead runs and put this one on record; return how many trials were recovered.

    The plan, the order of trials and the experiment are fixed here, once for all workers.
    """
    from pytest_aecbench.host import runs
    from pytest_aecbench.ledger.claims import clear_dead_claims
    from pytest_aecbench.ledger.store import Ledger
    from pytest_aecbench.plugin.lookup import backend_of
    from pytest_aecbench.settings.experiment import experiment_yaml
    from pytest_aecbench.trials.reaping import Reaping
    from pytest_aecbench.trials.recovery import end_dead_leases, recover

    settings, state = settings_of(config), state_of(config)
    Reaping(backend_of(config), settings.backend).start()
    state.order = _order(config, node_ids)
    clear_dead_claims(settings.ledger_root)
    if not settings.checks:
        experiment = experiment_yaml(settings, [*map(str, config.invocation_params.args)])
        Ledger(settings.ledger_root).keep_experiment(settings.experiment_id, experiment)
        trials = [node_ids[number] for number in state.order if is_trial(node_ids[number])]
        _write_plan(settings, trials, state.reusable.settled)
    recovered = recover(settings)
    end_dead_leases(settings.ledger_root)
    secrets = sorted(settings.secrets())
    runs.begin(runs.Lease(settings.run_id, settings.ledger_root, settings.frozen(), secrets))
    return len(recovered)


def _write_plan(settings: Settings, trials: list[str], reused: dict[str, str]) -> None:
    """Write down which trials the run is going to make, beside its files."""
    import json
    from datetime import datetime, timezone

    from pytest_aecbench.host.files import whole

    plan = {
        "schema_version": 1,
        "run_id": settings.run_id,
        "experiment_id": settings.experiment_id,
        "created_at": datetime.now(timezone.utc).isoformat(),
        "backend": settings.backend,
        "agents": [agent.name for agent in settings.agents],
        "repetitions": settings.repetitions,
        "trials": trials,
        "reused": reused,
    }
    path = settings.jobs_root / settings.experiment_id / f"{settings.run_id}.plan.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as file:
            file.write(json.dumps(plan, indent=2).encode())
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written, {error.strerror}") from None


def _write_header(config: pytest.Config, reporter: pytest.TerminalReporter, recovered: int) -> None:
    """Write what the run is, and what is odd about it."""
    from pytest_aecbench.plugin.lanes import way_of
    from pytest_aecbench.plugin.lookup import backend_of

    settings, state = settings_of(config), state_of(config)
    notes = [*settings.notes, *state.notes]
    if notes:
        reporter.ensure_newline()
        for note in notes:
            reporter.write_line(f"aec: warning: {note}", yellow=True)
    if reporter.verbosity < 0:
        return
    if in_mid_line(reporter):  # such as xdist's, on a terminal
        reporter.write_line("")
    if not settings.checks:
        names = (settings.experiment_id, settings.experiment_name, settings.project_name)
        reporter.write_line(f"aec: experiment {', '.join(name for name in names if name)}")
    describe = getattr(backend_of(config), "describe", None)
    reporter.write_line(f"aec: backend {describe() if describe else settings.backend}")
    way = way_of(config)
    if way.sentence:
        reporter.write_line(f"aec: {way.sentence}")
    is_alone = not config.getoption("numprocesses", None) and way.lanes is None
    if settings.checks and is_alone and len(state.order) > _MANY_CHECKS:
        reporter.write_line("aec: checks run one at a time; -n auto runs several at once")
    if state.dataset is not None:
        reporter.write_line(
            f"aec: dataset {state.dataset}, {counted(len(state.dataset.tasks), 'task')}"
        )
        for change in state.dataset.changes:
            reporter.write_line(f"aec: not as in the dataset: {change}")
    if settings.resume:
        settled = counted(len(state.reusable.settled), "trial")
        reporter.write_line(f"aec: resuming: {settled} settled already")
    if settings.evaluate is not None:
        from pytest_aecbench.plugin.evaluate import summary_of

        reporter.write_line(f"aec: {summary_of(config)}")
    if recovered:
        reporter.write_line(f"aec: recorded {counted(recovered, 'trial')} that died with a run")


def _order(config: pytest.Config, node_ids: Sequence[str]) -> list[int]:
    """Return the order of the tests' places: that of dealing, if it is ours, else as collected."""
    from pytest_aecbench.plugin.lanes import lanes_of

    if config.getoption("dist", "no") != "load" and lanes_of(config) is None:
        return list(range(len(node_ids)))
    from pytest_aecbench.plugin.workers import longest_first

    return longest_first(config, node_ids)
