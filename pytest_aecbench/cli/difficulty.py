"""``aec-bench report difficulty``: declared difficulties against rewards in the ledger."""

from __future__ import annotations

import typer

from pytest_aecbench.cli.console import AsJson, print_json, print_table
from pytest_aecbench.cli.filters import Filters, with_filters

__all__ = ["difficulty"]


@with_filters("experiment", "agent", "dataset", "since")
def difficulty(filters: Filters, as_json: AsJson = False) -> None:
    """Compare the declared difficulty of generated tasks with their rewards.

    Templates whose levels do not differ are named, because such levels say nothing.

    Example: aec-bench report difficulty --experiment nightly
    """
    from pytest_aecbench.reports.difficulty import LEVELS, difficulties
    from pytest_aecbench.reports.results import TrialResult

    found = difficulties(TrialResult.from_record(record) for record in filters.entries())
    if as_json:
        data = [
            {
                "template": one.template,
                "verdict": one.verdict,
                "means": one.means,
                "tasks": one.tasks,
                "differences": one.differences,
            }
            for one in found
        ]
        print_json(data)
        return
    if not found:
        typer.echo("no generated tasks with rewards")
        return
    rows = [
        (
            one.template,
            *(f"{one.means[level]:.2f}" if level in one.means else "-" for level in LEVELS),
            sum(one.tasks.values()),
            one.verdict,
        )
        for one in found
    ]
    print_table(("template", *LEVELS, "tasks", "levels"), rows)
    for one in found:
        if one.verdict in ("do not differ", "reversed"):
            for pair in one.differences:
                if pair.low <= 0:
                    change = f"{pair.value:+.2f} ({pair.low:+.2f} to {pair.high:+.2f})"
                    typer.echo(f"{one.template}: {pair.easier} less {pair.harder} is {change}")
