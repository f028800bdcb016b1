"""The reward: what a verifier wrote, read without trusting it."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import reprlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn

from pytest_aecbench.errors import VerifierError
from pytest_aecbench.host.files import read_regular
from pytest_aecbench.text import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Reward", "describe", "format_number", "read_reward"]

_Source = Literal["reward.json", "reward.txt", "none"]
# Where a reward may be, the first before the second, and what would be right there.
_SOURCES: dict[_Source, str] = {
    "reward.json": 'write {"reward": x} with x from 0 to 1',
    "reward.txt": "write a number from 0 to 1",
}
_MAX_BYTES = 1 << 20
_LAST_LINES = 10
_SHOWN_DETAILS = 8
# Digits match in one way only, or many of them would take the square of their number of steps.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a trial, from 0 to 1, and its details.

    ``details`` holds the verifier's named numbers, ``breakdown`` all of its ``details.json``, and
    ``warnings`` what was wrong but left the reward usable. The source of a reward that no verifier
    gave is ``none``.
    """

    value: float
    source: _Source
    details: Mapping[str, float] = field(default_factory=dict)
    breakdown: object = None
    warnings: tuple[str, ...] = ()


class _UnusableError(Exception):
    """Something else was found in place of a reward."""


def read_reward(
    directory: Path, *, script: str, returncode: int | None, timed_out: bool, output: str
) -> Reward:
    """Read what the verifier ``script`` left in ``directory``, or raise a VerifierError.

    A verifier that was stopped at its deadline has no reward, whatever it had written by then:
    many write a zero first and replace it when they are done.
    """
    try:
        if timed_out:
            raise _UnusableError("stopped at its deadline; raise verifier.timeout_sec")
        return _read(directory)
    except _UnusableError as error:
        ended = "timed out" if timed_out else f"exit code {returncode}"
        raise VerifierError(f"{script} ({ended}): {error}\n{_last_lines(output)}") from None


def describe(reward: Reward, threshold: float) -> str:
    """Return in one line what was earned and what was needed."""
    earned, needed = format_number(reward.value), format_number(threshold)
    if earned == needed and reward.value != threshold:
        earned, needed = f"{reward.value:.12g}", f"{threshold:.12g}"
    shown = [f"{_word(name)} {format_number(value)}" for name, value in reward.details.items()]
    if len(shown) > _SHOWN_DETAILS:
        shown[_SHOWN_DETAILS:] = [f"{len(shown) - _SHOWN_DETAILS} more"]
    return f"reward {earned}, needed {needed}" + (f" ({', '.join(shown)})" if shown else "")


def format_number(number: float) -> str:
    """Write a number with up to four significant digits, or all that stand before the point."""
    return f"{number:.0f}" if 9999.5 <= abs(number) < 1e15 else f"{number + 0.0:.4g}"


def _word(name: str) -> str:
    return name if name.isprintable() and len(name) <= 60 else reprlib.repr(name)


def _last_lines(output: str) -> str:
    lines = output[-20_000:].rstrip().splitlines()[-_LAST_LINES:]
    if not lines:
        return "it printed nothing"
    shown = (printable(shortened(line, 200).replace("\t", " ")) for line in lines)
    return "\n".join(("the last it printed:", *(f"  {line}" for line in shown)))


def _read(directory: Path) -> Reward:
    if directory.is_symlink():
        raise _UnusableError("/logs/verifier is a symbolic link; leave it a directory")
    source = next((name for name in _SOURCES if os.path.lexists(directory / name)), None)
    if source is None:
        raise _UnusableError("no reward.json or reward.txt in /logs/verifier; write one of them")
    try:
        value, details = _graded(_content(directory / source))
    except _UnusableError as error:
        raise _UnusableError(f"{source}: {error}; {_SOURCES[source]}") from None
    breakdown: object = None
    warnings: tuple[str, ...] = ()
    if os.path.lexists(directory / "details.json"):
        try:
            breakdown = _content(directory / "details.json")
        except _UnusableError as error:
            warnings = (f"details.json: {error}; there is no breakdown",)
    return Reward(value, source, details or _numbers(breakdown), breakdown, warnings)


def _graded(content: object) -> tuple[float, dict[str, float]]:
    """Find the one value, and the named numbers beside it."""
    if not isinstance(content, dict):
        return _fraction(content), {}
    if "reward" in content:
        rest = {name: value for name, value in content.items() if name != "reward"}
        return _fraction(content["reward"], "reward"), _numbers(rest)
    if not content:
        raise _UnusableError("an empty object")
    for name, value in content.items():
        if not isinstance(value, (int, float)):
            what = f"{_word(name)}: {reprlib.repr(value)} is not a number"
            raise _UnusableError(f"no reward, and {what}")
    fractions = [_fraction(value, _word(name)) for name, value in content.items()]
    return round(sum(fractions) / len(fractions), 12), _numbers(content)


def _fraction(value: object, name: str = "") -> float:
    where = f"{name}: " if name else ""
    number = _number(value)
    if number is None:
        raise _UnusableError(f"{where}{reprlib.repr(value)} is not a number")
    # Weights that should add up to 1 add up to 0.9999999999999999 as readily.
    number = round(number, 12)
    if not 0 <= number <= 1:
        raise _UnusableError(f"{where}{reprlib.repr(value)} is out of range")
    return abs(number)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("true", "false"):
            return float(text.lower() == "true")
        return float(text) if _NUMBER.fullmatch(text) else None
    return float(value) if isinstance(value, (int, float)) else None


def _numbers(content: object) -> dict[str, float]:
    items = content.items() if isinstance(content, dict) else ()
    return {name: float(value) for name, value in items if isinstance(value, (int, float))}


def _content(file: Path) -> object:
    text = _text(file)
    if not text.strip():
        raise _UnusableError("empty")
    if file.suffix != ".json":
        return text.strip()
    try:
        content = json.loads(
            text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole_number
        )
        if "\\u" in text:
            json.dumps(content, ensure_ascii=False).encode()  # an escape may be half a character
    except RecursionError:
        raise _UnusableError("nested too deep") from None
    except ValueError as error:
        raise _UnusableError(f"{reprlib.repr(text)} is not JSON ({error})") from None
    return content


def _text(file: Path) -> str:
    try:
        data = read_regular(file, _MAX_BYTES, follow=False)
    except OSError as error:
        link = error.errno == errno.ELOOP
        raise _UnusableError("not a regular file" if link else str(error.strerror)) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _UnusableError(f"{reprlib.repr(data)} is not UTF-8") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _whole_number(digits: str) -> float:
    return int(digits) if len(digits) < 19 else _finite(digits)
