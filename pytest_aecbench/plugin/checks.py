"""Every check leaves a record in the ledger, and says in JUnit what it was and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import LedgerError
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
    return report


def _keep(item: CheckItem, report: pytest.TestReport) -> None:
    from pytest_aecbench.ledger.checks import CheckRecord, keep_check

    settings, finding = settings_of(item.config), item.finding
    task_id = settings.task_id(item.path.parent)
    hint = finding.hint if finding else ""
    item.user_properties[:] = [
        ("aec.task", task_id),
        ("aec.check", item.check),
        ("aec.outcome", str(item.outcome)),
        ("aec.backend", settings.backend),
        *([("aec.hint", hint)] if hint else []),
    ]
    if item.trial is None:
        return  # a task that cannot be read, and has no digest to keep it under
    scrub = item.trial.scrubber.text
    message = finding.message if finding else _reason(report)
    keep_check(
        settings.ledger_root,
        CheckRecord(
            task_id=task_id,
            task_digest=item.trial.digest,
            check=item.check,
            outcome=str(item.outcome),
            backend=settings.backend,
            message=scrub(message),
            hint=scrub(hint),
            run_id=settings.run_id,
        ),
    )


def _reason(report: pytest.TestReport) -> str:
    """Return why a check was not made, or why it came to no end."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr or "")
