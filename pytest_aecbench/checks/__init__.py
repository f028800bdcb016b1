"""Checks of a task itself, made before it scores anyone: their names, and what they find."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding", "NotApplicableError", "Problem"]


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
