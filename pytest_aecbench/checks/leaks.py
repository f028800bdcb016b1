"""The check ``leaks``: no expected value is in a text that the agent can read.

The expected values are those in the solution's output. A number leaks if a visible text has it to
at least four significant digits (six in a text full of numbers, where four would match by chance).
Any value leaks if it follows its own name, as in an example of the output. Yes or no never leaks.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.checks import NotApplicableError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.checks.rehearsal import Rehearsal
    from pytest_aecbench.tasks.task import Task

__all__ = ["leaks"]

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])")
_DIGITS, _MORE_DIGITS = 4, 6
_MANY_NUMBERS = 200
_MAX_BYTES = 1 << 20


class Expected(NamedTuple):
    """One value of the answer and its name in the output."""

    name: str
    value: float | str


def leaks(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Solve the task, then search for the answer in everything that the agent gets."""
    rehearsal.execute()
    expected = _expected(_output(rehearsal))
    for where, text in _visible(rehearsal.task):
        for one, token in found(text, expected):
            yield Problem(
                f"{where}: {token} is the expected {one.name}",
                "remove it from the texts for the agent; if it is there on purpose, write "
                f'metadata.check_allow = ["leaks:{token}"] in task.toml',
                key=token,
            )


def _output(rehearsal: Rehearsal) -> str:
    """Return the output file that the solution wrote."""
    from pytest_aecbench.trials import stages

    trial, below = rehearsal.trial, rehearsal.task.output_below_workdir()
    stages.collect(trial, rehearsal.sandbox)
    path = trial.workspace_dir / below if below else None
    if path is None or path.is_symlink() or not path.is_file():
        raise NotApplicableError(f"the solution wrote no {rehearsal.task.output_path}")
    return path.read_text(encoding="utf-8", errors="replace")


def _expected(output: str) -> list[Expected]:
    """Return the values of the answer's JSON, else the numbers in its text."""
    values: list[Expected] = []
    try:
        for line in _documents(output):
            values += _leaves(json.loads(line))
    except (ValueError, RecursionError):
        return [Expected("value", float(number)) for number in _NUMBER.findall(output)]
    return values


def _documents(output: str) -> list[str]:
    try:
        json.loads(output)
    except ValueError:
        return [line for line in output.splitlines() if line.strip()]
    return [output]


def _leaves(value: object, name: str = "value") -> Iterator[Expected]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield Expected(name, float(value))
    elif isinstance(value, str) and value:
        yield Expected(name, value)


def _visible(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the texts that an agent can read: prompt, image sources, tools, variables."""
    yield "instruction.md", task.instruction
    for directory in ("environment", "tools"):
        for path in sorted((task.path / directory).rglob("*")):
            if path.is_file() and path.stat().st_size <= _MAX_BYTES:
                yield path.relative_to(task.path).as_posix(), _text(path)
    for name, value in task.config.environment.env.items():
        yield f"environment.env.{name}", value


def _text(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def found(text: str, expected: list[Expected]) -> Iterator[tuple[Expected, str]]:
    """Yield each expected value that the text reveals, and how it is written there."""
    tokens = list(dict.fromkeys(_NUMBER.findall(text)))
    digits = _MORE_DIGITS if len(tokens) > _MANY_NUMBERS else _DIGITS
    precise = [token for token in tokens if _significant(token) >= digits]
    for one in expected:
        if isinstance(one.value, str):
            pair = re.search(rf"{_key(one)}\s*\"?({re.escape(one.value)})\b", text)
            if pair and one.name != "value":
                yield one, pair[1]
            continue
        named = re.search(rf"{_key(one)}\s*({_NUMBER.pattern})", text)
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
