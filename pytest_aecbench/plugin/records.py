"""Records of attempts: written to the ledger, to JUnit and on reports."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import AecBenchError, EvaluationError, LedgerError
from pytest_aecbench.host.lanes import away
from pytest_aecbench.plugin._pytest_internals import in_mid_line
from pytest_aecbench.plugin.items import SandboxItem, TrialItem
from pytest_aecbench.plugin.state import has_trials, is_worker, settings_of, state_of
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.ledger.record import TrialRecord

# The share of each text that a report carries from a worker to the controller.
MAX_SHOWN_CHARS = 32_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the record as soon as the outcome is known, which is before teardown."""
    report = yield
    if not isinstance(item, SandboxItem):
        return report
    if call.excinfo is not None and call.when != "call" and report.failed:
        # pytest would show the source of fixtures, which is of no use to the user.
        report.longrepr = item.repr_failure(call.excinfo)
    if item.trial is None:
        return report
    if not isinstance(item, TrialItem):  # checks keep their findings themselves
        _scrub(report, item.trial.scrubber)
        return report
    known = call.when == "call" or (call.when == "setup" and call.excinfo is not None)
    # A failure that was expected is said to be skipped as well.
    is_attempt = not report.skipped or hasattr(report, "wasxfail") or item.trial.has_worked
    if known and is_attempt and not item.trial.kept:
        try:
            with state_of(item.config).interrupts.held_back():
                _keep(item, call, report)
        except LedgerError as error:
            item.error = error
        if isinstance(item.error, LedgerError) and not isinstance(item.error, EvaluationError):
            _show_as_error(report, item.error)
            report.aecbench_unkept = True  # type: ignore[attr-defined]
            # Stop before more is spent on results that cannot be kept.
            item.session.shouldstop = f"aec: {item.error}"
    if not is_attempt or (call.when == "teardown" and item.trial.kept):
        from pytest_aecbench.trials.record import forget

        forget(item.trial)
    _scrub(report, item.trial.scrubber)
    _shorten(report)
    report.user_properties = list(item.user_properties)
    if item.result is not None:
        # Reports carry what else they are given to the controller.
        report.aecbench = item.result  # type: ignore[attr-defined]
        report.aecbench_reused = item.reused is not None  # type: ignore[attr-defined]
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep a record of a trial that is stopped, which makes no report."""
    try:
        return (yield)
    except (KeyboardInterrupt, pytest.exit.Exception):
        if isinstance(item, TrialItem) and item.trial is not None and item.reused is None:
            from pytest_aecbench.trials.record import forget, keep

            with suppress(LedgerError), state_of(item.config).interrupts.held_back():
                # A trial that only waited has neither cost nor shown anything.
                if not item.trial.kept and item.trial.phase != "wait":
                    away(keep, item.trial, KeyboardInterrupt("the run was stopped"))
                    _count_as_interrupted(item)
                forget(item.trial)
        raise


def _count_as_interrupted(item: TrialItem) -> None:
    """Let pytest's last line count a trial without a report, instead of saying that none ran."""
    reporter = item.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", None, "setup")
        reporter.stats.setdefault("interrupted", []).append(report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Let a sandbox be removed as a whole, also when the run is told to end meanwhile."""
    if not isinstance(item, TrialItem):
        return (yield)
    with state_of(item.config).interrupts.held_back():
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep records of trials whose process died, and remove what it left."""
    config = session.config
    if not has_trials(config):
        return
    problems = _close(config)
    if not is_worker(config):
        problems += _clean_up(config, interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
    # Too late for a test to fail of them.
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and problems:
        if in_mid_line(reporter):
            reporter.write_line("")
        for problem in problems:
            reporter.write_line(f"aec: {problem}")


def _close(config: pytest.Config) -> list[str]:
    """Close the backend; return what is wrong with it."""
    try:
        if close := getattr(state_of(config).backend, "close", None):
            close()
    except (AecBenchError, OSError) as error:
        return [str(error)]
    return []


def _clean_up(config: pytest.Config, *, interrupted: bool) -> list[str]:
    """Record what died with its worker, remove what dead runs left; return what is left to say."""
    from pytest_aecbench.host import runs
    from pytest_aecbench.ledger import journal
    from pytest_aecbench.trials.reaping import Reaping
    from pytest_aecbench.trials.recovery import end_dead_leases, recover

    settings, backend = settings_of(config), state_of(config).backend
    reaping = Reaping(backend, settings.backend)
    reaping.start()
    problems = []
    # An error in the ledger was said to each trial that could not be kept, and keeps the lease.
    try:
        with suppress(LedgerError):
            recover(settings, interrupted=interrupted)
            end_dead_leases(settings.ledger_root)
            if journal.is_quiet(settings.ledger_root, settings.run_id):
                runs.end(settings.run_id)
    except (AecBenchError, OSError) as error:  # such as too few descriptors
        problems.append(str(error))
    return problems + reaping.wait()


def _keep(item: TrialItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    # Imported here because a run without trials must not pay for pydantic.
    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.trials.record import keep, keep_failure

    trial = item.trial
    assert trial is not None
    error = call.excinfo.value if call.excinfo else None
    if trial.reward is not None and isinstance(error, pytest.fail.Exception):
        error = None  # the sentence on a reward that is too low
    item.error = error
    try:
        record = item.reused or away(keep, trial, error)
    except LedgerError:
        raise
    except Exception as broken:  # noqa: BLE001  (the trial's files may have become anything)
        item.error = broken
        _show_as_error(report, broken)
        record = away(keep_failure, trial, broken)
    item.user_properties.extend(properties(record))
    item.result = TrialResult.from_record(record).to_dict()


def _show_as_error(report: pytest.TestReport, error: Exception) -> None:
    """Show an error in keeping a record as one of the infrastructure, also to JUnit."""
    report.when = "setup"  # in the call it would be a failure
    report.outcome, report.longrepr = "failed", f"{type(error).__name__}: {error}"


def _scrub(report: pytest.TestReport, scrubber: Scrubber) -> None:
    """Take secrets out of what the report shows."""
    if not scrubber:
        return
    report.sections = [(name, scrubber.text(text)) for name, text in report.sections]
    if isinstance(report.longrepr, tuple):  # the place of a skip and its reason
        path, line, reason = report.longrepr
        report.longrepr = path, line, scrubber.text(reason)
    elif report.longrepr is not None:
        shown = str(report.longrepr)
        if (scrubbed := scrubber.text(shown)) != shown:
            report.longrepr = scrubbed


def _shorten(report: pytest.TestReport) -> None:
    """Leave out the middle of texts that are too long to read."""
    report.sections = [(name, both_ends(text, MAX_SHOWN_CHARS)) for name, text in report.sections]
    if report.longrepr is not None and not report.skipped:
        shown = str(report.longrepr)
        if (short := both_ends(shown, MAX_SHOWN_CHARS)) != shown:
            report.longrepr = short


# Nor do properties replace the record.
MAX_DETAILS_NAMED = 100
MAX_NAME_CHARS = 200


def properties(record: TrialRecord) -> list[tuple[str, str | int | float | bool]]:
    """Return what JUnit and other reports get to know of a record, as plain scalars."""
    evaluation, dataset = record.evaluation, record.dataset
    found: dict[str, str | int | float | bool | None] = {
        "aec.task": record.task.task_id,
        "aec.agent": record.agent.name,
        "aec.repetition": record.repetition,
        "aec.reward": evaluation.reward,
        "aec.trial_id": record.trial_id,
        "aec.experiment": record.experiment_id,
        "aec.dataset": f"{dataset.name}@{dataset.version}" if dataset else None,
        "aec.evaluates": record.evaluates.trial_id if record.evaluates else None,
        "aec.domain": record.task.domain,
        "aec.difficulty": record.task.difficulty,
        "aec.backend": record.environment.backend,
        "aec.error": evaluation.error.cause if evaluation.error else None,
        "aec.cause": evaluation.cause,
        **{
            f"aec.detail.{name}": value
            for name, value in islice(evaluation.details.items(), MAX_DETAILS_NAMED)
            if len(name) <= MAX_NAME_CHARS
        },
    }
    return [(name, value) for name, value in found.items() if value is not None]
