"""`--aec-check`: each check leaves a record in the ledger, and properties in JUnit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import AecBenchError, LedgerError
from pytest_aecbench.plugin.items import CheckItem
from pytest_aecbench.plugin.state import settings_of

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what a check found as soon as it is known."""
    report = yield
    if not isinstance(item, CheckItem):
        return report
    if call.when == "call" or (call.when == "setup" and not report.passed):
        item.error = call.excinfo.value if call.excinfo else None
        item.outcome = "error" if call.when == "setup" and report.failed else report.outcome
        try:
            _keep(item, report)
        except LedgerError as error:
            report.outcome, report.longrepr = "failed", f"LedgerError: {error}"
            item.session.shouldstop = f"aec: {error}"
    report.user_properties = list(item.user_properties)
    if item.record is not None:
        # Reports carry what else they are given to the controller.
        report.aecbench_check = item.record  # type: ignore[attr-defined]
    return report


def _keep(item: CheckItem, report: pytest.TestReport) -> None:
    from dataclasses import asdict

    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.ledger.checks import CheckRecord, keep_check

    settings, finding, trial = settings_of(item.config), item.finding, item.trial
    scrub = (trial.scrubber if trial else Scrubber(settings.secrets())).text
    record = CheckRecord(
        task_id=settings.task_id(item.path.parent),
        task_digest=trial.digest if trial else "",
        check=item.check,
        outcome=str(item.outcome),
        backend=settings.backend,
        message=scrub(finding.message if finding else _reason(item, report)),
        hint=scrub(finding.hint) if finding else "",
        run_id=settings.run_id,
    )
    item.record = asdict(record)
    item.user_properties[:] = [
        ("aec.task", record.task_id),
        ("aec.check", record.check),
        ("aec.outcome", record.outcome),
        ("aec.backend", record.backend),
        *([("aec.hint", record.hint)] if record.hint else []),
    ]
    if record.task_digest:  # a task that cannot be read has none to keep the record under
        keep_check(settings.ledger_root, record)


def _reason(item: CheckItem, report: pytest.TestReport) -> str:
    """Return why a check was not made, or why it came to no end."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    if isinstance(item.error, AecBenchError):
        return f"{type(item.error).__name__}: {item.error}"
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "")
