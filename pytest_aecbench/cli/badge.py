"""``aec-bench report badge``: one figure of an experiment as a badge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, check_choices
from pytest_aecbench.cli.report import ExperimentName, Holdout, records_of
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from pytest_aecbench.reports.leaderboard import Leaderboard, Row

__all__ = ["badge"]


def badge(
    experiment: ExperimentName = "latest",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file (default: the terminal).")
    ] = None,
    metric: Annotated[str, typer.Option(help="mean, pass@1 or tasks.")] = "mean",
    agent: Annotated[
        str | None, typer.Option(help="Whose figure; needed if there are several agents.")
    ] = None,
    holdout: Holdout = False,
    output_format: Annotated[
        str, typer.Option("--format", help="svg, or json for shields' endpoint.")
    ] = "svg",
    as_json: AsJson = False,
) -> None:
    """Write one figure of an experiment as an SVG that loads nothing.

    Example: aec-bench report badge nightly --metric pass@1 -o pass.svg
    """
    from pytest_aecbench.reports.badge import METRICS, badge_of
    from pytest_aecbench.reports.leaderboard import leaderboard

    check_choices([metric], METRICS, "--metric")
    check_choices([output_format], ("json", "svg"), "--format")
    board = leaderboard(records_of(experiment), holdout=holdout)
    made = badge_of(board, _row(board, agent), metric)
    is_json = as_json or output_format == "json"
    text = f"{json.dumps(made.to_json())}\n" if is_json else made.to_svg()
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{output}: cannot be written, {error.strerror}") from None


def _row(board: Leaderboard, agent: str | None) -> Row:
    rows = {row.agent: row for row in board.rows}
    if agent is None and len(rows) == 1:
        return board.rows[0]
    if not rows:
        raise SettingsError("EXPERIMENT: has no trial of a public task; --holdout counts others")
    if agent is None:
        names = ", ".join(map(repr, sorted(rows)))
        raise SettingsError(f"--agent: is needed, because there are several; use one of {names}")
    if agent not in rows:
        raise SettingsError(f"--agent: {agent!r} has no trial; {did_you_mean(agent, rows)}")
    return rows[agent]
