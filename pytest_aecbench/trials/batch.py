"""Trials that a backend runs as a whole, many of them as one job.

The fixtures call these functions on the floor, where a trial gathers with all others of the run.
"""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING

from pytest_aecbench.agents import AGENT_FILES, AgentLimits, AgentResult, InsideAgent
from pytest_aecbench.agents.files import DIRECTORY, stage_files
from pytest_aecbench.backends import BackendExecutionRequest, TrialRequest
from pytest_aecbench.errors import BackendError, BackendLost, SettingsError, VerifierError
from pytest_aecbench.host.homes import remove_tree
from pytest_aecbench.host.lanes import away, gather
from pytest_aecbench.trials.full_disk import check_space
from pytest_aecbench.trials.stages import (
    BACKENDS_OWN,
    attributed,
    keep_artifacts,
    launch,
    limits_of,
    replace_tree,
    stage_inputs,
    transferring,
)
from pytest_aecbench.trials.verification import (
    EMPTY,
    read_verdict,
    second_opinion,
    verifier_request,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.agents import Agent
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends import BatchBackend, ComputeBackend, TrialOutcome
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.trial import Trial

__all__ = ["attempt", "inside", "verify"]

_STAGING = "staging"


def inside(spec: AgentSpec, agent: Agent, backend: ComputeBackend) -> InsideAgent:
    """Return the agent if it is one command; raise SettingsError if it works from the host."""
    if isinstance(agent, InsideAgent):
        return agent
    name = getattr(backend, "name", type(backend).__name__)
    raise SettingsError(
        f"{spec.name}: {spec.harness!r} sends its commands one by one, and {name} runs whole "
        "trials; use an agent that is one command in the sandbox (command, nop, oracle, replay), "
        "or --aec-backend=docker"
    )


def attempt(
    trial: Trial,
    sandbox: Sandbox,
    agent: InsideAgent,
    backend: BatchBackend,
    image: str,
    network: bool | None,
) -> AgentResult:
    """Let the agent and the verifier work as part of a job; bring home what they left."""
    staging = trial.directory / _STAGING
    try:
        request = away(_request, trial, sandbox, agent, image, network, staging)
        with attributed(trial):
            trial.outcome = _submit(trial, backend, request)
    finally:
        away(remove_tree, staging)
    trial.check_unchanged()  # nor while its files were staged
    if trial.outcome is not None:
        away(_take_home, trial, trial.outcome)
        return agent.read_result(trial.outcome.agent)
    return AgentResult(status="failed", end="sandbox_broken", error=trial.broken)


def _request(
    trial: Trial,
    sandbox: Sandbox,
    agent: InsideAgent,
    image: str,
    network: bool | None,
    staging: Path,
) -> TrialRequest:
    trial.check_unchanged()
    with transferring(staging):
        staging.mkdir()
        if trial.agent.files and trial.evaluates is None:
            stage_files(trial.agent, staging / AGENT_FILES)
    sandbox.user = trial.task.config.agent.user
    limits = AgentLimits.of(trial.agent.parameters, trial.agent_timeout_sec)
    request = sandbox.completed(agent.request(trial.task, limits, staging))
    return _whole(trial, sandbox, request, image, network)


def _whole(
    trial: Trial,
    sandbox: Sandbox,
    agent: BackendExecutionRequest,
    image: str,
    network: bool | None = None,
) -> TrialRequest:
    """Return a trial's request: the agent's command, and the verifier's if there is to be one."""
    verifier = None
    if trial.settings.verify:
        sandbox.user = trial.task.config.verifier.user
        verifier = sandbox.completed(verifier_request(trial, {}))
    return TrialRequest(
        trial_id=sandbox.handle.handle_id,
        image_ref=trial.agent_image or image,
        workspace_dir=trial.workspace_dir,
        agent=agent,
        verifier=verifier,
        limits=limits_of(trial, network=network),
        verifier_image_ref=image if trial.task.verifier_mode == "separate" else None,
        verifier_network=trial.task.config.environment.allow_internet,
    )


def _submit(trial: Trial, backend: BatchBackend, request: TrialRequest) -> TrialOutcome:
    begun, before = time.monotonic(), trial.timing.get("agent", 0.0)
    with trial.timed("agent"):  # as far as is known; a trial that only waits leaves no record
        outcome: TrialOutcome = gather(backend.submit_trials, request)
    trial.timing["agent"] = before
    del trial.starts["agent"]
    worked = sum(outcome.timing.values())
    start = time.monotonic() - worked
    trial.charge("wait", begun, max(0.0, start - begun))
    for phase, seconds in outcome.timing.items():
        trial.charge(phase, start, seconds)
        start += seconds
    return outcome


def _take_home(trial: Trial, outcome: TrialOutcome) -> None:
    trial.warnings.extend(outcome.notes)
    trial.verification = outcome.verifier
    with trial.timed("collect"), transferring(trial.directory):
        keep_artifacts(trial, outcome.artifacts)
        remove_tree(trial.directory / EMPTY)
        if trial.agent.files:  # they are the user's, and not among the agent's results
            remove_tree(trial.logs_dir / DIRECTORY.removeprefix("/logs/"))
    check_space(trial.settings.jobs_root)


def verify(trial: Trial, backend: BatchBackend, image: str) -> Reward:
    """Return the reward that came home with the trial."""
    judge = partial(_verify_again, trial, backend, image)
    try:
        if trial.outcome is None:  # the agent broke its sandbox
            return judge()
        return away(read_verdict, trial)
    except (VerifierError, BackendError) as error:
        if isinstance(error, BACKENDS_OWN):
            raise
        control = partial(_gives_a_reward_for_nothing, trial, backend, image)
        return second_opinion(trial, error, control, judge)


def _verify_again(trial: Trial, backend: BatchBackend, image: str) -> Reward:
    """Verify the working directory that the agent has left, in a job of its own."""
    again = trial.beside("again")
    away(again.workspace_dir.mkdir, parents=True)
    try:
        if not trial.workspace_dir.is_dir():
            raise BackendLost(f"{trial.workspace_dir}: was removed on the host while the trial ran")
        away(replace_tree, trial.workspace_dir, again.workspace_dir)
        _verify_alone(again, backend, image)
        away(replace_tree, again.logs_dir / "verifier", trial.logs_dir / "verifier")
    finally:
        away(remove_tree, again.directory)
    trial.verification = again.verification
    return read_verdict(trial)


def _gives_a_reward_for_nothing(trial: Trial, backend: BatchBackend, image: str) -> bool:
    control = trial.beside("control")
    try:
        away(stage_inputs, control)
        _verify_alone(control, backend, image)
        read_verdict(control)
    except (VerifierError, BackendError) as error:
        if isinstance(error, BACKENDS_OWN):
            raise
        return False
    finally:
        away(shutil.rmtree, control.directory, ignore_errors=True)
    return True


def _verify_alone(trial: Trial, backend: BatchBackend, image: str) -> None:
    """Run the verifier on what is in the trial's workspace, without an agent."""
    sandbox = away(launch, trial, backend, image, trial.workspace_dir)
    try:
        nothing = BackendExecutionRequest(":")
        request = away(_whole, trial, sandbox, nothing, image)
        away(_take_home, trial, _submit(trial, backend, request))
    finally:
        away(sandbox.close)
