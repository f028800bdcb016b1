"""Compare: what changed since the baseline, as ``report compare`` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import number_text, p_text
from pytest_aecbench.reports.html.blocks import (
    Cell,
    Chart,
    Fold,
    Note,
    Row,
    Section,
    Table,
    task_link,
)
from pytest_aecbench.reports.html.charts import slopes
from pytest_aecbench.reports.text import comparison_notes, design_text
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.reports.comparison import AgentComparison, Comparison
    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures

__all__ = ["compare"]

_LINES = 400
_LISTED = 200


def compare(figures: Figures) -> Section | None:
    """Return the comparison; None without a baseline."""
    comparison = figures.source.comparison
    if comparison is None:
        return None
    blocks: list[Block] = []
    if comparison.agents:
        blocks.append(_table(comparison))
    for agent in comparison.agents:
        blocks += _agent_blocks(comparison, agent)
    blocks += [Note(note.strip()) for note in comparison_notes(comparison)]
    if comparison.changed_tasks:
        tasks = [Note(task) for task in comparison.changed_tasks[:_LISTED]]
        blocks.append(Fold(f"Changed tasks: {len(comparison.changed_tasks)}", tasks))
    return Section(
        "compare",
        "Compare",
        blocks,
        f"{comparison.after} compared with {comparison.before}, trial by trial.",
    )


def _table(comparison: Comparison) -> Table:
    return Table(
        "compare",
        f"Change of each agent since {comparison.before}",
        ("agent", "change", "95 % interval", "SE", "p", "before", "after", "pairs"),
        [
            Row(
                [
                    agent.name,
                    Cell(f"{agent.change:+.2f}", kind=_direction(agent.change)),
                    agent.bounds_text,
                    number_text(agent.standard_error),
                    p_text(agent.p),
                    f"{agent.before:.2f}",
                    f"{agent.after:.2f}",
                    f"{agent.pairs}",
                ]
            )
            for agent in comparison.agents
        ],
    )


def _direction(change: float) -> str:
    return "worse" if change < 0 else "better" if change > 0 else ""


def _agent_blocks(comparison: Comparison, agent: AgentComparison) -> Iterator[Block]:
    yield Note(f"{agent.name}: {design_text(agent)}")
    changed = [*agent.worse, *agent.better]
    if not changed:
        yield Note(f"{agent.name}: no task changed.")
        return
    title = f"{agent.name}: reward of each task before and after"
    lines = [(task.task_id, task.before, task.after) for task in agent.tasks]
    # Those that changed are the last to be drawn, and the last to be left out.
    lines.sort(key=lambda line: abs(line[2] - line[1]))
    names = (comparison.before, comparison.after)
    drawn = slopes(title, names, lines[-_LINES:])
    yield Chart(f"slopes-{agent.name}", title, drawn, kind="small")
    yield Table(
        f"changed-{agent.name}",
        f"{agent.name}: tasks that changed, worse first",
        ("task", "change", "before", "after", "pairs"),
        [
            Row(
                [
                    Cell(task.task_id, task_link(task.task_id)),
                    Cell(f"{task.change:+.2f}", kind=_direction(task.change)),
                    f"{task.before:.2f}",
                    f"{task.after:.2f}",
                    f"{task.pairs}",
                ]
            )
            for task in changed[:_LISTED]
        ],
        kind="beside",
    )
    if (more := len(changed) - _LISTED) > 0:
        yield Note(f"{agent.name}: {counted(more, 'more task')} changed.")
