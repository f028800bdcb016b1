"""Charts as SVG: one function each. Colours and sizes of text are the style sheet's.

A chart that is wide has a narrow twin for small screens, on which the wide one would be unreadable:
there, names stand above what they name, instead of beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from pytest_aecbench.reports.html.svg import Svg, drawing, element, number, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_aecbench.reports.statistics import Interval

__all__ = [
    "NARROW",
    "WIDE",
    "Layout",
    "both",
    "curves",
    "dots",
    "histogram",
    "interval_strip",
    "legend",
    "scatter",
    "slopes",
    "strips",
    "trend",
]

_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
SERIES = 8  # colours of the style sheet; after them, they repeat with other shapes
_SMALL = 310.0
_P = ParamSpec("_P")
# Widths of characters in shares of a common one, so that legends need no more room than they take.
_THIN, _BROAD = frozenset("fijlrt|!.,:;'()[]-/ "), frozenset("mwMW@%")
_CHAR = 7.1


@dataclass(frozen=True, slots=True)
class Layout:
    """The room of a chart, and where its plot begins and ends.

    ``above`` is the height of a line for a name above its part of the plot; without one, names
    stand beside the plot.
    """

    width: float
    left: float
    right: float
    above: float = 0.0
    chars: int = 26

    def x(self, share: float) -> float:
        """Return the place of a number from 0 to 1."""
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def name(self, name: str, top: float, middle: float) -> Svg:
        """Return a name beside the plot, or above what it names."""
        short = ends_of(name, self.chars)
        if self.above:
            return text(self.left, top + 12, short, kind="label")
        return text(self.left - 10, middle + 4, short, kind="label", anchor="end")

    def axis(self, top: float, bottom: float) -> Iterator[Svg]:
        """Yield the lines and numbers of an axis from 0 to 1."""
        for tick in _TICKS:
            x = self.x(tick)
            yield element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid")
            yield text(x, bottom + 16, f"{tick:g}", kind="tick", anchor="middle")


WIDE = Layout(760.0, 190.0, 708.0)
NARROW = Layout(300.0, 12.0, 286.0, above=17.0, chars=38)


def both(
    draw: Callable[Concatenate[Layout, _P], Svg], *values: _P.args, **more: _P.kwargs
) -> tuple[Svg, Svg]:
    """Return a chart and its narrow twin."""
    return draw(WIDE, *values, **more), draw(NARROW, *values, **more)


def ends_of(name: str, most: int) -> str:
    """Return a name without its middle if it is long: names of a kind differ at their ends."""
    if len(name) <= most:
        return name
    end = (most - 1) // 2
    return f"{name[: most - 1 - end]}…{name[-end:]}"


def _wide(name: str) -> float:
    """Return about how much room a text takes."""
    shares = (0.55 if char in _THIN else 1.4 if char in _BROAD else 1.0 for char in name)
    return _CHAR * sum(shares)


def shape(series: int, x: float, y: float) -> Svg:
    """Return the mark of a series, which its form and its colour tell from others."""
    kind = f"mark c{series % SERIES}"
    forms = (
        "M{x} {y}m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
        "M{x} {y}m-4 -4h8v8h-8z",
        "M{x} {y}m0 -5.5l5 9h-10z",
        "M{x} {y}m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        "M{x} {y}m0 5.5l5 -9h-10z",
        "M{x} {y}m-1.7 -5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
        "M{x} {y}m-5 -2.5h10v5h-10z",
        "M{x} {y}m-2.5 -5h5v10h-5z",
    )
    # Where colours repeat, shapes are other ones than before.
    path = forms[(series + series // SERIES) % len(forms)].format(x=number(x), y=number(y))
    return element("path", d=path, class_=kind)


def _legend(layout: Layout, names: Sequence[str], y: float) -> tuple[list[Svg], float]:
    """Return the marks with their names, in as many lines as they need, and where they end."""
    parts: list[Svg] = []
    x = 12.0
    for series, name in enumerate(names):
        short = ends_of(name, 36)
        width = 34 + _wide(short)
        if x + width - 20 > layout.width and x > 12:
            x, y = 12.0, y + 20
        parts += [shape(series, x, y - 4), text(x + 10, y, short, kind="label")]
        x += width
    return parts, y + 12


def legend(layout: Layout, title: str, names: Sequence[str]) -> Svg:
    """Return the marks of series with their names."""
    parts, bottom = _legend(layout, names, 18)
    return drawing(layout.width, bottom - 4, title, parts)


def strips(layout: Layout, title: str, rows: Sequence[tuple[str, Interval | None]]) -> Svg:
    """Return a line per name with its interval as a bar and its mean as a thin line."""
    step = 28.0 + layout.above
    height = step * len(rows) + 34
    parts = [*layout.axis(6, height - 26)]
    for index, (name, interval) in enumerate(rows):
        top = 4 + step * index
        y = top + layout.above + 16
        parts.append(layout.name(name, top, y))
        if interval is None:
            parts.append(text(layout.x(0) + 6, y + 4, "no score", kind="tick"))
            continue
        low, mean, high = (layout.x(v) for v in (interval.low, interval.mean, interval.high))
        parts += [
            element("rect", x=low, y=y - 8, width=high - low, height=16, rx=3, class_="range"),
            element("line", x1=mean, x2=mean, y1=y - 11, y2=y + 11, class_="mean"),
        ]
        at = top + 12 if layout.above else y + 4
        value = text(layout.width - 8, at, f"{interval.mean:.2f}", kind="value", anchor="end")
        parts.append(value)
    return drawing(layout.width, height, title, parts)


def interval_strip(interval: Interval) -> Svg:
    """Return an interval from 0 to 1 that fits into a table's cell."""
    low, mean, high = (1 + 118 * value for value in (interval.low, interval.mean, interval.high))
    title = f"mean {interval.mean:.2f}, 95 % interval {interval.low:.2f} to {interval.high:.2f}"
    return drawing(
        120,
        16,
        title,
        [
            element("line", x1=1, x2=119, y1=8, y2=8, class_="grid"),
            element("rect", x=low, y=4, width=max(high - low, 1), height=8, rx=2, class_="range"),
            element("line", x1=mean, x2=mean, y1=1, y2=15, class_="mean"),
        ],
    )


