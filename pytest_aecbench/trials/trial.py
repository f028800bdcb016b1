"""One attempt of a trial while it is under way, and the record it leaves."""

from __future__ import annotations

import math
import os
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_aecbench.errors import TaskError
from pytest_aecbench.ledger.identity import trial_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path, PurePosixPath

    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends import BackendExecutionResult, TrialOutcome
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.datasets.drift import DatasetInUse
    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.settings.model import Settings
    from pytest_aecbench.tasks.task import Task
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.verification import SpareSandbox

__all__ = ["MARGIN_SEC", "Trial", "secrets_of"]

# For set-up and transfers, which have no deadline of their own.
MARGIN_SEC = 600.0
_MAX_CHANGED = 5


@dataclass
class Trial:
    """One task × one agent × one repetition, in one attempt; fixtures fill in what happens."""

    task: Task
    agent: AgentSpec
    repetition: int
    settings: Settings
    attempt: int = 1
    dataset: DatasetInUse | None = None
    evaluates: TrialRecord | None = None
    trial_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    phase: str = "build"
    timing: dict[str, float] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)  # of phases, since ``created``
    created: float = field(default_factory=time.monotonic)
    image: str | None = None
    agent_image: str | None = None  # where the agent is installed on top of the task's
    agent_result: AgentResult | None = None
    verification: BackendExecutionResult | None = None
    verifier_sandbox: Sandbox | None = None  # where it had one to itself that may be kept
    spare: SpareSandbox | None = None  # the verifier's, before it is used
    outcome: TrialOutcome | None = None  # of a trial that ran as part of a job
    reward: Reward | None = None
    collected: bool = False
    begun: TrialRecord | None = None  # the record to keep should no other be possible
    kept: bool = False
    is_charged: bool = False  # to the run, which may have a limit
    broken: str | None = None  # the way in which the agent made its sandbox or work unusable
    is_in_doubt: bool = False  # the agent or the backend is to blame for the error
    is_second_chance: bool = False  # an earlier attempt was in doubt
    is_rehearsal: bool = False  # of a check, which wants to see every error
    within: Path | None = None  # the directory of the trial that this one is beside
    warnings: list[str] = field(default_factory=list)

    @cached_property
    def digest(self) -> str:
        """The digest of the task's files when the attempt began."""
        return self.task.digest

    @cached_property
    def instruction_sha256(self) -> str:
        """The digest of the prompt when the attempt began."""
        return self.task.instruction_sha256

    @cached_property
    def output_path(self) -> PurePosixPath:
        """The file that the agent was asked for when the attempt began."""
        return self.task.output_path

    @cached_property
    def output_below_workdir(self) -> PurePosixPath | None:
        """That file's path in the collected workspace; None if it is elsewhere."""
        return self.task.output_below_workdir()

    @property
    def is_output_written(self) -> bool | None:
        """True if the collected workspace has that file; None if it would be elsewhere."""
        below = self.output_below_workdir
        return None if below is None else os.path.lexists(self.workspace_dir / below)

    @property
    def has_worked(self) -> bool:
        """True if the attempt has come further than to an image and to its turn."""
        return not self.starts.keys() <= {"build", "wait"}

    def check_unchanged(self) -> None:
        """Raise TaskError if the task's files are not those that the attempt began with.

        Otherwise the record would name a task that was not solved, or not verified.
        """
        if self.task.digest == self.digest:
            return
        changed = self.task.changed_since(self.started_at.timestamp())
        what = ", ".join(changed[:_MAX_CHANGED]) or "a file"
        raise TaskError(
            f"{self.task.path}: {what} changed while the trial ran; run the trial again"
        )

    @property
    def key(self) -> str:
        """The identity of the trial wherever and whenever it runs."""
        mounts = map(str, self.settings.mounts)
        return trial_key(self.digest, self.agent, self.repetition, mounts)

    @property
    def threshold(self) -> float:
        """The reward that passes."""
        if self.settings.threshold is not None:
            return self.settings.threshold
        return self.task.config.metadata.pass_threshold

    @property
    def agent_timeout_sec(self) -> float:
        """The time that the agent may take."""
        own = self.settings.timeout_override_sec or self.task.config.agent.timeout_sec
        return own * self.settings.timeout_multiplier

    @property
    def verifier_timeout_sec(self) -> float:
        """The time that the verifier may take."""
        return self.task.config.verifier.timeout_sec * self.settings.timeout_multiplier

    @property
    def lifetime_sec(self) -> float:
        """The time that no sandbox of the trial outlives."""
        healthcheck_sec = self.task.config.environment.healthcheck_sec
        waiting_sec = healthcheck_sec * self.settings.timeout_multiplier
        # While an agent waits for a provider's limits, its own clock stands still.
        waiting_sec += self.agent.max_wait_sec
        # The verifier may run twice.
        return waiting_sec + self.agent_timeout_sec + 2 * self.verifier_timeout_sec + MARGIN_SEC

    @cached_property
    def scrubber(self) -> Scrubber:
        """Knows this machine's credentials and what the task hands over."""
        from pytest_aecbench.host.secrets import Scrubber

        return Scrubber(secrets_of(self.settings, self.task))

    @cached_property
    def directory(self) -> Path:
        """The directory of the trial's files on the host."""
        if self.within is not None:
            return self.within / self.trial_id.rpartition(".")[2]
        return self.settings.jobs_root / self.settings.experiment_id / self.trial_id

    @property
    def workspace_dir(self) -> Path:
        """The agent's working directory on the host."""
        return self.directory / "workspace"

    @property
    def logs_dir(self) -> Path:
        """The sandbox's ``/logs`` on the host."""
        return self.directory / "logs"

    @property
    def agent_dir(self) -> Path:
        """The directory of a host agent's trajectory, out of the sandbox's reach."""
        return self.directory / "agent"

    @property
    def has_agent(self) -> bool:
        """True if an agent is at work, which may be to blame; checks and evaluations have none."""
        return self.evaluates is None and not self.is_rehearsal

    def beside(self, name: str) -> Trial:
        """Return another trial of the task, without an agent, to find out about this one.

        Its files are among this one's, so that they lose their secrets even if the process dies.
        """
        other = replace(
            self,
            trial_id=f"{self.trial_id}.{name}",
            within=self.directory,
            timing={},
            starts={},
            warnings=[],
            broken=None,
        )
        other.spare = other.verifier_sandbox = other.outcome = other.agent_image = None
        return other

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Charge the time of the block to a phase, and blame it if the block fails."""
        from pytest_aecbench.ledger import journal

        self.phase = phase
        settings = self.settings
        journal.enter(settings.ledger_root, settings.experiment_id, self.trial_id, phase)
        start = time.monotonic()
        try:
            yield
        finally:
            self.charge(phase, start, time.monotonic() - start)

    def charge(self, phase: str, start: float, spent_sec: float) -> None:
        """Charge time to a phase that began at ``start`` of the monotonic clock."""
        self.timing[phase] = self.timing.get(phase, 0.0) + spent_sec
        self.starts[phase] = max(0.0, min(self.starts.get(phase, math.inf), start - self.created))


def secrets_of(settings: Settings, task: Task) -> dict[str, str]:
    """Return this machine's credentials, and the secrets that the task hands over."""
    from pytest_aecbench.host.secrets import handed_over, secrets_from

    secrets = settings.secrets()
    secrets.update(handed_over(task.variables, os.environ))
    for env in (task.environment_env, task.verifier_env, task.solution_env):
        with suppress(TaskError):  # a variable that is not set is said where it is needed
            secrets.update(secrets_from(env()))
    with suppress(TaskError):
        for server in task.mcp_servers():
            secrets.update(secrets_from(server.env))
    return secrets
