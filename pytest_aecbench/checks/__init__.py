"""Checks of a task itself, made before it scores any agent: problems, findings and hints."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_aecbench.ledger.checks import EXPLOITS

__all__ = ["CHECKS", "Finding", "NotApplicableError", "Problem"]


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


# name -> (dotted path of a function that is called with the Rehearsal, the extra it needs)
CHECKS: dict[str, tuple[str, str | None]] = {
    "structure": ("pytest_aecbench.checks.files.structure", None),
    "instruction": ("pytest_aecbench.checks.files.instruction", None),
    "image": ("pytest_aecbench.checks.image.image", None),
    "secrecy": ("pytest_aecbench.checks.secrecy.secrecy", None),
    "leaks": ("pytest_aecbench.checks.leaks.leaks", None),
    "solution": ("pytest_aecbench.checks.rewards.solution", None),
    "empty": ("pytest_aecbench.checks.rewards.empty", None),
    "golden_pass": ("pytest_aecbench.checks.rewards.golden_pass", None),
    "golden_fail": ("pytest_aecbench.checks.rewards.golden_fail", None),
    "deterministic": ("pytest_aecbench.checks.verifier.deterministic", None),
    "offline": ("pytest_aecbench.checks.verifier.offline", None),
    "timely": ("pytest_aecbench.checks.verifier.timely", None),
    "writes": ("pytest_aecbench.checks.verifier.writes", None),
    "malformed": ("pytest_aecbench.checks.malformed.malformed", None),
    "isolation": ("pytest_aecbench.checks.verifier.isolation", None),
    **dict.fromkeys(EXPLOITS, ("pytest_aecbench.checks.exploits.exploit", None)),
}