def dots(
    layout: Layout,
    title: str,
    groups: Sequence[tuple[str, Sequence[Interval | None]]],
    names: Sequence[str],
) -> Svg:
    """Return a band per group with a mark and an interval per series."""
    legend, top = _legend(layout, names, 18)
    step = 13.0
    band = step * len(names) + 14 + layout.above
    bottom = top + band * len(groups) + 4
    parts = [*legend, *layout.axis(top, bottom)]
    for index, (group, intervals) in enumerate(groups):
        y = top + band * index
        if index:
            parts.append(element("line", x1=12, x2=layout.right, y1=y, y2=y, class_="rule"))
        parts.append(layout.name(group, y + 3, y + band / 2))
        for series, interval in enumerate(intervals):
            if interval is not None:
                middle = y + 7 + layout.above + step * (series + 0.5)
                low, high = layout.x(interval.low), layout.x(interval.high)
                kind = f"whisker c{series % SERIES}"
                parts += [
                    element("line", x1=low, x2=high, y1=middle, y2=middle, class_=kind),
                    shape(series, layout.x(interval.mean), middle),
                ]
    return drawing(layout.width, bottom + 24, title, parts)


def histogram(
    layout: Layout, title: str, rows: Sequence[tuple[str, Sequence[int], int, int]]
) -> Svg:
    """Return bars per name: exact zeros, then bins from 0 to 1, then exact ones; one axis for all.

    Each row is a name, the counts of the bins, and the counts of zeros and ones.
    """
    most = max((max((zeros, ones, *bins)) for _, bins, zeros, ones in rows), default=0) or 1
    step = 64.0 + layout.above
    height = step * len(rows) + 30
    left, right = layout.left + 46, layout.right - 46
    parts: list[Svg] = []
    for index, (name, bins, zeros, ones) in enumerate(rows):
        base = step * (index + 1) - 6
        parts.append(layout.name(name, base + 2 - step, base - 14))
        ground = {"x1": layout.left, "x2": layout.right, "y1": base, "y2": base}
        parts.append(element("line", class_="rule", **ground))
        width = (right - left) / len(bins)
        bars = [
            (layout.left + 4, 26.0, zeros, "bar edge-bad"),
            (right + 16, 26.0, ones, "bar edge-good"),
        ]
        bars += [(left + n * width + 1, width - 2, count, "bar") for n, count in enumerate(bins)]
        for x, wide, count, kind in bars:
            if count:
                tall = max(1.5, 42 * count / most)
                parts.append(
                    element(
                        "rect",
                        element("title", f"{count}"),
                        x=x,
                        y=base - tall,
                        width=wide,
                        height=tall,
                        class_=kind,
                    )
                )
        for x, count in ((layout.left + 17, zeros), (right + 29, ones)):
            tall = max(1.5, 42 * count / most) if count else 0
            parts.append(text(x, base - tall - 4, f"{count}", kind="tick", anchor="middle"))
    y = step * len(rows) + 12
    for x, label in (
        (layout.left + 17, "= 0"),
        (left, "0"),
        ((left + right) / 2, "0.5"),
        (right, "1"),
        (right + 29, "= 1"),
    ):
        parts.append(text(x, y, label, kind="tick", anchor="middle"))
    return drawing(layout.width, height, title, parts)


