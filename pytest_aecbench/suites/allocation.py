"""The plan of a suite: how many instances of each template, and of which kind each one is.

Counts come first: what each template wants, cut to the total, with a minimum for each discipline.
Kinds are then given to all instances together, so that the mixes hold for the suite as a whole
and not, rounded, for every template.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, TypeAlias

from pytest_aecbench.suites.prompt import Cell

if TYPE_CHECKING:
    from pytest_aecbench.suites.template import Template

__all__ = [
    "Axes",
    "Offer",
    "Slot",
    "Target",
    "allocate",
    "counts_of",
    "offer_of",
    "shared_out",
    "shortages",
    "split_up",
]

_AXES = ("difficulty", "visibility", "tool_mode")
_AT_A_TIME = 3
Target: TypeAlias = "dict[tuple[str, str], int]"
Change: TypeAlias = "tuple[tuple[tuple[str, str], int], ...]"


@dataclass(frozen=True, slots=True)
class Offer:
    """A template and the cells that it can give."""

    template: str
    cells: tuple[Cell, ...]

    @property
    def discipline(self) -> str:
        """The first part of the path."""
        return self.template.partition("/")[0]

    @property
    def has_both_tool_modes(self) -> bool:
        """True if the mix of tool modes applies to it."""
        return len({cell.tool_mode for cell in self.cells}) > 1


@dataclass(frozen=True, slots=True)
class Slot:
    """One instance of the plan."""

    template: str
    cell: Cell
    split: str
    index: int


@dataclass(frozen=True, slots=True)
class Axes:
    """The shares that a suite asks for; an axis without shares takes what comes."""

    difficulties: Mapping[str, float] = field(default_factory=dict)
    visibilities: Mapping[str, float] = field(default_factory=dict)
    tool_modes: Mapping[str, float] = field(default_factory=dict)

    def targets(self, total: int, with_tools: int) -> Target:
        """Return how many instances each value of each axis should have."""
        axes = (
            ("difficulty", self.difficulties, total),
            ("visibility", self.visibilities, total),
            ("tool_mode", self.tool_modes, with_tools),
        )
        return {
            (axis, name): count
            for axis, shares, size in axes
            if shares
            for name, count in shared_out(size, shares).items()
        }


def offer_of(template: Template, axes: Axes) -> Offer:
    """Return the cells of a template that the suite asks for; there may be none."""
    cells = [
        Cell(level.name, visibility, tool_mode)
        for level in template.levels.values()
        for visibility in level.visibility
        for tool_mode in _tool_modes(template, axes)
        if _is_wanted(level.name, axes.difficulties) and _is_wanted(visibility, axes.visibilities)
    ]
    return Offer(template.id, tuple(cells))


def _tool_modes(template: Template, axes: Axes) -> tuple[str, ...]:
    """Return the modes that the mix asks for, where the template leaves the choice."""
    if len(template.tool_modes) == 1:
        return template.tool_modes
    return tuple(mode for mode in template.tool_modes if _is_wanted(mode, axes.tool_modes))


def _is_wanted(name: str, shares: Mapping[str, float]) -> bool:
    return not shares or shares.get(name, 0) > 0


def shared_out(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide a number in proportion, by largest remainder; ties go to the first."""
    whole = math.fsum(shares.values())
    exact = {name: total * share / whole for name, share in shares.items()}
    counts = {name: math.floor(amount + 1e-9) for name, amount in exact.items()}
    rest = total - sum(counts.values())
    by_remainder = sorted(shares, key=lambda name: round(counts[name] - exact[name], 12))
    for name in by_remainder[:rest]:
        counts[name] += 1
    return counts


def counts_of(
    offers: Sequence[Offer], per_task: int, total_max: int, minimum: int
) -> dict[str, int]:
    """Return how many instances each template gives."""
    wanted = {offer.template: per_task for offer in offers}
    if sum(wanted.values()) <= total_max:
        return wanted
    disciplines: dict[str, list[str]] = {}
    for offer in offers:
        disciplines.setdefault(offer.discipline, []).append(offer.template)
    promised = {name: min(minimum, per_task * len(own)) for name, own in disciplines.items()}
    if sum(promised.values()) > total_max:
        promised = _at_most(promised, shared_out(total_max, dict.fromkeys(disciplines, 1.0)))
    counts: dict[str, int] = {}
    for name, own in disciplines.items():
        counts |= shared_out(promised[name], dict.fromkeys(own, 1.0))
    left = {template: per_task - counts[template] for template in wanted}
    rest = total_max - sum(counts.values())
    if rest > 0:
        more = _interleaved_shares(rest, left, disciplines)
        counts = {template: counts[template] + more.get(template, 0) for template in wanted}
    return {template: count for template, count in counts.items() if count}


