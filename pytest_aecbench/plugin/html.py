"""``--aec-html``: the experiment as one HTML file, written at the end of the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.results import results_of
from pytest_aecbench.plugin.state import has_trials, settings_of, state_of

if TYPE_CHECKING:
    from pytest_aecbench.plugin.results import Results


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the file, and say what is in it or why it could not be written."""
    results = results_of(config)
    if results is None or not has_trials(config) or not settings_of(config).html:
        return
    from pytest_aecbench.errors import AecBenchError

    try:
        line = _write(config, results)
    except AecBenchError as error:
        line = f"aec: {error}"
    terminalreporter.write_line(line)


def _write(config: pytest.Config, results: Results) -> str:
    # Imported here because most runs write no page.
    from pytest_aecbench.ledger.store import Ledger
    from pytest_aecbench.reports.html.page import render
    from pytest_aecbench.reports.html.writing import write_page
    from pytest_aecbench.trials.reporting import report_source

    settings, state = settings_of(config), state_of(config)
    assert settings.html
    loaded = Ledger(settings.ledger_root).load(settings.experiment_id)
    source = report_source(
        settings,
        loaded.records,
        problems=[str(problem) for problem in loaded.problems],
        comparison=state.comparison,
        verdict=state.verdict,
        not_run=results.not_run,
        # The run was asked for with these files, and its summary counts its trials.
        mounted=bool(settings.mounts),
    )
    return write_page(Path(settings.root, settings.html), render(source))
