"""A comparison of two experiments as lines of at most 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.reports.comparison import AgentComparison, Comparison

__all__ = ["comparison_lines", "comparison_notes"]

_PAIRED_BY = {
    "trial": "same task files, agent and repetition",
    "name": "same task files, repetition and agent's name, other settings",
    "task": "same task files and repetition, different agents",
}
_LISTED = 10
_NAME_WIDTH = 32


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison as a table, which tasks changed, and what it is made of."""
    yield f"{'agent':{_NAME_WIDTH}}  pairs before  after change   95 % interval"
    for agent in comparison.agents:
        yield _row(agent)
        for word, tasks in (("worse", agent.worse), ("better", agent.better)):
            for task in tasks[:_LISTED]:
                yield f"  {word}: {task.task_id} {task.before:.2f} to {task.after:.2f}"
            if len(tasks) > _LISTED:
                yield f"  {word}: {len(tasks) - _LISTED} more"
    yield from comparison_notes(comparison)


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield what was paired with what, and what was left out."""
    if not comparison.agents:
        yield f"nothing is compared: no trial of {comparison.after} pairs with one before"
    for paired_by, meaning in _PAIRED_BY.items():
        pairs = sum(agent.pairs for agent in comparison.agents if agent.paired_by == paired_by)
        if pairs:
            yield f"paired: {pairs} ({meaning})"
    for reason, count in sorted(comparison.left_out.items()):
        yield f"not compared: {count} {reason}"
    for task_id in comparison.changed_tasks[:_LISTED]:
        yield f"  changed: {task_id}"
    if (more := len(comparison.changed_tasks) - _LISTED) > 0:
        yield f"  changed: {more} more"


def _row(agent: AgentComparison) -> str:
    name = agent.name
    if len(name) > _NAME_WIDTH:
        name = name[: _NAME_WIDTH - 3] + "..."
    return (
        f"{name:{_NAME_WIDTH}} {agent.pairs:>6} {agent.before:>6.2f} {agent.after:>6.2f} "
        f"{agent.change:>+6.2f} {agent.bounds_text:>15}"
    )
