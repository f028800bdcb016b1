"""``--aec-concurrency``: the slot that each trial takes, and the meaning of ``-n auto``."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_aecbench.errors import AecBenchError
from pytest_aecbench.host.lanes import current
from pytest_aecbench.plugin.items import TrialItem
from pytest_aecbench.plugin.nodes import TASK_FILE, is_task
from pytest_aecbench.plugin.state import has_trials

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from pytest_aecbench.host.hub import Timer
    from pytest_aecbench.trials.trial import Trial

# The settings of pytest-timeout for a running test, and the timer of one in a lane.
_TIMER = pytest.StashKey[object]()
_LANE_TIMER: pytest.StashKey[Timer] = pytest.StashKey()


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run trials side by side in this process, where that is asked for and possible."""
    if not has_trials(session.config):
        return None
    from pytest_aecbench.plugin.lanes import ON_THE_WAY, way_of

    way = way_of(session.config)
    if way.lanes is None:
        return None
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        return None  # pytest's own loop says why nothing runs
    from pytest_aecbench.plugin.loop import LaneLoop

    LaneLoop(session, way.lanes, ON_THE_WAY if way.as_job else None).run()
    return True


@pytest.fixture
def aec_slot(request: pytest.FixtureRequest, aec_trial: Trial) -> Iterator[None]:
    """The right to have a sandbox; waits for it, held until the sandbox is gone."""
    from pytest_aecbench.plugin.lookup import backend_of, concurrency_of

    count = concurrency_of(request.config)
    if count is None:
        yield
        return
    from pytest_aecbench.host.slots import slot

    first = getattr(backend_of(request.config), "first_at_once", None)
    with ExitStack() as held:
        with _time_stopped(request.node), aec_trial.timed("wait"):
            held.enter_context(slot(aec_trial.settings.backend, count, first))
        if isinstance(request.node, TrialItem):
            request.node.skip_if_spent()  # by others, while it waited
        yield


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(
    item: pytest.Item, settings: object
) -> Generator[None, object, object]:
    """Remember the time that a test has, to be able to stop the clock."""
    item.stash[_TIMER] = settings
    return (yield)


class _TimeoutSettings(Protocol):
    timeout: float


@pytest.hookimpl(tryfirst=True, optionalhook=True, specname="pytest_timeout_set_timer")
def pytest_timeout_set_lane_timer(item: pytest.Item, settings: _TimeoutSettings) -> bool | None:
    """Let the time of a trial in a lane interrupt this lane, and not the one that runs then."""
    lane = current()
    if lane is None:
        return None
    from pytest_timeout import PYTEST_FAILURE_MESSAGE

    error = pytest.fail.Exception(PYTEST_FAILURE_MESSAGE % settings.timeout)
    throw = partial(lane.hub.throw, lane, error)
    item.stash[_LANE_TIMER] = lane.hub.after(settings.timeout, throw)
    return True


@pytest.hookimpl(tryfirst=True, optionalhook=True, specname="pytest_timeout_cancel_timer")
def pytest_timeout_cancel_lane_timer(item: pytest.Item) -> bool | None:
    """Cancel the timer of a trial in a lane."""
    if _LANE_TIMER not in item.stash:
        return None
    item.stash[_LANE_TIMER].cancel()
    del item.stash[_LANE_TIMER]
    return True


@contextmanager
def _time_stopped(item: TrialItem) -> Iterator[None]:
    """Restart pytest-timeout's timer afterwards, so that waiting for a slot does not count."""
    hook = item.config.hook
    if _TIMER not in item.stash:
        yield
        return
    hook.pytest_timeout_cancel_timer(item=item)
    yield
    hook.pytest_timeout_set_timer(item=item, settings=item.stash[_TIMER])


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Let ``-n auto`` be as many workers as trials may run at once, where trials are run."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") or not _is_about_tasks(config):
        return None
    from pytest_aecbench.plugin.lookup import concurrency_of

    try:
        return concurrency_of(config)
    except AecBenchError:
        return None  # which is said when the first trial is to run


def _is_about_tasks(config: pytest.Config) -> bool:
    """Return whether trials are going to be run, by looking at no more than some directories."""
    if any(argument.startswith("--aec-") for argument in config.invocation_params.args):
        return True
    tasks_root = config.rootpath / (config.getini("aec_tasks_root") or "tasks")
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        if any(is_task(str(place)) for place in (path, *path.parents)):
            return True
        if _holds_tasks(path) or (tasks_root.is_relative_to(path) and _holds_tasks(tasks_root)):
            return True
    return False


def _holds_tasks(directory: Path) -> bool:
    """Return whether there is a task up to two levels below."""
    patterns = (f"*/{TASK_FILE}", f"*/*/{TASK_FILE}")
    return any(is_task(str(file.parent)) for name in patterns for file in directory.glob(name))
