"""Every attempt leaves a record: in the ledger, in JUnit and on its report."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.nodes import TrialItem


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
    report.user_properties = list(item.user_properties)
    if item.result is not None:
        report.aecbench = item.result  # type: ignore[attr-defined]  # reports carry extras to the controller
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