def scatter(
    title: str,
    unit: str,
    points: Sequence[tuple[str, int, float, Interval]],
    joined: Sequence[int],
) -> Svg:
    """Return rewards against an amount; points are a name, its series, the amount and the reward.

    The axis is logarithmic if amounts differ by more than a hundredfold. ``joined`` has the
    efficient ones, by their index.
    """
    width, height, left, bottom = _SMALL, 230.0, 36.0, 190.0
    axis = _Axis([amount for _, _, amount, _ in points], left + 14, width - 24)

    def y(value: float) -> float:
        return bottom - value * (bottom - 24)

    parts = [text(left - 6, 12, "reward", kind="tick", anchor="middle")]
    for tick in _TICKS:
        parts.append(element("line", x1=left, x2=width - 8, y1=y(tick), y2=y(tick), class_="grid"))
        parts.append(text(left - 6, y(tick) + 4, f"{tick:g}", kind="tick", anchor="end"))
    for amount in axis.ticks:
        parts.append(text(axis(amount), bottom + 16, _short(amount), kind="tick", anchor="middle"))
    below = f"{unit}, logarithmic" if axis.is_log else unit
    parts.append(text((left + width) / 2, bottom + 34, below, kind="label", anchor="middle"))
    if len(joined) > 1:
        line = " ".join(
            f"{number(axis(points[i][2]))},{number(y(points[i][3].mean))}" for i in joined
        )
        parts.append(element("polyline", points=line, class_="front"))
    for name, series, amount, reward in points:
        x = axis(amount)
        kind = f"whisker c{series % SERIES}"
        parts += [
            element("line", x1=x, x2=x, y1=y(reward.low), y2=y(reward.high), class_=kind),
            element(
                "g",
                element("title", f"{name}: {_short(amount)} {unit}, reward {reward.mean:.2f}"),
                shape(series, x, y(reward.mean)),
            ),
        ]
    return drawing(width, height, title, parts)


class _Axis:
    """Positions of amounts between two ends, linear or logarithmic, and some round ticks."""

    def __init__(self, amounts: Sequence[float], left: float, right: float) -> None:
        least, most = min(amounts, default=0.0), max(amounts, default=1.0)
        self.is_log = least > 0 and most / least > 100
        self._left, self._right = left, right
        if self.is_log:
            powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
            self.ticks: list[float] = [10.0**power for power in powers]
        else:
            self.ticks = _round_ticks(most)
        self._least, self._most = self.ticks[0], self.ticks[-1]

    def __call__(self, amount: float) -> float:
        if self.is_log:
            share = math.log(amount / self._least) / math.log(self._most / self._least)
        else:
            share = (amount - self._least) / (self._most - self._least)
        return self._left + share * (self._right - self._left)


def _round_ticks(most: float) -> list[float]:
    """Return ticks from 0 to the next round number above ``most``."""
    if most <= 0:
        return [0.0, 1.0]
    magnitude = 10.0 ** math.floor(math.log10(most))
    step = next(
        step * magnitude for step in (0.2, 0.25, 0.5, 1.0, 2.0, 2.5) if step * magnitude * 4 >= most
    )
    count = math.ceil(most / step - 1e-9)
    return [step * n for n in range(count + 1)]


def _short(value: float) -> str:
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def _levels(y: Callable[[float], float], left: float, right: float) -> Iterator[Svg]:
    """Yield the lines and numbers of an upright axis from 0 to 1."""
    for tick in _TICKS:
        yield element("line", x1=left, x2=right, y1=y(tick), y2=y(tick), class_="grid")
        yield text(left - 8, y(tick) + 4, f"{tick:g}", kind="tick", anchor="end")


