"""Errors: attempts that infrastructure broke, by cause; they are never scored."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_aecbench.reports.html.blocks import (
    Cell,
    Note,
    Row,
    Section,
    Table,
    trial_link,
    trials_link,
)
from pytest_aecbench.text import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.ledger.entry import Recorded
    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures

__all__ = ["errors", "folded"]

_MESSAGES = 20
_HEX = re.compile(r"\b[0-9a-f]{7,}(?:-[0-9a-f]{4,})*\b|\d+")


def errors(figures: Figures) -> Section:
    """Return the counts of errors, and their commonest messages."""
    broken = [record for record in figures.attempts if record.evaluation.error is not None]
    blocks: list[Block] = []
    if not broken:
        blocks.append(Note("No attempt ended in an error.", "good"))
    else:
        blocks.append(_by_agent(figures))
        blocks.append(_by_place(figures, broken))
        if figures.source.has_results:
            blocks.append(_messages(broken))
        if saved := _saved(figures, broken):
            blocks.append(Note(f"{counted(saved, 'error')} did not matter: a retry was scored."))
    return Section(
        "errors",
        "Errors",
        blocks,
        "The infrastructure broke, not the agent: these attempts have no reward.",
    )


def _by_agent(figures: Figures) -> Table:
    """Return the errors of final attempts, as summaries count them."""
    rows = figures.board.rows
    causes = sorted({cause for row in rows for cause in row.summary.overall.causes})
    return Table(
        "errors",
        "Trials that ended in an error, by cause and agent",
        ("cause", *(row.agent for row in rows)),
        [
            Row(
                [
                    Cell(cause, trials_link(outcome="error", cause=cause)),
                    *(f"{row.summary.overall.causes.get(cause, 0) or ''}" for row in rows),
                ]
            )
            for cause in causes
        ],
    )


def _by_place(figures: Figures, broken: Sequence[Recorded]) -> Table:
    found: Counter[tuple[str, str, str, str]] = Counter()
    for record in broken:
        error = record.evaluation.error
        assert error is not None
        day = f"{record.timing.started_at:%Y-%m-%d}"
        found[error.cause, error.phase or "-", record.environment.backend, day] += 1
    return Table(
        "error-places",
        "Attempts that ended in an error, retried ones included",
        ("cause", "phase", "backend", "day", "attempts"),
        [Row([*key, f"{count}"]) for key, count in sorted(found.items())],
        texts=4,
    )


def folded(message: str) -> str:
    """Return a message without what differs from one error to the next: digits and ids."""
    return shortened(_HEX.sub(_without_digits, " ".join(message.split())), 200)


def _without_digits(found: re.Match[str]) -> str:
    return "…" if any(map(str.isdecimal, found[0])) else found[0]


def _messages(broken: Sequence[Recorded]) -> Table:
    examples: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
    for record in broken:
        assert record.evaluation.error is not None
        error = record.evaluation.error
        examples[error.cause, folded(error.message)].append(record)
    common = sorted(examples.items(), key=lambda item: (-len(item[1]), item[0]))[:_MESSAGES]
    return Table(
        "error-messages",
        "The commonest messages, without digits and ids",
        ("cause", "message", "example", "attempts"),
        [
            Row([cause, message, _example(found[0]), f"{len(found)}"])
            for (cause, message), found in common
        ],
        texts=3,
        kind="wrapped",
    )


def _example(record: Recorded) -> Cell:
    return Cell(record.trial_id[:8], trial_link(record.trial_id))


def _saved(figures: Figures, broken: Sequence[Recorded]) -> int:
    """Return how many of these attempts were followed by one at the same trial with a score."""
    scored = {
        (record.experiment_id, record.trial_key) for record in figures.attempts if record.scored
    }
    return sum((record.experiment_id, record.trial_key) in scored for record in broken)
