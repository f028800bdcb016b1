"""``aec-bench report``: summaries, rankings and comparisons of records."""

from __future__ import annotations

import csv
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, check_choices, print_json, print_table
from pytest_aecbench.cli.filters import Filters, with_filters
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.reports.leaderboard import Leaderboard, Row
    from pytest_aecbench.reports.summary import Group

__all__ = ["ExperimentName", "Holdout", "Mounted", "app", "records_of"]

app = typer.Typer(help="Summaries, rankings and comparisons of results.", no_args_is_help=True)

# Columns of a terminal that has room for drawings.
_WIDE = 120

Holdout = Annotated[bool, typer.Option("--holdout", help="Include held-out tasks.")]
Mounted = Annotated[
    bool, typer.Option("--mounted", help="Also count trials that ran with --aec-mount.")
]
ExperimentName = Annotated[str, typer.Argument(help="An experiment's id, or 'latest'.")]


def records_of(experiment: str) -> list[Entry]:
    """Return the records of an experiment, which has some."""
    if records := Filters(experiment).entries("EXPERIMENT"):
        return records
    raise SettingsError(f"EXPERIMENT: {experiment!r} has no records; name one that has")


@app.command()
def summary(
    experiment: ExperimentName = "latest",
    output_format: Annotated[
        str, typer.Option("--format", help="table, markdown or json.")
    ] = "table",
    as_json: AsJson = False,
) -> None:
    """Summarise an experiment, as pytest does at the end of a run.

    Example: aec-bench report summary nightly --format markdown
    """
    from pytest_aecbench.reports.leaderboard import newest_versions
    from pytest_aecbench.reports.markdown import markdown_summary
    from pytest_aecbench.reports.rankings import set_aside_notes
    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.summary import summarise
    from pytest_aecbench.reports.text import summary_lines

    check_choices([output_format], ("json", "markdown", "table"), "--format")
    records = records_of(experiment)
    name = records[0].experiment_id
    counted, set_aside = newest_versions(records)
    results = [TrialResult.from_record(record) for record in counted]
    started = min(record.timing.started_at for record in records)
    wall_sec = max(0.0, (max(r.timing.finished_at for r in records) - started).total_seconds())
    if as_json or output_format == "json":
        agents = [asdict(one) for one in summarise(results)]
        print_json({"experiment": name, "agents": agents, "set_aside": set_aside})
        return
    if output_format == "markdown":
        typer.echo(markdown_summary(results, experiment_id=name, wall_sec=wall_sec), nl=False)
    else:
        typer.echo(f"aec: {name}")
        for line in summary_lines(results, wall_sec):
            typer.echo(line)
    for note in set_aside_notes(set_aside):
        typer.echo(note)


@app.command("leaderboard")
@with_filters("experiment", "dataset", "domain", "since")
def rank_agents(
    filters: Filters,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help="Also by domain or difficulty; repeat it for both."),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            help="The k of pass@k (default: the largest that all agents have trials for).",
        ),
    ] = None,
    holdout: Holdout = False,
    mounted: Mounted = False,
    output_format: Annotated[
        str, typer.Option("--format", help="table, markdown, json or csv.")
    ] = "table",
    as_json: AsJson = False,
) -> None:
    """Rank agents over all their trials, one row for each; errors are counted separately.

    Only the newest version of each task counts; records of earlier ones are listed.

    Example: aec-bench report leaderboard --by domain --format markdown
    """
    from pytest_aecbench.reports.leaderboard import counted_attempts, rank
    from pytest_aecbench.reports.markdown import code
    from pytest_aecbench.reports.rankings import GROUPS, board_notes

    check_choices([output_format], ("csv", "json", "markdown", "table"), "--format")
    check_choices(by or (), tuple(GROUPS), "--by")
    if k is not None and k < 1:
        raise SettingsError(f"--k: {k!r} is not valid; use a whole number from 1")
    # Nothing else holds the entries, so that they can be let go while they are counted.
    board = rank(counted_attempts(filters.entries(), holdout=holdout, mounted=mounted), k=k)
    groups = sorted(set(by or ()))
    if as_json or output_format == "json":
        print_json(_board_data(board, groups))
    elif output_format == "csv":
        _print_csv(board, groups)
    elif not board.rows:
        typer.echo("no trials to rank")
    elif output_format == "markdown":
        _print_markdown(board, groups)
    else:
        _print_board(board, groups)
    if not as_json and output_format in ("markdown", "table"):
        for note in board_notes(board, code if output_format == "markdown" else printable):
            typer.echo(note)


def _print_board(board: Leaderboard, groups: Sequence[str]) -> None:
    from pytest_aecbench.reports.rankings import (
        board_cells,
        board_head,
        group_head,
        group_rows,
        pair_head,
        pair_rows,
    )

    head = board_head(board)
    rows = [board_cells(board, one) for one in board.rows]
    if shutil.get_terminal_size().columns >= _WIDE:
        head = (head[0], "0 to 1", *head[1:])
        rows = [(row[0], _strip(one), *row[1:]) for row, one in zip(rows, board.rows, strict=True)]
    print_table(head, rows)
    for by in groups:
        typer.echo()
        print_table(group_head(by), group_rows(board, by))
    if board.pairs:
        typer.echo()
        print_table(pair_head(), pair_rows(board))


def _strip(row: Row) -> str:
    """Return an agent's interval as the terminal can draw it."""
    from pytest_aecbench.reports.text import interval_text

    drawn = interval_text(row.summary.overall.mean)
    try:
        drawn.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return interval_text(row.summary.overall.mean, ascii_only=True)
    return drawn


