"""Grade one JSON object field by field and write the reward."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass

LOGS = "/logs/verifier"
SIZE_LIMIT = 1 << 20


class Unusable(Exception):
    """Why an output file earns nothing at all."""


@dataclass(frozen=True)
class Field:
    """One answer: what is expected, how near it must be, and its share of the reward.

    A field with ``needs`` earns its share only when the named fields are right too, so that a
    guessed verdict is worth nothing without the figures it rests on.
    """

    name: str
    expected: bool | int | float | str
    weight: float
    relative: float = 0.0
    absolute: float = 0.0
    needs: tuple[str, ...] = ()

    @property
    def tolerance(self) -> str:
        if self.relative:
            return f"±{100 * self.relative:g} %"
        return f"±{self.absolute:g}" if self.absolute else "exact"

    def fault(self, answer: dict[str, object]) -> str | None:
        """Say what is wrong with this field of the answer, if anything."""
        if self.name not in answer:
            return "missing"
        value = answer[self.name]
        if isinstance(self.expected, (bool, str)):
            if type(value) is not type(self.expected):
                return f"is {kind(value)}, must be {kind(self.expected)}"
            return None if value == self.expected else "wrong"
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"is {kind(value)}, must be a number"
        try:
            error = abs(float(value) - self.expected)
        except OverflowError:
            return "too large"
        allowed = max(self.absolute, self.relative * abs(self.expected))
        return None if error <= allowed else "outside the tolerance"


def kind(value: object) -> str:
    """Name a JSON value's type as people do."""
    names = {bool: "true/false", int: "a number", float: "a number", str: "a text"}
    names |= {dict: "an object", list: "a list", type(None): "null"}
    return names[type(value)]


def shown(value: object) -> str:
    """Describe a value in a few characters, whatever its size or depth."""
    return kind(value) if isinstance(value, (dict, list)) else repr(value)[:80]


def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object, refusing one that answers a field twice."""
    built = dict(pairs)
    if len(built) != len(pairs):
        raise ValueError("a key occurs twice")
    return built


def no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python reads but JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def read_object(path: str) -> dict[str, object]:
    """Read the one JSON object in an untrusted file, or raise Unusable with the reason."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Unusable(f"{path} is not a regular file")
        with open(path, "rb") as stream:
            data = stream.read(SIZE_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise Unusable(f"{path} does not exist") from None
    except PermissionError:
        raise Unusable(f"{path} may not be read") from None
    if len(data) > SIZE_LIMIT:
        raise Unusable(f"{path} is larger than {SIZE_LIMIT} bytes")
    if not data.strip():
        raise Unusable(f"{path} is empty")
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_constant=no_constant,
            object_pairs_hook=without_duplicates,
        )
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{path} is not one JSON object: {error}"[:300]) from None
    if not isinstance(value, dict):
        raise Unusable(f"{path} holds {kind(value)}, must hold one JSON object")
    return value


def write_json(name: str, value: object) -> None:
    """Write a log file whole or not at all."""
    path = os.path.join(LOGS, name)
    with open(f"{path}.part", "w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=2, allow_nan=False)
        stream.write("\n")
    os.replace(f"{path}.part", path)


def grade(path: str, fields: list[Field]) -> None:
    """Grade the file at ``path``; the reward is written last, when nothing can fail any more."""
    problem = None
    answer: dict[str, object] = {}
    try:
        answer = read_object(path)
    except Unusable as reason:
        problem = str(reason)
    faults = {field.name: field.fault(answer) for field in fields}
    for field in fields:
        lacking = [name for name in field.needs if faults[name]]
        if lacking and not faults[field.name]:
            faults[field.name] = f"counts only with {', '.join(lacking)}"
    details = {
        field.name: {
            "ok": not faults[field.name],
            "got": shown(answer[field.name]) if field.name in answer else None,
            "expected": field.expected,
            "tolerance": field.tolerance,
            "weight": field.weight,
            "error": faults[field.name],
        }
        for field in fields
    }
    reward = round(sum(field.weight for field in fields if not faults[field.name]), 6)
    scores = {field.name: 0 if faults[field.name] else 1 for field in fields}
    os.makedirs(LOGS, exist_ok=True)
    write_json("details.json", {"problem": problem, "fields": details})
    write_json("reward.json", {"reward": reward, **scores})
    print(f"reward {reward:g}")
    lines = [f"{name}: {fault}" for name, fault in faults.items() if fault]
    print("\n".join([problem] if problem else lines))
