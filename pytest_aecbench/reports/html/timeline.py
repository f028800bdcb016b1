"""Attempts in lanes over time, by phase: who used the slots, what was waited for, and the tail."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_aecbench.reports.html.svg import Svg, drawing, element, number, text
from pytest_aecbench.text import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_aecbench.ledger.entry import EntryTiming
    from pytest_aecbench.ledger.record import Timing
    from pytest_aecbench.reports.html.charts import Layout

__all__ = ["PHASES", "Attempts", "Clock", "lanes", "timeline", "usage"]

PHASES = ("wait", "build", "launch", "agent", "collect", "verify", "teardown", "other")
_MAX_BARS = 500
_COLUMNS_PER_UNIT = 1.6
_MAX_LANES = 64
_LEFT, _RIGHT = 12.0, 14.0
# Longer times without an attempt are left out.
_IDLE_SEC = 120.0
# By phase: start, end and lane.
_Bars: TypeAlias = "defaultdict[str, list[tuple[float, float, int]]]"


@dataclass(frozen=True, slots=True)
class Span:
    """A phase of an attempt, in seconds since the epoch."""

    start: float
    end: float
    phase: str


def spans(timing: Timing | EntryTiming) -> list[Span]:
    """Return the phases of an attempt in their order, with gaps between them as ``other``.

    A record without starts has its phases one after another.
    """
    begun, ended = timing.started_at.timestamp(), timing.finished_at.timestamp()
    found = []
    at = 0.0
    known = {phase: getattr(timing, phase, None) for phase in PHASES[:-1]}
    order = (
        sorted(known, key=lambda phase: timing.starts.get(phase, 0.0)) if timing.starts else known
    )
    for phase in order:
        seconds = known[phase]
        if seconds:
            start = timing.starts.get(phase, at)
            found.append(Span(begun + start, begun + start + seconds, phase))
            at = start + seconds
    cut = [
        Span(one.start, min(one.end, following, max(ended, one.start)), one.phase)
        for one, following in zip(found, [*(one.start for one in found[1:]), ended], strict=False)
    ]
    return _with_other(cut, begun, max(ended, begun))


def _with_other(found: Sequence[Span], begun: float, ended: float) -> list[Span]:
    whole: list[Span] = []
    at = begun
    for one in found:
        if one.start - at > 0.001:
            whole.append(Span(at, one.start, "other"))
        whole.append(one)
        at = max(at, one.end)
    if ended - at > 0.001:
        whole.append(Span(at, ended, "other"))
    return whole


class Clock:
    """Positions of times, without those in which nothing was under way."""

    def __init__(self, attempts: Sequence[tuple[float, float]]) -> None:
        self._pieces: list[tuple[float, float, float]] = []  # start, end, position of the start
        self.gaps_sec: list[float] = []
        at = 0.0
        start = end = None
        for begun, ended in sorted(attempts):
            if start is None or end is None:
                start, end = begun, ended
            elif begun - end > _IDLE_SEC:
                self._pieces.append((start, end, at))
                self.gaps_sec.append(begun - end)
                at += end - start
                start, end = begun, ended
            else:
                end = max(end, ended)
        if start is not None and end is not None:
            self._pieces.append((start, end, at))
            at += end - start
        self.total_sec = at

    def __call__(self, moment: float) -> float:
        """Return the seconds that things were under way before a moment."""
        position = 0.0
        for start, end, at in self._pieces:
            if moment < start:
                break
            position = at + min(moment, end) - start
        return position


def lanes(attempts: Iterable[tuple[float, float]]) -> list[int]:
    """Return a lane for each attempt so that none overlap; attempts are given by their start."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found = []
    count = 0
    for start, end in attempts:
        while busy and busy[0][0] <= start + 1e-6:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, count = count, count + 1
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found


class Attempts:
    """The attempts of a timeline, in lanes, and the clock that they are drawn by."""

    def __init__(self, timings: Sequence[Timing | EntryTiming]) -> None:
        ordered = sorted(timings, key=lambda timing: (timing.started_at, timing.finished_at))
        self.ends = [_ends(timing) for timing in ordered]
        self.clock = Clock(self.ends)
        # Very many are drawn as columns of the phase that took most of each.
        self.is_binned = len(ordered) > _MAX_BARS
        lane_of = lanes(self.ends)
        self.lanes = min(max(lane_of, default=0) + 1, _MAX_LANES)
        # Also those in lanes that are not drawn.
        self.bars: _Bars = defaultdict(list)
        for timing, lane in zip(ordered, lane_of, strict=True):
            for span in spans(timing):
                bar = (self.clock(span.start), self.clock(span.end), lane)
                self.bars[span.phase].append(bar)


def timeline(layout: Layout, title: str, attempts: Attempts) -> Svg:
    """Return the lanes over time, a path per phase."""
    total_sec = attempts.clock.total_sec
    height = max(3.0, min(18.0, 320.0 / attempts.lanes))
    scale = _scale(layout, total_sec)
    parts, top = _legend(layout, [phase for phase in PHASES if phase in attempts.bars])
    bars: Mapping[str, list[tuple[float, float, int]]] = {
        phase: [bar for bar in found if bar[2] < attempts.lanes]
        for phase, found in attempts.bars.items()
    }
    if attempts.is_binned:
        bars = _binned(bars, total_sec, attempts.lanes, _columns(layout))
    for phase in PHASES:
        path = "".join(
            f"M{number(_LEFT + start * scale)} {number(top + lane * height)}"
            f"h{_wide((end - start) * scale)}v{number(height - min(1.5, height / 4))}"
            f"H{number(_LEFT + start * scale)}z"
            for start, end, lane in bars.get(phase, ())
        )
        if path:
            parts.append(element("path", d=path, class_=f"phase p-{phase}"))
    bottom = top + attempts.lanes * height
    parts += _time_axis(layout, bottom, total_sec)
    return drawing(layout.width, bottom + 26, title, parts)


