"""Domains, difficulties and tags: each agent's rewards on parts of the tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import TABLE, cells
from pytest_aecbench.reports.html.blocks import (
    Cell,
    Chart,
    Fold,
    Note,
    Row,
    Section,
    Table,
    trials_link,
)
from pytest_aecbench.reports.html.charts import both, dots
from pytest_aecbench.reports.rankings import GROUPS, group_head
from pytest_aecbench.reports.summary import group_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures
    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.summary import Group

__all__ = ["groups"]

_MAX_TAGS = 20
_WORDS = {"domain": "domain", "difficulty": "difficulty", "tag": "tag"}


def groups(figures: Figures) -> Section:
    """Return the figures by domain, difficulty and tag."""
    blocks: list[Block] = []
    for by in ("domain", "difficulty"):
        found = {row.agent: GROUPS[by](row.summary) for row in figures.board.rows}
        blocks += _blocks(by, found)
    tagged, left_out = _by_tag(figures)
    blocks += _blocks("tag", tagged)
    if left_out:
        blocks.append(Note(f"{left_out} rarer tags are not shown."))
    return Section("groups", "Domains, difficulty, tags", blocks)


def _blocks(by: str, found: Mapping[str, Mapping[str, Group]]) -> Iterator[Block]:
    """Yield the chart and the table, if there is more than one group."""
    names = list(dict.fromkeys(name for of_agent in found.values() for name in of_agent))
    if len(names) < 2:
        if names:
            yield Note(f"All tasks have the same {_WORDS[by]}: {names[0]}.")
        return
    title = f"Mean reward by {_WORDS[by]}, with 95 % intervals over tasks"
    bands = [
        (name, [of_agent[name].mean if name in of_agent else None for of_agent in found.values()])
        for name in names
    ]
    if any(mean is not None for _, means in bands for mean in means):
        yield Chart(f"by-{by}", title, *both(dots, title, bands, list(found)))
    rows = [
        Row([agent, _name(by, name), *cells(TABLE, group)])
        for agent, of_agent in found.items()
        for name, group in of_agent.items()
    ]
    table = Table(f"by-{by}", f"By {_WORDS[by]}", group_head(by), rows, texts=2)
    yield Fold(f"Table by {_WORDS[by]}", [table])


def _name(by: str, name: str) -> Cell:
    return Cell(name, None if by == "tag" else trials_link(**{by: name}))


def _by_tag(figures: Figures) -> tuple[dict[str, dict[str, Group]], int]:
    """Return the figures of each agent by tag, and how many rarer tags are left out."""
    counts: Counter[str] = Counter()
    trials: dict[str, dict[str, list[TrialResult]]] = {
        row.agent: defaultdict(list) for row in figures.board.rows
    }
    for result in figures.final:
        for tag in set(figures.records_by_id[result.trial_id].task.tags):
            counts[tag] += 1
            trials[result.agent][tag].append(result)
    common = sorted(counts, key=lambda tag: (-counts[tag], tag))[:_MAX_TAGS]
    found = {
        agent: {tag: group_of(of_agent[tag]) for tag in sorted(common) if of_agent.get(tag)}
        for agent, of_agent in trials.items()
    }
    return found, len(counts) - len(common)
