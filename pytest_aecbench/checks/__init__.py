"""Checks of a task itself, made before it scores any agent: problems, findings and hints."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding", "NotApplicableError", "Problem"]


class NotApplicableError(Exception):
    """The reason why a check cannot be made of this task, or not on this backend."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a task; ``key`` is its name in ``metadata.check_allow``."""

    what: str
    hint: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """All problems that one check found."""

    problems: tuple[Problem, ...]

    @property
    def message(self) -> str:
        """The problems, one per line."""
        return "\n".join(problem.what for problem in self.problems)

    @property
    def hint(self) -> str:
        """The ways to correct them."""
        return "; ".join(dict.fromkeys(problem.hint for problem in self.problems))

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"