def _print_markdown(board: Leaderboard, groups: Sequence[str]) -> None:
    from pytest_aecbench.reports.markdown import code, table
    from pytest_aecbench.reports.rankings import (
        board_cells,
        board_head,
        group_head,
        group_rows,
        pair_head,
        pair_rows,
    )

    rows = (board_cells(board, one) for one in board.rows)
    typer.echo(table(board_head(board), ((code(name), *rest) for name, *rest in rows)))
    more = [(group_head(by), group_rows(board, by)) for by in groups]
    if board.pairs:
        more.append((pair_head(), pair_rows(board)))
    for head, found in more:
        named = ((code(name), code(second), *rest) for name, second, *rest in found)
        typer.echo(f"\n{table(head, named)}")
    typer.echo()


def _board_data(board: Leaderboard, groups: Sequence[str]) -> dict[str, object]:
    from pytest_aecbench.reports.columns import PAIRED, data
    from pytest_aecbench.reports.rankings import GROUPS

    return {
        "k": board.k,
        "tasks": board.tasks,
        "agents": [
            {
                **_row_data(row),
                **{
                    f"by_{by}": {
                        name: _group_data(group) for name, group in GROUPS[by](row.summary).items()
                    }
                    for by in groups
                },
            }
            for row in board.rows
        ],
        "pairs": [
            {"agent": pair.agent, "other": pair.other, **data(PAIRED, pair)} for pair in board.pairs
        ],
        "set_aside": board.set_aside,
        "held_out": board.held_out,
        "mounted": board.mounted,
    }


def _row_data(row: Row) -> dict[str, object]:
    from pytest_aecbench.reports.columns import USED, data

    return {
        "agent": row.agent,
        "experiments": row.experiments,
        **_group_data(row.summary.overall),
        "missing": row.missing,
        "pass_at_k": row.pass_at_k,
        "pass_k_tasks": row.pass_k_tasks,
        **data(USED, row.summary),
    }


def _group_data(group: Group) -> dict[str, object]:
    from pytest_aecbench.reports.columns import TABLE, data

    return data(TABLE, group)


def _print_csv(board: Leaderboard, groups: Sequence[str]) -> None:
    """Print a row per agent and, if requested, one per group of its trials."""
    from pytest_aecbench.reports.rankings import GROUPS

    rows = []
    for row in board.rows:
        rows.append({**_row_data(row), "k": board.k})
        for by in groups:
            for name, group in GROUPS[by](row.summary).items():
                rows.append({"agent": row.agent, "by": by, "group": name, **_group_data(group)})
    columns = ["agent", "by", "group", *dict.fromkeys(key for one in rows for key in one)]
    writer = csv.DictWriter(sys.stdout, list(dict.fromkeys(columns)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


@app.command("compare")
def compare_experiments(
    before: Annotated[str, typer.Argument(metavar="A", help="The earlier experiment.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The later experiment.")],
    holdout: Holdout = False,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="Exit with 1 if an agent's rewards fell by more than chance explains, or if that "
            "cannot be told.",
        ),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(help="With --fail-on-regression, fail only on falls of more than this."),
    ] = None,
    max_error_rate: Annotated[
        float | None,
        typer.Option(
            help="With --fail-on-regression, the share of scores that may be missing "
            "(default 0.05).",
        ),
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", help="table, markdown or json.")
    ] = "table",
    as_json: AsJson = False,
) -> None:
    """Compare two experiments, trial by trial, and list the tasks that got better or worse.

    Example: aec-bench report compare nightly-1 nightly-2 --fail-on-regression
    """
    from pytest_aecbench.reports.comparison import compare, judge_regression
    from pytest_aecbench.reports.markdown import comparison_blocks
    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.scores import MAX_MISSING
    from pytest_aecbench.reports.text import comparison_lines

    check_choices([output_format], ("json", "markdown", "table"), "--format")
    for option, share in (("--tolerance", tolerance), ("--max-error-rate", max_error_rate)):
        if share is not None and not 0 <= share <= 1:
            raise SettingsError(f"{option}: {share!r} is not valid; use a number from 0 to 1")
        if share is not None and not fail_on_regression:
            raise SettingsError(f"{option}: has no effect by itself; add --fail-on-regression")
    sides = (records_of(before), records_of(after))
    names = (sides[0][0].experiment_id, sides[1][0].experiment_id)
    if names[0] == names[1]:
        raise SettingsError(f"B: {names[1]!r} is compared with itself; name another experiment")
    old, new = ([TrialResult.from_record(record) for record in side] for side in sides)
    comparison = compare(old, new, names=names, holdout=holdout)
    if as_json or output_format == "json":
        print_json(asdict(comparison))
    elif output_format == "markdown":
        typer.echo("\n\n".join(comparison_blocks(comparison)))
    else:
        typer.echo(f"aec: {names[1]} compared with {names[0]}")
        for line in comparison_lines(comparison):
            typer.echo(line)
    if not fail_on_regression:
        return
    if not comparison.agents and not comparison.unscored:
        raise SettingsError(f"B: no trial of {names[1]!r} pairs with one of {names[0]!r}")
    max_missing = MAX_MISSING if max_error_rate is None else max_error_rate
    verdict = judge_regression(comparison, tolerance, max_missing)
    for line in verdict.lines:
        typer.echo(f"aec-bench: {line}", err=True)
    if not verdict.passed:
        raise typer.Exit(1)
