"""Timeline: when attempts ran, in which phase, and how many at once."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from pytest_aecbench.reports.html.blocks import Chart, Note, Row, Section, Table
from pytest_aecbench.reports.html.charts import both
from pytest_aecbench.reports.html.timeline import PHASES, Attempts, timeline, usage
from pytest_aecbench.text import counted, duration_text

if TYPE_CHECKING:
    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures

__all__ = ["times"]


def times(figures: Figures) -> Section:
    """Return the lanes, the attempts at once, and the sums of phases."""
    timings = [record.timing for record in figures.attempts]
    blocks: list[Block] = []
    if timings:
        title = "Attempts over time, by phase"
        attempts = Attempts(timings)
        blocks.append(Chart("timeline", title, *both(timeline, title, attempts)))
        title = "Attempts at once, by phase"
        blocks.append(Chart("usage", title, *both(usage, title, attempts)))
        if attempts.is_binned:
            blocks.append(Note("Each column of a lane shows the phase that took most of it."))
        if gaps_sec := attempts.clock.gaps_sec:
            gaps = counted(len(gaps_sec), "time")
            idle = duration_text(math.fsum(gaps_sec))
            blocks.append(Note(f"Left out: {gaps} without an attempt, {idle} in all."))
    blocks.append(_sums(figures))
    return Section("timeline", "Timeline", blocks)


def _sums(figures: Figures) -> Table:
    rows = []
    for phase in (*PHASES[:-1], "model_wait"):
        found = [
            seconds
            for record in figures.attempts
            if (seconds := getattr(record.timing, phase)) is not None
        ]
        if found:
            name = "waits for models, within agent" if phase == "model_wait" else phase
            shown = (math.fsum(found), median(found), max(found))
            rows.append(Row([name, f"{len(found)}", *map(duration_text, shown)]))
    return Table(
        "phases",
        "Time by phase, over all attempts",
        ("phase", "attempts", "sum", "median", "longest"),
        rows,
    )
