"""The values of settings: one function for each kind, named in the table of settings.

Each takes the value as it was written and where that was, and returns what it means. A wrong value
is a SettingsError that starts with the place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_aecbench.agents.spec import AgentSpec, agents_from, parse_agents
from pytest_aecbench.documents.variables import expand_in
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.providers.prices import Price

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_aecbench.reports.gates import Gate

__all__ = ["CHECKS", "choice"]

_MOST_REPETITIONS = 10_000


def text(value: object, where: str) -> str:
    """Read any text."""
    return str(value)


def texts(value: object, where: str) -> tuple[str, ...]:
    """Read a list of texts, whose form the file's schema has checked."""
    assert isinstance(value, (list, tuple))
    return tuple(map(str, value))


def variable(value: object, where: str) -> str:
    """Read a text in which ``$VAR`` stands for a variable."""
    return str(expand_in(str(value), where))


def flag(value: object, where: str) -> bool:
    """Read a flag."""
    return bool(value)


def unless(value: object, where: str) -> bool:
    """Read a flag that turns something off."""
    return not value


def agents(value: object, where: str) -> tuple[AgentSpec, ...]:
    """Read agents, as an experiment lists them or as a user types them."""
    assert isinstance(value, list)
    if any(isinstance(entry, dict) for entry in value):
        return agents_from(value, where)
    return parse_agents([str(text) for text in value], where)


def prices(value: object, where: str) -> dict[str, Price]:
    """Read prices of models, whose form the file's schema has checked."""
    assert isinstance(value, dict)
    return {name: Price(**price) for name, price in value.items()}


def gate(value: object, where: str) -> Gate:
    """Read the rule of a gate."""
    from pytest_aecbench.reports.gate_parser import parse_gate

    return parse_gate(str(value), where)


def checks(value: object, where: str) -> tuple[str, ...]:
    """Read names of checks and of groups of them."""
    from pytest_aecbench.ledger.checks import parse_checks

    return parse_checks(str(value), where)


def count(value: object, where: str) -> int:
    """Read a whole number from 1."""
    return _whole_from(1, value, where)


def repetitions(value: object, where: str) -> int:
    """Read how often a trial is repeated, since each repetition is a test that is collected."""
    number = count(value, where)
    if number > _MOST_REPETITIONS:
        raise SettingsError(f"{where}: {value!r} is not valid; use at most {_MOST_REPETITIONS}")
    return number


def whole(value: object, where: str) -> int:
    """Read a whole number from 0."""
    return _whole_from(0, value, where)


def seconds(value: object, where: str) -> float:
    """Read a number of seconds, or 0."""
    number = _number(value, where, "a number of seconds, or 0 for never")
    if number < 0:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number from 0")
    return number


def positive(value: object, where: str) -> float:
    """Read a number above 0."""
    number = _number(value, where, "a number above 0")
    if number <= 0:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number above 0")
    return number


def share(value: object, where: str) -> float:
    """Read a number from 0 to 1."""
    number = _number(value, where, "a number from 0 to 1")
    if not 0 <= number <= 1:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number from 0 to 1")
    return number


def choice(value: object, where: str, valid: tuple[str, ...]) -> str:
    """Read one of a few words."""
    if value not in valid:
        choices = ", ".join(map(repr, valid))
        raise SettingsError(f"{where}: {value!r} is not valid; use one of {choices}")
    return str(value)


def _whole_from(least: int, value: object, where: str) -> int:
    right = f"a whole number from {least}"
    number = _number(value, where, right)
    if number < least or number != int(number):
        raise SettingsError(f"{where}: {value!r} is not valid; use {right}")
    return int(number)


def _number(value: object, where: str, right: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"{where}: {value!r} is not a number; use {right}")
    return number


CHECKS: dict[str, Callable[[object, str], object]] = {
    check.__name__: check
    for check in (
        agents,
        checks,
        count,
        flag,
        gate,
        positive,
        prices,
        repetitions,
        seconds,
        share,
        text,
        texts,
        unless,
        variable,
        whole,
    )
}
