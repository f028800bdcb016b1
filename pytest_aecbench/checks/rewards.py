"""The checks ``solution``, ``empty`` and ``golden_*``: known answers earn the right reward."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pytest_aecbench.checks import NotApplicableError, Problem
from pytest_aecbench.trials.reward import describe, format_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.checks.rehearsal import Rehearsal
    from pytest_aecbench.trials.reward import Reward

__all__ = ["Example", "empty", "golden_fail", "golden_pass", "solution"]

_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_STATED = re.compile(r"^reward:(.*)$", re.MULTILINE)
_AS_STATED = 0.0005  # rewards are stated to three places


def solution(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield a problem unless the reference solution earns the full reward."""
    if rehearsal.task.solution_script is None:
        yield Problem("no solution/solve.sh or solve.py", "add a solution that earns 1")
        return
    reward = rehearsal.earn()
    if reward.value < 1:
        yield Problem(
            f"the solution: {describe(reward, 1)}{_end(rehearsal.execute())}",
            "make solution and verifier agree: one of them is wrong, or the prompt is ambiguous",
        )


def _end(result: AgentResult) -> str:
    if result.error is None:
        return ""
    lines = (result.stderr or result.stdout).strip().splitlines()
    return f"; it ended with {result.error}: {lines[-1][:200] if lines else 'it printed nothing'}"


def empty(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield a problem if an empty workspace earns anything."""
    reward = rehearsal.earn()
    if reward.value > 0:
        yield Problem(
            f"an empty workspace: {describe(reward, 0)}",
            "let the verifier give 0 when the output file is missing",
        )


def golden_pass(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield a problem unless the example of a good answer passes."""
    threshold = rehearsal.trial.threshold
    for example, reward in _submitted(rehearsal, "golden_pass.md"):
        if reward.value < threshold:
            yield Problem(
                f"{example.name}: {describe(reward, threshold)}",
                f"correct the example in tests/fixtures/{example.name}, or the verifier's "
                "tolerances",
            )


def golden_fail(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield a problem for each example of a bad answer that passes or earns what it should not."""
    threshold = rehearsal.trial.threshold
    for example, reward in _submitted(rehearsal, "golden_fail.md", "golden_fail_*.md"):
        if reward.value >= threshold:
            yield Problem(
                f"{example.name} passes: {describe(reward, threshold)}",
                f"let the verifier find the mistake that is in tests/fixtures/{example.name}",
            )
        elif not example.agrees(reward.value):
            yield Problem(
                f"{example.name}: reward {format_number(reward.value)}, it states {example.stated}",
                f"correct the line 'reward: ...' in tests/fixtures/{example.name}, or the verifier",
            )


@dataclass(frozen=True, slots=True)
class Example:
    """An answer in ``tests/fixtures`` and the reward that it states, if it does."""

    name: str
    answer: str
    stated: str | None

    @classmethod
    def read(cls, path: Path, output: PurePath) -> Example:
        """Read the answer: the fenced block of the file, or all of it for a Markdown output."""
        text = path.read_text(encoding="utf-8")
        block = _BLOCK.search(text)
        if block is None or output.suffix == ".md":
            return cls(path.name, text, None)
        stated = _STATED.search(text, 0, block.start())
        return cls(path.name, block[1], stated[1].strip() if stated else None)

    def agrees(self, reward: float) -> bool:
        """Return whether this is the reward that the example states, if it does."""
        try:
            return self.stated is None or abs(reward - float(self.stated)) <= _AS_STATED
        except ValueError:
            return False


def _submitted(rehearsal: Rehearsal, *patterns: str) -> Iterator[tuple[Example, Reward]]:
    """Put each example in place of the output, and yield what it earns."""
    task = rehearsal.task
    fixtures = task.tests_dir / "fixtures"
    files = [path for pattern in patterns for path in sorted(fixtures.glob(pattern))]
    if not files:
        raise NotApplicableError(f"no tests/fixtures/{patterns[0]}; add an example")
    rehearsal.execute()
    sandbox = rehearsal.sandbox
    agent_user = sandbox.user
    for file in files:
        example = Example.read(file, task.output_path)
        with tempfile.TemporaryDirectory() as directory:
            answer = Path(directory, "answer")
            answer.write_text(example.answer, encoding="utf-8")
            sandbox.execute("true", uploads={str(task.output_path): answer}, user=agent_user)
        yield example, rehearsal.verify()
