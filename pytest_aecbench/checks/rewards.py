"""The checks ``solution``, ``empty`` and ``golden_*``: known answers earn the right reward."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult
from pytest_aecbench.checks import NotApplicableError, Problem
from pytest_aecbench.trials.reward import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.checks.rehearsal import Rehearsal
    from pytest_aecbench.tasks.task import Task

__all__ = ["GoldenAgent", "empty", "golden_fail", "golden_pass", "solution"]

_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


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
    reward, threshold = rehearsal.earn(), rehearsal.trial.threshold
    if reward.value < threshold:
        yield Problem(
            f"golden_pass.md: {describe(reward, threshold)}",
            "correct the example in tests/fixtures/golden_pass.md, or the verifier's tolerances",
        )


def golden_fail(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield a problem if the example of a bad answer passes."""
    reward, threshold = rehearsal.earn(), rehearsal.trial.threshold
    if reward.value >= threshold:
        yield Problem(
            f"golden_fail.md passes: {describe(reward, threshold)}",
            "let the verifier find the mistake that is in tests/fixtures/golden_fail.md",
        )


class GoldenAgent:
    """Submits an example: the fenced block of a file in ``tests/fixtures``, or the whole file."""

    def __init__(self, spec: AgentSpec) -> None:
        self.name = f"{spec.model}.md"

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Write the answer to the path that the prompt names."""
        file = task.tests_dir / "fixtures" / self.name
        if not file.is_file():
            raise NotApplicableError(f"no tests/fixtures/{self.name}; add an example")
        text = file.read_text(encoding="utf-8")
        block = _BLOCK.search(text)
        answer = block[1] if block and task.output_path.suffix != ".md" else text
        with tempfile.TemporaryDirectory() as directory:
            answer_file = Path(directory, "answer")
            answer_file.write_text(answer, encoding="utf-8")
            execution = sandbox.execute("true", uploads={str(task.output_path): answer_file})
        return AgentResult.from_execution(execution)
