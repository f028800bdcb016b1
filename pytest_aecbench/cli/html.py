"""``aec-bench report html``: experiments as one HTML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import (
    AsJson,
    check_choices,
    print_json,
    print_problem,
    project_settings,
)
from pytest_aecbench.cli.report import Holdout, Mounted  # noqa: TC001  (typer reads them)
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.reports.comparison import Comparison
    from pytest_aecbench.settings.model import Settings

__all__ = ["html"]

_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


def html(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPERIMENT...", help="Ids of experiments (default: the latest)."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path(
        "report.html"
    ),
    baseline: Annotated[
        str | None, typer.Option(metavar="ID", help="Compare with an earlier experiment.")
    ] = None,
    include: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="figures (tables and plots, safe to publish), results (also parts of rewards, "
            "errors and outputs) or all (also instructions, trajectories and files).",
        ),
    ] = "all",
    max_size: Annotated[
        str, typer.Option(help="Leave out details of trials above this size.")
    ] = "15MB",
    holdout: Holdout = False,
    mounted: Mounted = False,
    as_json: AsJson = False,
) -> None:
    """Write experiments as one HTML file that opens in any browser, without a network.

    Example: aec-bench report html nightly --baseline last-week -o nightly.html
    """
    from pytest_aecbench.reports.html.page import render
    from pytest_aecbench.reports.html.source import LEVELS
    from pytest_aecbench.reports.html.writing import write_page
    from pytest_aecbench.trials.reporting import report_source

    check_choices([include], LEVELS, "--include")
    max_bytes = _size(max_size)
    settings = project_settings()
    records, problems = _load(settings, experiments or ["latest"])
    for problem in problems:
        print_problem(f"{problem}; skipped")
    comparison = _comparison(settings, baseline, records, holdout=holdout) if baseline else None
    source = report_source(
        settings,
        records,
        include=include,
        holdout=holdout,
        mounted=mounted,
        problems=problems,
        comparison=comparison,
    )
    page = render(source, max_bytes=max_bytes)
    line = write_page(output, page)
    if as_json:
        sizes = {"attempts": page.trials, "detailed": page.detailed, "bytes": len(page.text)}
        print_json({"file": str(output), **sizes})
    else:
        typer.echo(line)


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMG]?B?)", text)
    unit = found[2].upper().removesuffix("B") + "B" if found else ""
    if found is None or unit not in _UNITS:
        raise SettingsError(
            f"--max-size: {text!r} is not a size; use one such as '15MB' or '800kB'"
        )
    return round(float(found[1]) * _UNITS[unit])


def _load(settings: Settings, names: list[str]) -> tuple[list[TrialRecord], list[str]]:
    from pytest_aecbench.ledger.store import Ledger
    from pytest_aecbench.settings.resolve import find_experiment

    root = settings.ledger_root
    chosen = dict.fromkeys(find_experiment(root, name, "EXPERIMENT") for name in names)
    records: list[TrialRecord] = []
    problems: list[str] = []
    for experiment in chosen:
        loaded = Ledger(root).load(experiment)
        records += loaded.records
        problems += map(str, loaded.problems)
    if not records:
        raise SettingsError(f"EXPERIMENT: {names[0]!r} has no records; name one that has")
    return records, problems


def _comparison(
    settings: Settings, baseline: str, records: list[TrialRecord], *, holdout: bool
) -> Comparison:
    from pytest_aecbench.reports.comparison import compare
    from pytest_aecbench.reports.results import TrialResult

    before, _ = _load(settings, [baseline])
    earlier = before[0].experiment_id
    names = sorted({record.experiment_id for record in records})
    if earlier in names:
        raise SettingsError(f"--baseline: {earlier!r} is compared with itself; name another one")
    sides = ([TrialResult.from_record(record) for record in side] for side in (before, records))
    return compare(*sides, names=(earlier, ", ".join(names)), holdout=holdout)
