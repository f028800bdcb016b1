"""Summaries and comparisons as lines of text of at most 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import FIGURES, USED, cells, heads, number_text, p_text
from pytest_aecbench.reports.power import detectable_text
from pytest_aecbench.reports.summary import summarise
from pytest_aecbench.text import counted, duration_text, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_aecbench.reports.comparison import AgentComparison, Comparison
    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.statistics import Interval
    from pytest_aecbench.reports.summary import AgentSummary, Group

__all__ = [
    "comparison_lines",
    "comparison_notes",
    "design_text",
    "interval_text",
    "summary_lines",
]

NAME_WIDTH = 32


def summary_lines(results: Iterable[TrialResult], wall_sec: float) -> Iterator[str]:
    """Yield a table per agent, and what it used up."""
    summaries = summarise(results)
    yield _aligned("agent", heads(FIGURES))
    for summary in summaries:
        yield from _agent_lines(summary)
    yield f"wall time {duration_text(wall_sec)}"


def _agent_lines(summary: AgentSummary) -> Iterator[str]:
    trials = summary.overall.trials + (summary.holdout.trials if summary.holdout else 0)
    yield from _rows(summary.agent, summary.overall)
    for groups in (summary.by_domain, summary.by_difficulty):
        if len(groups) > 1:
            for name, group in groups.items():
                yield from _rows(f"  {name}", group)
    k = summary.repetitions
    if summary.pass_at_k is not None and summary.pass_hat_k is not None:
        tasks = counted(summary.pass_k_tasks, "task", summary.overall.tasks)
        yield f"  pass@{k} {summary.pass_at_k:.2f}, pass^{k} {summary.pass_hat_k:.2f} ({tasks})"
    if summary.attempts > trials:
        yield f"  {counted(summary.attempts, 'attempt')} at {counted(trials, 'trial')}"
    if summary.overall.causes:
        yield f"  errors, not scored: {_counts(summary.overall.causes)}"
    if summary.overall.bad_ends:
        yield f"  agents that failed: {_counts(summary.overall.bad_ends)}"
    if summary.holdout is not None:
        yield f"  held-out trials, not shown above: {summary.holdout.trials}"
    used = [f"{column.head} {column.text(summary)}" for column in USED]
    known = [text for text in used if not text.endswith(" -")]
    yield f"  {', '.join(known)}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _rows(name: str, group: Group) -> Iterator[str]:
    yield _aligned(name, cells(FIGURES, group))
    if group.errors:
        indent = " " * (len(name) - len(name.lstrip()) + 2)
        scored = counted(group.tasks_scored, "task", group.tasks)
        yield f"{indent}with errors as zeros: {number_text(group.errors_as_zeros)}, scored {scored}"


def _aligned(name: str, figures: Iterable[str]) -> str:
    right = (f"{text:>{column.width}}" for text, column in zip(figures, FIGURES, strict=True))
    return f"{_name(name)} {' '.join(right)}"


def _name(name: str) -> str:
    return shortened(name, NAME_WIDTH).ljust(NAME_WIDTH)


def interval_text(interval: Interval | None, width: int = 20, *, ascii_only: bool = False) -> str:
    """Return an interval from 0 to 1 as a drawing: its bounds, and its mean between them."""
    line, low, mean, high = "-[|]" if ascii_only else "─├┼┤"
    if interval is None:
        return ""
    drawn = [line] * width
    # The mean is drawn last, because it is never left out.
    for value, char in ((interval.low, low), (interval.high, high), (interval.mean, mean)):
        drawn[min(int(value * width), width - 1)] = char
    return "".join(drawn)


_PAIRED_BY = {
    "trial": "same task files, agent and repetition",
    "name": "same task files, repetition and agent's name, other settings",
    "task": "same task files and repetition, different agents",
}
_LISTED = 10


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison as a table, which tasks changed, and what it is made of."""
    yield f"{'agent':{NAME_WIDTH}} pairs before  after change  95 % interval     p"
    for agent in comparison.agents:
        yield _comparison_row(agent)
        yield f"  {design_text(agent)}"
        for word, tasks in (("worse", agent.worse), ("better", agent.better)):
            for task in tasks[:_LISTED]:
                yield f"  {word}: {task.task_id} {task.before:.2f} to {task.after:.2f}"
            if len(tasks) > _LISTED:
                yield f"  {word}: {len(tasks) - _LISTED} more"
    yield from comparison_notes(comparison)


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield what was paired with what, and what was left out."""
    if not comparison.agents and not comparison.unscored:
        yield f"nothing is compared: no trial of {comparison.after} pairs with one before"
    for paired_by, meaning in _PAIRED_BY.items():
        pairs = sum(agent.pairs for agent in comparison.agents if agent.paired_by == paired_by)
        if pairs:
            yield f"paired: {pairs} ({meaning})"
    for name in comparison.unscored:
        yield f"{shortened(name, NAME_WIDTH)}: no pair has two rewards"
    for reason, count in sorted(comparison.left_out.items()):
        yield f"not compared: {count} {reason}"
    for task_id in comparison.changed_tasks[:_LISTED]:
        yield f"  changed: {task_id}"
    if (more := len(comparison.changed_tasks) - _LISTED) > 0:
        yield f"  changed: {more} more"


def _comparison_row(agent: AgentComparison) -> str:
    return (
        f"{_name(agent.name)} {agent.pairs:>5} {agent.before:>6.2f} {agent.after:>6.2f} "
        f"{agent.change:>+6.2f} {agent.bounds_text} {p_text(agent.p):>5}"
    )


def design_text(agent: AgentComparison) -> str:
    """Return what the comparison is likely to find."""
    tasks = len(agent.tasks)
    return f"{counted(tasks, 'task')}: {detectable_text(tasks, agent.least_detectable)}"
