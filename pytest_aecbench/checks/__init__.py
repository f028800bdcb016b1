"""Checks of a task itself, made before it scores anyone: their names, and what they find."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_aecbench.errors import SettingsError

__all__ = [
    "EXPLOITS",
    "GROUPS",
    "STANDARD",
    "Finding",
    "NotApplicableError",
    "Problem",
    "parse_checks",
]

STANDARD = (
    "structure",
    "instruction",
    "image",
    "secrecy",
    "leaks",
    "solution",
    "empty",
    "golden_pass",
    "golden_fail",
    "deterministic",
    "offline",
    "timely",
    "writes",
    "malformed",
)
EXPLOITS = tuple(
    f"exploit:{name}"
    for name in (
        "written-reward",
        "background-writer",
        "planted-verifier",
        "shadowed-python",
        "shadowed-modules",
        "shadowed-tools",
        "sitecustomize",
        "conftest",
        "shell-startup",
        "preload",
        "linked-output",
        "watched-tests",
        "watched-processes",
    )
)
GROUPS = {"standard": STANDARD, "exploits": EXPLOITS, "all": (*STANDARD, *EXPLOITS)}


class NotApplicableError(Exception):
    """Why a check cannot be made of this task, or not on this backend."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; ``key`` is what ``metadata.check_allow`` knows it by."""

    what: str
    hint: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """All that one check found wrong."""

    problems: tuple[Problem, ...]

    @property
    def message(self) -> str:
        """What is wrong, a line for each thing."""
        return "\n".join(problem.what for problem in self.problems)

    @property
    def hint(self) -> str:
        """What would put it right."""
        return "; ".join(dict.fromkeys(problem.hint for problem in self.problems))

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"


def parse_checks(text: str, where: str) -> tuple[str, ...]:
    """Read which checks to make: names of checks and of groups, separated by commas."""
    chosen: dict[str, None] = {}
    for word in filter(None, map(str.strip, text.split(","))):
        if word not in GROUPS and word not in GROUPS["all"]:
            valid = ", ".join((*GROUPS, *GROUPS["all"]))
            raise SettingsError(
                f"{where}: {word!r} is no check; use some of {valid}, and put paths before {where}"
            )
        chosen.update(dict.fromkeys(GROUPS.get(word, (word,))))
    if not chosen:
        raise SettingsError(f"{where}: {text!r} names no check; use {', '.join(GROUPS)} or names")
    return tuple(name for name in GROUPS["all"] if name in chosen)
