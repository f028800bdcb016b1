"""Every attempt leaves a record: in the ledger, in JUnit and on its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.nodes import TrialItem

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_aecbench.scrubbing import Scrubber


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the record as soon as the outcome is known, which is before teardown."""
    report = yield
    if not isinstance(item, TrialItem) or item.trial is None:
        return report
    known = call.when == "call" or (call.when == "setup" and report.failed)
    if known and not report.skipped:
        try:
            _keep(item, call)
        except LedgerError as error:
            # A result that cannot be kept is lost, so stop before more is spent.
            report.outcome, report.longrepr = "failed", f"LedgerError: {error}"
            item.session.shouldstop = f"aec: {error}"
    _scrub(report, item.trial.scrubber)
    report.user_properties = list(item.user_properties)
    if item.result is not None:
        # Reports carry what else they are given to the controller.
        report.aecbench = item.result  # type: ignore[attr-defined]
    return report


def _keep(item: TrialItem, call: pytest.CallInfo[None]) -> None:
    # Imported here because a run without trials must not pay for pydantic.
    from pytest_aecbench import keeping
    from pytest_aecbench.statistics import TrialResult

    trial = item.trial
    assert trial is not None
    error = call.excinfo.value if call.excinfo else None
    if trial.reward is not None and isinstance(error, pytest.fail.Exception):
        error = None  # the sentence on a reward that is too low
    record = keeping.keep(trial, error)
    item.user_properties.extend(keeping.properties(record))
    item.result = TrialResult.from_record(record).to_dict()


def _scrub(report: pytest.TestReport, scrubber: Scrubber) -> None:
    """Take secrets out of what the report shows."""
    if not scrubber:
        return
    report.sections = [(name, scrubber.text(text)) for name, text in report.sections]
    if report.longrepr is not None and not report.skipped:
        shown = str(report.longrepr)
        if (scrubbed := scrubber.text(shown)) != shown:
            report.longrepr = scrubbed