def _at_most(wanted: Mapping[str, int], limits: Mapping[str, int]) -> dict[str, int]:
    """Cut amounts to their limits, and give what that leaves to the others."""
    given = {name: min(wanted[name], limits[name]) for name in wanted}
    rest = sum(limits.values()) - sum(given.values())
    for name in wanted:
        more = min(rest, wanted[name] - given[name])
        given[name] += more
        rest -= more
    return given


def _interleaved_shares(
    rest: int, left: Mapping[str, int], disciplines: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Hand out the rest in proportion to what is left; ties go to disciplines in turn."""
    turns = sorted((place, name) for own in disciplines.values() for place, name in enumerate(own))
    order = [name for _, name in turns if left[name] > 0]
    return shared_out(rest, {name: float(left[name]) for name in order}) if order else {}


def allocate(
    offers: Sequence[Offer], counts: Mapping[str, int], axes: Axes
) -> list[tuple[str, Cell]]:
    """Return the template and the cell of every instance, as near to the mixes as possible."""
    given = [offer for offer in offers if counts.get(offer.template)]
    both = {offer.template for offer in given if offer.has_both_tool_modes}
    total = sum(counts.values())
    targets = axes.targets(total, sum(counts[name] for name in both))
    state = _State({offer.template: offer.cells for offer in given}, targets, both)
    for turn in range(max(counts.values(), default=0)):
        for offer in given:
            if turn < counts[offer.template]:
                state.add(offer.template)
    state.improve()
    cells = {offer.template: state.cells_in_turn(offer.template) for offer in given}
    return [
        (offer.template, cell)
        for turn in range(max(counts.values(), default=0))
        for offer in given
        for cell in cells[offer.template][turn : turn + 1]
    ]


class _State:
    """Cells given to templates so far, and how far each marginal is from its target."""

    def __init__(
        self, offered: Mapping[str, tuple[Cell, ...]], targets: Target, both: set[str]
    ) -> None:
        self._offered = offered
        self._both = both
        self._missing = Counter(targets)
        self._axes = {axis for axis, _ in targets}
        self.given: dict[str, Counter[Cell]] = {name: Counter() for name in offered}

    def _marks(self, template: str, cell: Cell) -> tuple[tuple[str, str], ...]:
        """Return the marginals in which a cell of the template counts."""
        return tuple(
            (axis, getattr(cell, axis))
            for axis in _AXES
            if axis in self._axes and (axis != "tool_mode" or template in self._both)
        )

    def add(self, template: str) -> None:
        """Give the template the cell whose marginals are furthest behind."""

        def urgency(cell: Cell) -> tuple[float, int]:
            behind = sum(self._missing[mark] for mark in self._marks(template, cell))
            return -behind, self.given[template][cell]

        best = min(self._offered[template], key=urgency)
        self._move(template, None, best)

    def _move(self, template: str, old: Cell | None, new: Cell) -> None:
        if old is not None:
            self.given[template][old] -= 1
            self._missing.update(self._marks(template, old))
        self.given[template][new] += 1
        self._missing.subtract(self._marks(template, new))

    def improve(self) -> None:
        """Change cells, up to three at a time, while that brings the marginals nearer."""
        while any(map(self._apply, self._exchanges())):
            pass

    def _exchanges(self) -> Iterator[tuple[Change, ...]]:
        """Yield sets of changes that would bring the marginals nearer, small ones first."""
        if not any(self._missing.values()):
            return
        changes = sorted({change for change, *_ in self._moves()})
        for size in range(1, _AT_A_TIME + 1):
            for exchange in combinations_with_replacement(changes, size):
                if self._gain(exchange) > 0:
                    yield exchange

    def _moves(self) -> Iterator[tuple[Change, str, Cell, Cell]]:
        """Yield every way to give an instance another cell, and how that changes marginals."""
        for template, given in self.given.items():
            for old, count in given.items():
                for new in self._offered[template] if count > 0 else ():
                    lost, won = self._marks(template, old), self._marks(template, new)
                    if change := tuple(
                        (mark, by)
                        for mark, by in sorted([*((m, 1) for m in lost), *((m, -1) for m in won)])
                        if not (mark in lost and mark in won)
                    ):
                        yield change, template, old, new

    def _gain(self, exchange: Sequence[Change]) -> int:
        """Return how much nearer the marginals come."""
        total: Counter[tuple[str, str]] = Counter()
        for change in exchange:
            for mark, by in change:
                total[mark] += by
        return sum(
            abs(self._missing[mark]) - abs(self._missing[mark] + by) for mark, by in total.items()
        )

    def _apply(self, exchange: Sequence[Change]) -> bool:
        """Make the changes, each where there is most of the old cell; undo them if one fails."""
        made: list[tuple[str, Cell, Cell]] = []
        for change in exchange:
            ways = [(way[1], way[2], way[3]) for way in self._moves() if way[0] == change]
            if not ways:  # another change of this exchange took the only instance
                for template, old, new in reversed(made):
                    self._move(template, new, old)
                return False
            template, old, new = max(ways, key=lambda way: self.given[way[0]][way[1]])
            self._move(template, old, new)
            made.append((template, old, new))
        return True

    def cells_in_turn(self, template: str) -> list[Cell]:
        """Return a template's cells, different ones first."""
        left = Counter(self.given[template])
        cells: list[Cell] = []
        for _ in range(max(left.values(), default=0)):
            for cell in self._offered[template]:
                if left[cell] > 0:
                    left[cell] -= 1
                    cells.append(cell)
        return cells


def shortages(offers: Iterable[Offer], plan: Sequence[tuple[str, Cell]], axes: Axes) -> list[str]:
    """Return a line for each value of a mix that the plan does not reach."""
    used = {template for template, _ in plan}
    offered = {offer.template: offer for offer in offers if offer.template in used}
    both = {name for name, offer in offered.items() if offer.has_both_tool_modes}
    with_tools = sum(template in both for template, _ in plan)
    counted = Counter(
        (axis, getattr(cell, axis))
        for template, cell in plan
        for axis in _AXES
        if axis != "tool_mode" or template in both
    )
    lines = []
    for (axis, name), wanted in axes.targets(len(plan), with_tools).items():
        if counted[axis, name] < wanted:
            able = [
                template
                for template, offer in offered.items()
                if any(getattr(cell, axis) == name for cell in offer.cells)
            ]
            offering = ", ".join(able[:5]) + (f" and {len(able) - 5} more" if len(able) > 5 else "")
            lines.append(
                f"{axis} {name}: {wanted} wanted, {counted[axis, name]} possible "
                f"(templates offering it: {offering or 'none'})"
            )
    return lines


def split_up(plan: Sequence[tuple[str, Cell]], shares: Mapping[str, float]) -> list[Slot]:
    """Give every instance its split, so that each split has a fair share of every kind."""
    splits = _splits(plan, shares)
    indices: Counter[tuple[str, str]] = Counter()
    slots = []
    for (template, cell), split in zip(plan, splits, strict=True):
        slots.append(Slot(template, cell, split, indices[template, split]))
        indices[template, split] += 1
    return slots


def _splits(plan: Sequence[tuple[str, Cell]], shares: Mapping[str, float]) -> list[str]:
    if not shares:
        return [""] * len(plan)
    left = Counter(shared_out(len(plan), shares))
    size = len(plan)
    goals = dict(left)
    order = sorted(range(size), key=lambda at: (_kind(plan[at][1]), plan[at][0], at))
    splits = [""] * size
    for done, at in enumerate(order):
        # The split that is furthest behind a steady pace.
        behind = {
            name: goals[name] * (done + 1) / size - (goals[name] - left[name]) for name in goals
        }
        chosen = max(goals, key=lambda name: (left[name] > 0, behind[name]))
        splits[at] = chosen
        left[chosen] -= 1
    return splits


def _kind(cell: Cell) -> tuple[str, str, str]:
    return cell.difficulty, cell.visibility, cell.tool_mode
