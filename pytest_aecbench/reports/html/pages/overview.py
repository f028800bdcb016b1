"""Overview: verdict of the gate, counts, cost and time, what was run, and what went wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_aecbench.ledger.query import outcome_of
from pytest_aecbench.reports.html.blocks import Facts, Fold, Note, Section, Tiles
from pytest_aecbench.reports.rankings import board_notes
from pytest_aecbench.text import counted, duration_text, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_aecbench.ledger.entry import Recorded
    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures

__all__ = ["overview"]

_LISTED = 20


def overview(figures: Figures) -> Section:
    """Return the page that is seen first."""
    source = figures.source
    blocks: list[Block] = []
    if source.verdict is not None:
        kind = "good" if source.verdict.passed else "bad"
        word = "passed" if source.verdict.passed else "failed"
        blocks.append(Note(f"The gate {word}.", f"verdict {kind}"))
        blocks += [Note(line, f"line {_line_kind(line)}") for line in source.verdict.lines]
    blocks.append(_tiles(figures))
    if source.has_results and not source.is_served:
        words = "answers and outputs; publish with --include=figures"
        blocks.append(Note(f"This page contains {words}.", "warn"))
    if figures.attempts:
        blocks.append(Facts([*_facts(figures.attempts)]))
    else:
        blocks.append(Note("No trial has a record yet." if source.is_served else "No trials."))
    blocks += [Note(note) for note in board_notes(figures.board, printable)]
    blocks += _warnings(figures)
    blocks += [Note(f"{problem}; skipped", "warn") for problem in source.problems[:_LISTED]]
    if (more := len(source.problems) - _LISTED) > 0:
        damaged = counted(more, "more file")
        blocks.append(Note(f"{damaged} of the ledger cannot be read as records", "warn"))
    return Section("overview", "Overview", blocks)


def _line_kind(line: str) -> str:
    """Return the style of a verdict's line by its last words."""
    if line.endswith(": holds") or " did not regress " in line:
        return "good"
    return "bad" if line.endswith("does not hold") or " regressed " in line else "warn"


def _tiles(figures: Figures) -> Tiles:
    final = [figures.records_by_id[result.trial_id] for result in figures.final]
    outcomes = Counter(outcome_of(record) for record in final)
    summaries = [row.summary for row in figures.board.rows]
    usd = [summary.usd for summary in summaries]
    known, of = sum(total.known for total in usd), sum(total.of for total in usd)
    spent = sum(total.value for total in usd if total.value is not None)
    partly = "" if known == of else f"known for {known} of {counted(of, 'attempt')}"
    tiles = [
        ("trials", f"{len(final)}", counted(figures.board.tasks, "task"), ""),
        _outcome("passed", outcomes["passed"], _share(outcomes["passed"], len(final)), "good"),
        _outcome("failed", outcomes["failed"], _share(outcomes["failed"], len(final)), "bad"),
        _outcome("errors", outcomes["error"], "not scored", "warn"),
    ]
    if outcomes["unverified"]:
        tiles.append(("unverified", f"{outcomes['unverified']}", "not scored", ""))
    if figures.source.not_run:
        tiles.append(("not run", f"{figures.source.not_run}", "", "warn"))
    if figures.counted.held_out:
        tiles.append(("held out", f"{figures.counted.held_out}", "counted, not shown", ""))
    tiles.append(
        ("cost in USD", f"{spent:,.2f}" if known else "unknown", partly if known else "", "")
    )
    total_sec = sum(summary.duration_sec for summary in summaries)
    tiles.append(("trial time", duration_text(total_sec), _wall(figures.attempts), ""))
    return Tiles(tiles)


def _outcome(name: str, count: int, remark: str, kind: str) -> tuple[str, str, str, str]:
    """Return a figure that has its colour if it is not 0."""
    return name, f"{count}", remark, kind if count else ""


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else ""


def _wall(records: Sequence[Recorded]) -> str:
    if not records:
        return ""
    started = min(record.timing.started_at for record in records)
    ended = max(record.timing.finished_at for record in records)
    return f"{duration_text(max(0.0, (ended - started).total_seconds()))} from first to last"


def _facts(records: Sequence[Recorded]) -> Iterator[tuple[str, str]]:
    yield "experiments", _list(record.experiment_id for record in records)
    datasets = {
        f"{record.dataset.name}@{record.dataset.version}"
        f"{' (drifted)' if record.dataset.drifted else ''}"
        for record in records
        if record.dataset is not None
    }
    yield "datasets", _list(datasets) if datasets else "none"
    yield "agents", _list(_agent(record) for record in records)
    yield "backends", _list(record.environment.backend for record in records)
    first = min(record.timing.started_at for record in records)
    last = max(record.timing.finished_at for record in records)
    yield "when", f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
    yield "pytest-aecbench", _list(record.harness_version for record in records)


def _agent(record: Recorded) -> str:
    agent = record.agent
    model = f", {agent.model}" if agent.model else ""
    return f"{agent.name} ({agent.harness}{model})"


def _list(values: Iterable[str]) -> str:
    found = sorted({shortened(value, 120) for value in values})
    more = len(found) - _LISTED
    return "; ".join([*found[:_LISTED], f"{more} more"] if more > 0 else found)


def _warnings(figures: Figures) -> Iterator[Block]:
    found = Counter(warning for record in figures.attempts for warning in record.warnings)
    if not found:
        return
    attempts = sum(bool(record.warnings) for record in figures.attempts)
    title = f"Warnings in {counted(attempts, 'attempt')}"
    if not figures.source.has_results:
        yield Note(f"{title}.")
        return
    common = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_LISTED]
    yield Fold(title, [Note(f"{count} × {shortened(text, 300)}") for text, count in common])
