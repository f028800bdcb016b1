"""Run one check of a task, with the fixtures of a trial that it needs."""

from __future__ import annotations

import shutil
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.checks import CHECKS, Finding, NotApplicableError, Problem
from pytest_aecbench.documents.dotted import load_class
from pytest_aecbench.errors import TaskError, VerifierError
from pytest_aecbench.host.lanes import away, reversible
from pytest_aecbench.trials import stages, verification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.backends import ComputeBackend
    from pytest_aecbench.tasks.task import Task
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.trial import Trial

__all__ = ["Rehearsal", "agent_of", "run_check"]

_SOLVED = ("leaks", "solution", "deterministic", "offline", "timely", "writes", "malformed")
_NO_REWARD = (
    "let the verifier write /logs/verifier/reward.json in every case; "
    "its output shows where it stopped"
)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The task of a check, and the fixtures of a trial of it."""

    directory: Path
    fixture: Callable[[str], Any]

    @property
    def task(self) -> Task:
        """The task."""
        return cast("Task", self.fixture("aec_task"))

    @property
    def trial(self) -> Trial:
        """The current attempt."""
        return cast("Trial", self.fixture("aec_trial"))

    @property
    def backend(self) -> ComputeBackend:
        """The backend."""
        return cast("ComputeBackend", self.fixture("aec_backend"))

    @property
    def image(self) -> str:
        """The task's image, already built."""
        return cast("str", self.fixture("aec_image"))

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox that the fixtures make."""
        return cast("Sandbox", self.fixture("aec_sandbox"))

    def execute(self) -> AgentResult:
        """Run the check's agent in the sandbox."""
        return cast("AgentResult", self.fixture("aec_execution"))

    def earn(self) -> Reward:
        """Run the check's agent, and verify as in any trial."""
        return cast("Reward", self.fixture("aec_reward"))

    def verify(self) -> Reward:
        """Verify the sandbox in its present state; this can be repeated."""
        return away(verification.verify, self.trial, self.sandbox, self.backend, self.image)

    @contextmanager
    def another(
        self, *, network: bool | None = None, workspace: Path | None = None
    ) -> Iterator[tuple[Trial, Sandbox]]:
        """Start a further sandbox with ``workspace`` and an attempt of its own."""
        trial = replace(self.trial, trial_id=str(uuid.uuid4()), timing={}, warnings=[])
        trial.spare = trial.verifier_sandbox = None
        sandbox = reversible(Sandbox.close, self._start, trial, network, workspace)
        try:
            yield trial, sandbox
        finally:
            away(sandbox.close)

    def _start(self, trial: Trial, network: bool | None, workspace: Path | None) -> Sandbox:
        stages.stage_inputs(trial)
        if workspace is not None:
            shutil.copytree(workspace, trial.workspace_dir, symlinks=True, dirs_exist_ok=True)
        return stages.launch(trial, self.backend, self.image, trial.workspace_dir, network=network)


def agent_of(check: str) -> AgentSpec:
    """Return the agent whose attempt is checked."""
    name = check.removeprefix("exploit:")
    if name != check:
        return AgentSpec(name, "pytest_aecbench.checks.exploits.ExploitAgent", model=name)
    harness = "oracle" if check in _SOLVED else "nop"
    return AgentSpec(harness, harness)


def run_check(name: str, rehearsal: Rehearsal) -> Finding | None:
    """Run one check and return the problems that it found.

    Raises:
        NotApplicableError: the task allows its problems, or it cannot be made here.
        BackendError: the infrastructure failed, which says nothing about the task.

    """
    allowed = _allowed(rehearsal)
    if name in allowed:
        raise NotApplicableError("metadata.check_allow leaves it out")
    if name in _SOLVED and name != "solution" and rehearsal.task.solution_script is None:
        raise NotApplicableError("it needs a solution; check[solution] says what is missing")
    check: Callable[[Rehearsal], Iterable[Problem]] = load_class(name, "--aec-check", CHECKS)
    try:
        problems = list(check(rehearsal))
    except VerifierError as error:
        problems = [Problem(f"the verifier gave no reward: {error}", _NO_REWARD)]
    problems = [problem for problem in problems if not _is_allowed(name, problem, allowed)]
    return Finding(tuple(problems)) if problems else None


def _allowed(rehearsal: Rehearsal) -> tuple[str, ...]:
    try:
        return rehearsal.task.config.metadata.check_allow
    except TaskError:
        return ()


def _is_allowed(name: str, problem: Problem, allowed: Iterable[str]) -> bool:
    """Return whether the task allows the problem: its key, or a path that contains it."""
    key = f"{name}:{problem.key}"
    return any(key == entry or key.startswith(f"{entry.rstrip('/')}/") for entry in allowed)
