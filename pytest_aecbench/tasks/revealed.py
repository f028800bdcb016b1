"""Expected values in a text that the agent can read.

A number is revealed if the text has it to at least four significant digits (six in a text full of
numbers, where four would match by chance). Any value is revealed if it follows its own name, as in
an example of the output.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NUMBER", "Expected", "found"]

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])")
_DIGITS, _MORE_DIGITS = 4, 6
_MANY_NUMBERS = 200


class Expected(NamedTuple):
    """One value of the answer and its name in the output."""

    name: str
    value: float | str


def found(text: str, expected: list[Expected]) -> Iterator[tuple[Expected, str]]:
    """Yield each expected value that the text reveals, and how it is written there."""
    tokens = list(dict.fromkeys(NUMBER.findall(text)))
    digits = _MORE_DIGITS if len(tokens) > _MANY_NUMBERS else _DIGITS
    precise = [token for token in tokens if _significant(token) >= digits]
    for one in expected:
        if isinstance(one.value, str):
            pair = re.search(rf"{_key(one)}\s*\"?({re.escape(one.value)})\b", text)
            if pair and one.name != "value":
                yield one, pair[1]
            continue
        named = re.search(rf"{_key(one)}\s*({NUMBER.pattern})", text)
        if named and one.value and one.name != "value" and _is_example(named[1], one.value):
            yield one, named[1]
            continue
        for token in precise:
            if _is(token, one.value):
                yield one, token
                break


def _key(one: Expected) -> str:
    return rf"[\"'`]{re.escape(one.name)}[\"'`]\s*[:=]"


def _significant(token: str) -> int:
    return len(re.sub(r"\D", "", token.lower().partition("e")[0]).lstrip("0"))


def _is_example(token: str, value: float) -> bool:
    # Two digits or fewer are probably a placeholder, unless the value has no more.
    return float(token) == value or (_significant(token) > 2 and _is(token, value))


def _is(token: str, value: float) -> bool:
    """Return whether the token is the value, rounded to the token's decimal places."""
    mantissa, _, exponent = token.lower().partition("e")
    places = len(mantissa.partition(".")[2]) - int(exponent or 0)
    error = abs(float(token) - value)
    return math.isfinite(error) and error <= float(f"0.5000001e{-places}")
