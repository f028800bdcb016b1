"""Attempts in lanes over time, by phase: who used the slots, what was waited for, and the tail."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.reports.html.charts import WIDTH
from pytest_aecbench.reports.html.svg import Svg, drawing, element, number, text
from pytest_aecbench.text import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_aecbench.ledger.entry import EntryTiming
    from pytest_aecbench.ledger.record import Timing

__all__ = ["PHASES", "Clock", "lanes", "timeline", "usage"]

PHASES = ("wait", "build", "launch", "agent", "collect", "verify", "teardown", "other")
_MAX_BARS = 500
_COLUMNS = 1200
_MAX_LANES = 64
_LEFT, _RIGHT = 12.0, 20.0
# Longer times without an attempt are left out.
_IDLE_SEC = 120.0


@dataclass(frozen=True, slots=True)
class Span:
    """A phase of an attempt, in seconds since the epoch."""

    start: float
    end: float
    phase: str


def spans(timing: Timing | EntryTiming) -> list[Span]:
    """Return the phases of an attempt in their order; what is between them is ``other``.

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


def timeline(title: str, timings: Sequence[Timing | EntryTiming]) -> tuple[Svg, Clock, bool]:
    """Return the chart, its clock, and whether it shows only what took most of each column."""
    ordered = sorted(timings, key=lambda timing: (timing.started_at, timing.finished_at))
    ends = [_ends(timing) for timing in ordered]
    clock = Clock(ends)
    lane_of = lanes(ends)
    is_binned = len(ordered) > _MAX_BARS
    count = min(max(lane_of, default=0) + 1, _MAX_LANES)
    height = max(3.0, min(18.0, 320.0 / count))
    scale = (WIDTH - _LEFT - _RIGHT) / (clock.total_sec or 1.0)
    bars: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for timing, lane in zip(ordered, lane_of, strict=True):
        if lane < _MAX_LANES:
            for span in spans(timing):
                bars[span.phase].append((clock(span.start), clock(span.end), lane))
    if is_binned:
        bars = _binned(bars, clock.total_sec, count)
    parts = _legend([phase for phase in PHASES if phase in bars])
    top = 32.0
    for phase in PHASES:
        path = "".join(
            f"M{number(_LEFT + start * scale)} {number(top + lane * height)}"
            f"h{_wide((end - start) * scale)}v{number(height - min(1.5, height / 4))}"
            f"H{number(_LEFT + start * scale)}z"
            for start, end, lane in bars.get(phase, ())
        )
        if path:
            parts.append(element("path", d=path, class_=f"phase p-{phase}"))
    bottom = top + count * height
    parts += _time_axis(bottom, clock.total_sec, scale)
    return drawing(WIDTH, bottom + 26, title, parts), clock, is_binned


def _wide(width: float) -> str:
    return f"{max(width, 0.3):.2f}"


def _binned(
    bars: dict[str, list[tuple[float, float, int]]], total: float, count: int
) -> dict[str, list[tuple[float, float, int]]]:
    """Return bars of whole columns, each of the phase that took most of it."""
    column = total / _COLUMNS or 1.0
    shares: list[list[dict[str, float]]] = [[{} for _ in range(_COLUMNS)] for _ in range(count)]
    for phase, found in bars.items():
        for start, end, lane in found:
            first, last = int(start / column), min(int(end / column), _COLUMNS - 1)
            for index in range(min(first, _COLUMNS - 1), last + 1):
                low, high = max(start, index * column), min(end, (index + 1) * column)
                cell = shares[lane][index]
                cell[phase] = cell.get(phase, 0.0) + max(0.0, high - low)
    binned: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for lane, cells in enumerate(shares):
        begun, before = 0, ""
        for index, cell in enumerate([*cells, {}]):
            phase = max(cell, key=lambda name: (cell[name], name)) if cell else ""
            if phase != before or index == _COLUMNS:
                if before:
                    binned[before].append((begun * column, index * column, lane))
                begun, before = index, phase
    return binned


def _legend(phases: Sequence[str]) -> list[Svg]:
    parts = []
    x = _LEFT
    for phase in phases:
        parts.append(element("rect", x=x, y=8, width=12, height=12, class_=f"phase p-{phase}"))
        parts.append(text(x + 17, 18, phase, kind="label"))
        x += 34 + 7.5 * len(phase)
    return parts


def _time_axis(bottom: float, total: float, scale: float) -> list[Svg]:
    return [
        text(
            _LEFT + total * share * scale,
            bottom + 17,
            duration_text(total * share),
            kind="tick",
            anchor=anchor,
        )
        for share, anchor in (
            (0, "start"),
            (0.25, "middle"),
            (0.5, "middle"),
            (0.75, "middle"),
            (1, "end"),
        )
    ]


def usage(title: str, timings: Sequence[Timing | EntryTiming], clock: Clock) -> Svg:
    """Return how many attempts were under way over time."""
    scale = (WIDTH - _LEFT - _RIGHT) / (clock.total_sec or 1.0)
    column = clock.total_sec / _COLUMNS or 1.0
    changes = [0.0] * (_COLUMNS + 2)
    for timing in timings:
        begun, ended = _ends(timing)
        start, end = clock(begun) / column, clock(ended) / column
        _add(changes, start, 1.0)
        _add(changes, end, -1.0)
    counts, level = [], 0.0
    for change in changes[:_COLUMNS]:
        level += change
        counts.append(max(level, 0.0))
    most = max((round(count) for count in counts), default=1) or 1
    top, bottom = 12.0, 84.0
    path = [f"M{number(_LEFT)} {number(bottom)}"]
    before = -1.0
    for index, count in enumerate(counts):
        if abs(count - before) > most / 200:
            y = bottom - (bottom - top) * min(count, most) / most
            path.append(f"H{number(_LEFT + index * column * scale)}V{number(y)}")
            before = count
    path.append(f"H{number(WIDTH - _RIGHT)}V{number(bottom)}z")
    parts = [
        element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=top, y2=top, class_="grid"),
        element("path", d="".join(path), class_="usage"),
        text(_LEFT + 4, top + 12, f"{most} at once", kind="label"),
        *_time_axis(bottom, clock.total_sec, scale),
    ]
    return drawing(WIDTH, bottom + 26, title, parts)


def _ends(timing: Timing | EntryTiming) -> tuple[float, float]:
    begun = timing.started_at.timestamp()
    return begun, max(begun, timing.finished_at.timestamp())


def _add(changes: list[float], position: float, amount: float) -> None:
    """Spread a change of the level over the column that it falls into."""
    index = min(int(position), _COLUMNS - 1)
    share = min(position - index, 1.0)
    changes[index] += amount * (1 - share)
    changes[index + 1] += amount * share
