"""The values that a parameter can have: each is exactly the literal that the prompt prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from pytest_aecbench.documents.problems import shown

if TYPE_CHECKING:
    from pytest_aecbench.suites.schema import ParamTable, Value

__all__ = ["LARGEST", "Grid", "decimal", "grid_of", "literal", "places"]

# A number beyond this is as good as infinite; Python turns no larger integer into a float.
LARGEST = 1e300


def decimal(number: float) -> Decimal:
    """Return the number as it was written, not as binary keeps it."""
    return Decimal(repr(number))


def places(number: Decimal) -> int:
    """Return how many decimal places a number has."""
    exponent = number.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def literal(value: Value, decimals: int) -> str:
    """Return the value as the prompt prints it."""
    if isinstance(value, float):
        return f"{decimal(value):.{max(decimals, places(decimal(value)))}f}"
    return str(value)


@dataclass(frozen=True, slots=True)
class Grid:
    """Numbers from ``first`` in even steps, or those listed; ``decimals`` places are printed."""

    size: int
    decimals: int = 0
    first: Decimal = Decimal(0)
    step: Decimal = Decimal(1)
    kind: type[int] | type[float] = float
    listed: tuple[Value, ...] | None = None

    def at(self, index: int) -> Value:
        """Return one of the values."""
        if self.listed is not None:
            return self.listed[index]
        return self.kind(self.first + index * self.step)

    def has(self, value: object) -> bool:
        """Return whether this is one of the values."""
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            return False
        if self.listed is not None:
            return value in self.listed
        if isinstance(value, str):
            return False
        index = (decimal(value) - self.first) / self.step
        return index == index.to_integral_value() and 0 <= index < self.size

    def narrowed(self, allowed: object) -> Grid:
        """Return the values that a list or a range from ``min`` to ``max`` also allows.

        Raises:
            ValueError: a value is not on the grid, or none is left.

        """
        if isinstance(allowed, list) and allowed:
            return self._only(allowed)
        if isinstance(allowed, dict) and allowed and allowed.keys() <= {"min", "max"}:
            return self._within(allowed.get("min"), allowed.get("max"))
        right = "use a list of values or a table with 'min' and 'max'"
        raise ValueError(f"{shown(allowed)} is not valid; {right}")

    def _only(self, allowed: Sequence[Value]) -> Grid:
        for value in allowed:
            if not self.has(value):
                right = "use values that the parameter can have"
                raise ValueError(f"{shown(value)} is not one of its values; {right}")
        if self.listed is not None:
            return chosen([value for value in self.listed if value in allowed], self.decimals)
        return chosen([self.kind(value) for value in allowed], self.decimals)

    def _within(self, low: object, high: object) -> Grid:
        lowest, highest = _bound(low, Decimal("-Infinity")), _bound(high, Decimal("Infinity"))
        if self.listed is None:
            skipped = max(0, _whole_steps((lowest - self.first) / self.step, ROUND_CEILING))
            reached = _whole_steps((highest - self.first) / self.step, ROUND_FLOOR)
            size = min(self.size, reached + 1) - skipped
            start = self.first + skipped * self.step
            narrower = replace(self, first=start, size=size)
        else:
            if any(isinstance(value, str) for value in self.listed):
                raise ValueError("texts have no range; use a list")
            kept = [v for v in self.listed if lowest <= decimal(v) <= highest]  # type: ignore[arg-type]
            narrower = chosen(kept, self.decimals)
        if narrower.size < 1:
            raise ValueError("leaves no value; widen it")
        return narrower


def _bound(value: object, unbounded: Decimal) -> Decimal:
    if value is None:
        return unbounded
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{shown(value)} is not valid; use a number")
    return decimal(value)


def _whole_steps(steps: Decimal, rounding: str) -> int:
    limit = Decimal(10**15)
    return int(max(-limit, min(limit, steps)).to_integral_value(rounding))


def chosen(values: Sequence[Value], decimals: int) -> Grid:
    """Return a grid of these values."""
    return Grid(len(values), decimals, listed=tuple(values))


def grid_of(param: ParamTable) -> Grid:
    """Return the values of a parameter as ``params.toml`` describes them.

    Raises:
        ValueError: the description does not say which values there are.

    """
    if param.type in ("choice", "enum"):
        return _choices(param)
    if param.values is not None:
        raise ValueError("values: only a choice has them; use min, max and step")
    if param.min is None or param.max is None:
        raise ValueError(f"{'min' if param.min is None else 'max'}: missing; add a number")
    if param.type == "int":
        return _whole_numbers(param.min, param.max, 1 if param.step is None else param.step)
    return _decimals(param.min, param.max, param.step)


def _choices(param: ParamTable) -> Grid:
    if param.values is None:
        raise ValueError("values: missing; add a list of numbers or texts")
    for key in ("min", "max", "step"):
        if getattr(param, key) is not None:
            raise ValueError(f"{key}: a choice has values; leave it out")
    values = list(param.values)
    kinds = {type(value) for value in values}
    if bool in kinds or (str in kinds and len(kinds) > 1):
        raise ValueError("values: a list of one kind is needed; use numbers or texts")
    if float in kinds:
        values = [float(value) for value in values]
    if len(set(values)) < len(values):
        raise ValueError("values: one occurs twice; keep one")
    decimals = max(places(decimal(value)) if isinstance(value, float) else 0 for value in values)
    return chosen(values, decimals)


def _whole_numbers(low: float, high: float, step: float) -> Grid:
    for key, value in (("min", low), ("max", high), ("step", step)):
        if value != int(value):
            raise ValueError(f"{key}: {value!r} is not whole; use a whole number")
    first, by = Decimal(int(low)), Decimal(int(step))
    return Grid(_steps(first, Decimal(int(high)), by), 0, first, by, int)


def _decimals(low: float, high: float, step: float | None) -> Grid:
    first, last = decimal(float(low)), decimal(float(high))
    if step is None:
        smaller = min((abs(one) for one in (first, last) if one), default=Decimal(1))
        by = Decimal(1).scaleb(smaller.adjusted() - 2)  # three digits at the smaller end
    else:
        by = decimal(float(step))
    return Grid(_steps(first, last, by), max(places(by), places(first)), first, by)


def _steps(first: Decimal, last: Decimal, by: Decimal) -> int:
    if last < first:
        raise ValueError(f"max: {last} is below min, {first}; swap them")
    steps = (last - first) / by
    if steps != steps.to_integral_value():
        raise ValueError(
            f"max: {last} is not a whole number of steps above min; change step or max"
        )
    return int(steps) + 1
