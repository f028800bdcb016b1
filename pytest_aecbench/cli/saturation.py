"""``aec-bench report saturation``: tasks that do not tell agents apart."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, check_choices, print_json, print_table
from pytest_aecbench.cli.filters import Filters, with_filters
from pytest_aecbench.cli.report import Holdout  # noqa: TC001  (typer reads it)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["saturation"]


@with_filters("experiment", "dataset", "domain", "task", "since")
def saturation(
    filters: Filters,
    holdout: Holdout = False,
    output_format: Annotated[
        str, typer.Option("--format", help="table, markdown, json or csv.")
    ] = "table",
    as_json: AsJson = False,
) -> None:
    """List the tasks that all agents pass, that none passes, or whose outcome is luck.

    Such tasks do not tell agents apart. The agents oracle, nop and replay do not count.

    Example: aec-bench report saturation --since 30d --format markdown
    """
    from pytest_aecbench.reports import markdown
    from pytest_aecbench.reports.columns import cells, data, heads
    from pytest_aecbench.reports.saturation import COLUMNS
    from pytest_aecbench.reports.saturation import saturation as judged

    check_choices([output_format], ("csv", "json", "markdown", "table"), "--format")
    found = judged(filters.entries(), holdout=holdout)
    rows = [{"task": task.task_id, **data(COLUMNS, task)} for task in found.tasks]
    if as_json or output_format == "json":
        print_json({"verdicts": found.verdicts, "tasks": rows, "not_counted": found.not_counted})
        return
    if output_format == "csv":
        _print_csv(("task", *(key for column in COLUMNS for key in column.data)), rows)
        return
    head = ("task", *heads(COLUMNS))
    if not found.tasks:
        typer.echo("no scored trials of agents to judge tasks by")
    elif output_format == "markdown":
        lines = ((markdown.code(task.task_id), *cells(COLUMNS, task)) for task in found.tasks)
        typer.echo(f"{markdown.table(head, lines)}\n")
    else:
        print_table(head, ((task.task_id, *cells(COLUMNS, task)) for task in found.tasks))
    for note in found.notes:
        typer.echo(note)


def _print_csv(columns: Sequence[str], rows: Sequence[dict[str, object]]) -> None:
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
