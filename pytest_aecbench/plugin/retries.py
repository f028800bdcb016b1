"""``--aec-retries``: try again when the infrastructure failed, never when there is a reward.

A trial that does not tell whether its agent or the backend failed is tried once more in any case.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import AecBenchError, LedgerError
from pytest_aecbench.host.lanes import pause
from pytest_aecbench.plugin._pytest_internals import run_attempt
from pytest_aecbench.plugin.items import SandboxItem
from pytest_aecbench.plugin.nodes import needs_sandbox
from pytest_aecbench.plugin.state import settings_of, state_of

if TYPE_CHECKING:
    from xdist.scheduler.load import LoadScheduling

MAX_DELAY_SEC = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a trial until it is settled or out of attempts."""
    if not isinstance(item, SandboxItem):
        return None
    retries, log = settings_of(item.config).retries, item.ihook
    log.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    while True:
        reports = run_attempt(item, nextitem)
        if item.is_in_doubt:
            retries = max(retries, item.attempt)
        if not item.may_be_retried or item.attempt > retries:
            break
        (failed, *_) = [report for report in reports if not report.passed]
        failed.outcome = "retried"  # type: ignore[assignment]  # neither passed nor failed
        log.pytest_runtest_logreport(report=failed)
        pause(_delay(item))
        item.forget()
    for report in reports:
        log.pytest_runtest_logreport(report=report)
    log.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _delay(item: SandboxItem) -> float:
    """Return how long to wait: twice as long each time, and not all workers the same."""
    delay_sec = settings_of(item.config).retry_delay_sec
    for _ in range(1, item.attempt):
        delay_sec = min(2 * delay_sec, MAX_DELAY_SEC)
    return delay_sec * random.uniform(0.5, 1.5)  # noqa: S311  (no secret)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(
    crashitem: str, report: pytest.TestReport, sched: LoadScheduling
) -> None:
    """Record a trial whose worker died, and run it again as often as any other trial."""
    if not needs_sandbox(crashitem):
        return
    from pytest_aecbench.trials.recovery import recover

    config: pytest.Config = sched.config
    with suppress(AecBenchError, OSError):  # the run's other trials say so
        recover(settings_of(config))
    if _has_reward(config, crashitem):
        return  # it died of what came after, so there is nothing to try again
    crashes = state_of(config).crashes
    crashes[crashitem] = crashes.get(crashitem, 0) + 1
    if crashes[crashitem] <= settings_of(config).retries:
        report.outcome = "retried"  # type: ignore[assignment]
        sched.mark_test_pending(crashitem)


def _has_reward(config: pytest.Config, node_id: str) -> bool:
    """Return whether this run has scored the trial."""
    from pytest_aecbench.ledger.index import open_index
    from pytest_aecbench.plugin.durations import TrialName

    settings, trial = settings_of(config), TrialName.of(config, node_id)
    with suppress(LedgerError), open_index(settings.ledger_root) as index:
        return any(
            record.scored
            and record.run_id == settings.run_id
            and (record.task.task_id, record.agent.name, str(record.repetition)) == trial[1:]
            for record in index.load(settings.experiment_id).entries
        )
    return False