def _scale(layout: Layout, total_sec: float) -> float:
    return (layout.width - _LEFT - _RIGHT) / (total_sec or 1.0)


def _columns(layout: Layout) -> int:
    return round(layout.width * _COLUMNS_PER_UNIT)


def _wide(width: float) -> str:
    return f"{max(width, 0.3):.2f}"


def _binned(
    bars: Mapping[str, list[tuple[float, float, int]]], total: float, count: int, columns: int
) -> _Bars:
    """Return bars of whole columns, each of the phase that took most of it."""
    column = total / columns or 1.0
    shares: list[list[dict[str, float]]] = [[{} for _ in range(columns)] for _ in range(count)]
    for phase, found in bars.items():
        for start, end, lane in found:
            first, last = int(start / column), min(int(end / column), columns - 1)
            for index in range(min(first, columns - 1), last + 1):
                low, high = max(start, index * column), min(end, (index + 1) * column)
                cell = shares[lane][index]
                cell[phase] = cell.get(phase, 0.0) + max(0.0, high - low)
    binned: _Bars = defaultdict(list)
    for lane, cells in enumerate(shares):
        begun, before = 0, ""
        for index, cell in enumerate([*cells, {}]):
            phase = max(cell, key=lambda name: (cell[name], name)) if cell else ""
            if phase != before or index == columns:
                if before:
                    binned[before].append((begun * column, index * column, lane))
                begun, before = index, phase
    return binned


def _legend(layout: Layout, phases: Sequence[str]) -> tuple[list[Svg], float]:
    """Return the colours with their phases, and where they end."""
    parts = []
    x, y = _LEFT, 8.0
    for phase in phases:
        width = 34 + 7.5 * len(phase)
        if x + width - 10 > layout.width and x > _LEFT:
            x, y = _LEFT, y + 20
        parts.append(element("rect", x=x, y=y, width=12, height=12, class_=f"phase p-{phase}"))
        parts.append(text(x + 17, y + 10, phase, kind="label"))
        x += width
    return parts, y + 24


def _time_axis(layout: Layout, bottom: float, total_sec: float) -> list[Svg]:
    shares = (0, 0.5, 1) if layout.above else (0, 0.25, 0.5, 0.75, 1)
    scale = _scale(layout, total_sec)
    return [
        text(
            _LEFT + total_sec * share * scale,
            bottom + 17,
            duration_text(total_sec * share) if share else "0",
            kind="tick",
            anchor="start" if share == 0 else "end" if share == 1 else "middle",
        )
        for share in shares
    ]


def usage(layout: Layout, title: str, attempts: Attempts) -> Svg:
    """Return how many attempts were under way over time, by phase, one above the other."""
    total_sec = attempts.clock.total_sec
    columns, scale = _columns(layout), _scale(layout, total_sec)
    column = total_sec / columns or 1.0
    tops: list[tuple[str, list[float]]] = []
    below = [0.0] * columns
    for phase in PHASES:
        if phase in attempts.bars:
            levels = _levels(attempts.bars[phase], column, columns)
            below = [one + other for one, other in zip(below, levels, strict=True)]
            tops.append((phase, below))
    most = max(map(round, below), default=1) or 1
    top, bottom, right = 22.0, 94.0, layout.width - _RIGHT
    parts = [element("line", x1=_LEFT, x2=right, y1=top, y2=top, class_="grid")]
    # The highest is drawn first, and what is below it over it.
    for phase, heights in reversed(tops):
        path = [f"M{number(_LEFT)} {number(bottom)}"]
        before = -1.0
        for index, height in enumerate(heights):
            if abs(height - before) > most / 100:
                y = bottom - (bottom - top) * min(height, most) / most
                path.append(f"H{number(_LEFT + index * column * scale)}V{number(y)}")
                before = height
        path.append(f"H{number(right)}V{number(bottom)}z")
        parts.append(element("path", d="".join(path), class_=f"phase p-{phase}"))
    parts.append(text(_LEFT, top - 8, f"{most} at once", kind="label"))
    parts += _time_axis(layout, bottom, total_sec)
    return drawing(layout.width, bottom + 26, title, parts)


def _levels(bars: Sequence[tuple[float, float, int]], column: float, columns: int) -> list[float]:
    """Return how many bars there are in each column."""
    changes = [0.0] * (columns + 1)
    for start, end, _ in bars:
        _add(changes, start / column, 1.0)
        _add(changes, end / column, -1.0)
    found, level = [], 0.0
    for change in changes[:columns]:
        level += change
        found.append(max(level, 0.0))
    return found


def _ends(timing: Timing | EntryTiming) -> tuple[float, float]:
    begun = timing.started_at.timestamp()
    return begun, max(begun, timing.finished_at.timestamp())


def _add(changes: list[float], position: float, amount: float) -> None:
    """Spread a change of the level over the column that it falls into."""
    index = min(int(position), len(changes) - 2)
    share = min(position - index, 1.0)
    changes[index] += amount * (1 - share)
    changes[index + 1] += amount * share