def curves(
    layout: Layout,
    title: str,
    lines: Sequence[tuple[str, int, Sequence[float], Sequence[float]]],
    most: int,
) -> Svg:
    """Return pass@k (whole) and pass^k (dashed) against k; lines are a name, its series, both."""
    legend, top = _legend(layout, [name for name, *_ in lines], 18)
    height, bottom = top + 236, top + 196
    left, right = (34.0, layout.width - 64) if layout.above else (60.0, layout.width - 110)

    def x(k: int) -> float:
        return left + 14 + (k - 1) * (right - left - 14) / max(most - 1, 1)

    def y(value: float) -> float:
        return bottom - value * (bottom - top - 8)

    parts = [*legend]
    parts += _levels(y, left, right)
    for k in range(1, most + 1, max(1, most // (8 if layout.above else 16))):
        parts.append(text(x(k), bottom + 16, f"{k}", kind="tick", anchor="middle"))
    parts.append(text((left + right) / 2, bottom + 34, "k", kind="tick", anchor="middle"))
    for _, series, at, hat in lines:
        for values, kind in ((at, "curve"), (hat, "curve dashed")):
            points = " ".join(f"{number(x(k))},{number(y(v))}" for k, v in enumerate(values, 1))
            parts.append(element("polyline", points=points, class_=f"{kind} c{series % SERIES}"))
            parts += [
                shape(series, x(k), y(v)) for k, v in enumerate(values, 1) if len(values) < 17
            ]
    ends = {
        "pass@k": [at[-1] for _, _, at, _ in lines if at],
        "pass^k": [hat[-1] for _, _, _, hat in lines if hat],
    }
    places = [y(max(values)) for values in ends.values() if values]
    if len(places) == 2 and (close := 14 - (places[1] - places[0])) > 0:
        places = [places[0] - close / 2, places[1] + close / 2]
    for label, place in zip(ends, places, strict=False):
        parts.append(text(right + 12, place + 4, label, kind="label"))
    return drawing(layout.width, height, title, parts)


def trend(
    layout: Layout,
    title: str,
    points: Sequence[tuple[str, Sequence[Interval | None]]],
    names: Sequence[str],
) -> Svg:
    """Return a line per series over points in time, which have labels, and an interval at each."""
    legend, top = _legend(layout, names, 18)
    left, right, bottom = 38.0, layout.width - 16, top + 220
    step = (right - left - 28) / max(len(points) - 1, 1)
    # Marks of the same point stand side by side, so that their intervals can be told apart.
    gap = min(7.0, 0.6 * step / max(len(names), 1))

    def x(index: int, series: int) -> float:
        return left + 14 + index * step + gap * (series - (len(names) - 1) / 2)

    def y(value: float) -> float:
        return bottom - value * (bottom - top - 8)

    parts = [*legend]
    parts += _levels(y, left, right)
    every = math.ceil(max(map(_wide, (label for label, _ in points)), default=0) / (step or 1))
    for index in range(0, len(points), max(every, 1)):
        at = left + 14 + index * step
        parts.append(text(at, bottom + 16, points[index][0], kind="tick", anchor="middle"))
    for series, name in enumerate(names):
        known = [(n, means[series]) for n, (_, means) in enumerate(points)]
        drawn = [(x(n, series), mean) for n, mean in known if mean is not None]
        line = " ".join(f"{number(at)},{number(y(mean.mean))}" for at, mean in drawn)
        parts.append(element("polyline", points=line, class_=f"curve c{series % SERIES}"))
        for at, mean in drawn:
            ends = {"x1": at, "x2": at, "y1": y(mean.low), "y2": y(mean.high)}
            parts += [
                element("line", class_=f"whisker c{series % SERIES}", **ends),
                element(
                    "g",
                    element("title", f"{name}: {mean.mean:.2f}"),
                    shape(series, at, y(mean.mean)),
                ),
            ]
    return drawing(layout.width, bottom + 26, title, parts)


def slopes(title: str, names: tuple[str, str], lines: Iterable[tuple[str, float, float]]) -> Svg:
    """Return a line per task from its reward before to its reward after, coloured by direction."""
    width, top, bottom, left, right = _SMALL, 34.0, 254.0, 44.0, 290.0

    def y(value: float) -> float:
        return bottom - value * (bottom - top)

    before, after = (ends_of(name, 20) for name in names)
    parts = [
        text(8, 16, before, kind="label"),
        text(width - 4, 16, after, kind="label", anchor="end"),
    ]
    parts += _levels(y, left, right)
    for name, one, other in lines:
        kind = "worse" if other < one else "better" if other > one else "same"
        parts.append(
            element(
                "line",
                element("title", f"{name}: {one:.2f} to {other:.2f}"),
                x1=left,
                x2=right,
                y1=y(one),
                y2=y(other),
                class_=f"slope {kind}",
            )
        )
    return drawing(width, bottom + 14, title, parts)
