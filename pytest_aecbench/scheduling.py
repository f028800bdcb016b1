"""Between collection and the first trial: checks that nothing is spent in vain, and hand-over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import AecBenchError
from pytest_aecbench.lookup import backend_of
from pytest_aecbench.nodes import TASK_FILE, TrialItem
from pytest_aecbench.settings import settings_of

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_CHECKED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Check what trials need, where this process runs them itself."""
    config = session.config
    if config.option.collectonly or hasattr(config, "workerinput"):
        return
    if any(isinstance(item, TrialItem) for item in session.items):
        _check(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: WorkerController, ids: Sequence[str]) -> None:
    """Check what trials need, where workers run them."""
    if _CHECKED not in node.config.stash and any(f"{TASK_FILE}::trial[" in one for one in ids):
        _check(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell each worker, also one that replaces another, which run it belongs to."""
    settings = settings_of(node.config)
    node.workerinput["aecbench"] = {
        "experiment_id": settings.experiment_id,
        "run_id": settings.run_id,
    }


def _check(config: pytest.Config) -> None:
    """Refuse the run, in one line, while nothing has been spent on it."""
    from pytest_aecbench.ledger import Ledger

    config.stash[_CHECKED] = True
    settings = settings_of(config)
    try:
        backend = backend_of(config)
        if preflight := getattr(backend, "preflight", None):
            preflight()
        Ledger(settings.ledger_root).check_writable()
    except AecBenchError as error:
        raise pytest.UsageError(str(error)) from None
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.verbosity >= 0:
        describe = getattr(backend, "describe", None)
        reporter.ensure_newline()
        reporter.write_line(f"aec: experiment {settings.experiment_id}")
        reporter.write_line(f"aec: backend {describe() if describe else settings.backend}")
