"""What happens in a trial, stage by stage; the fixtures call these."""

from __future__ import annotations

import inspect
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pytest_aecbench.agents import Agent, AgentLimits, AgentResult
from pytest_aecbench.backends import ComputeBackend, Limits
from pytest_aecbench.errors import AecBenchError, TransferError
from pytest_aecbench.reward import Reward, read_reward
from pytest_aecbench.sandbox import Sandbox
from pytest_aecbench.trial import MARGIN_SEC

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.trial import Trial

__all__ = ["attempt", "collect", "launch", "stage_inputs", "verify", "verify_here"]


def launch(
    trial: Trial,
    backend: ComputeBackend,
    image: str,
    workspace_dir: Path,
    *,
    network: bool | None = None,
) -> Sandbox:
    """Start a sandbox whose working directory starts with what ``workspace_dir`` holds.

    ``network`` of None is as the task says.
    """
    config = trial.task.config.environment
    env = trial.task.environment_env()
    limits = Limits(
        cpus=config.cpus,
        memory_mb=config.memory_mb,
        storage_mb=config.storage_mb,
        network=config.allow_internet if network is None else network,
        lifetime_sec=trial.agent_timeout_sec + trial.verifier_timeout_sec + MARGIN_SEC,
    )
    # The protocol has no limits; our own backends and those that want them take them.
    extra = {"limits": limits} if _accepts_limits(backend) else {}
    handle = backend.launch_trial(image_ref=image, workspace_dir=workspace_dir, **extra)
    return Sandbox(backend, handle, env)


def _accepts_limits(backend: ComputeBackend) -> bool:
    parameters = inspect.signature(backend.launch_trial).parameters.values()
    return any(p.name == "limits" or p.kind is p.VAR_KEYWORD for p in parameters)


def stage_inputs(trial: Trial) -> None:
    """Make the trial's directories and put the task's tools in its workspace."""
    with _transferring(trial.directory):
        trial.workspace_dir.mkdir(parents=True)
        if trial.task.tools:
            tools = trial.workspace_dir / "tools"
            tools.mkdir()
            for tool in trial.task.tools:
                shutil.copy2(tool, tools)


def attempt(trial: Trial, sandbox: Sandbox, agent: Agent) -> AgentResult:
    """Let the agent work."""
    sandbox.user = trial.task.config.agent.user
    with _evidence_kept(trial, sandbox), trial.timed("agent"):
        return agent.run(trial.task, sandbox, AgentLimits(timeout_sec=trial.agent_timeout_sec))


def verify(trial: Trial, sandbox: Sandbox, backend: ComputeBackend, image: str) -> Reward:
    """Stop the agent's processes, run the verifier, bring everything home, read the reward."""
    sandbox.user = trial.task.config.verifier.user
    if trial.task.config.verifier.environment_mode == "separate":
        return _verify_separately(trial, sandbox, backend, image)
    return verify_here(trial, sandbox)


def verify_here(trial: Trial, sandbox: Sandbox) -> Reward:
    """Verify in this very sandbox, whatever the task says."""
    sandbox.user = trial.task.config.verifier.user
    with _evidence_kept(trial, sandbox):
        _run_verifier(trial, sandbox)
        collect(trial, sandbox)
    return _read(trial)


def _verify_separately(
    trial: Trial, sandbox: Sandbox, backend: ComputeBackend, image: str
) -> Reward:
    """Verify in a fresh sandbox that gets nothing of the agent's but its working directory."""
    with trial.timed("collect"):
        sandbox.execute("true", exclusive=True)
    collect(trial, sandbox)
    copy = trial.directory / "verifier-workspace"
    with _transferring(copy):
        shutil.copytree(trial.workspace_dir, copy, symlinks=True)
    try:
        with trial.timed("launch"):
            fresh = launch(trial, backend, image, copy)
            fresh.user, fresh.env = sandbox.user, sandbox.env
        try:
            _run_verifier(trial, fresh)
            with trial.timed("collect"), _transferring(trial.logs_dir):
                _replace(fresh.collect().logs / "verifier", trial.logs_dir / "verifier")
        finally:
            fresh.close()
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return _read(trial)


def _run_verifier(trial: Trial, sandbox: Sandbox) -> None:
    task = trial.task
    empty = trial.directory / "empty"
    empty.mkdir(exist_ok=True)
    with trial.timed("verify"):
        trial.verification = sandbox.execute(
            task.verifier_command,
            env=task.verifier_env(),
            timeout_sec=trial.verifier_timeout_sec,
            uploads={"/tests": task.tests_dir, "/logs/verifier": empty},
            exclusive=True,
        )
    empty.rmdir()


def collect(trial: Trial, sandbox: Sandbox) -> None:
    """Bring the working directory and the logs into the trial's directory."""
    with trial.timed("collect"), _transferring(trial.directory):
        artifacts = sandbox.collect()
        _replace(artifacts.workspace, trial.workspace_dir)
        _replace(artifacts.logs, trial.logs_dir)
        trial.warnings.extend(f"not collected: {name}" for name in artifacts.skipped)
        trial.collected = True


def _replace(source: Path, target: Path) -> None:
    if source == target:
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)


def _read(trial: Trial) -> Reward:
    verification = trial.verification
    assert verification is not None
    trial.phase = "verify"
    reward = read_reward(
        trial.logs_dir / "verifier",
        script=trial.task.verifier_command,
        returncode=verification.returncode,
        timed_out=verification.timed_out,
        output=verification.stdout + verification.stderr,
    )
    trial.warnings.extend(reward.warnings)
    if verification.returncode != 0:
        trial.warnings.append(f"verifier: exit code {verification.returncode}, reward all the same")
    return reward


@contextmanager
def _transferring(where: Path) -> Iterator[None]:
    """Turn trouble with the host's files into an error of the infrastructure."""
    try:
        yield
    except OSError as error:
        raise TransferError(f"{where}: {error.strerror or error}") from error


@contextmanager
def _evidence_kept(trial: Trial, sandbox: Sandbox) -> Iterator[None]:
    """Collect what there is before an error leads to teardown."""
    try:
        yield
    except AecBenchError:
        phase = trial.phase
        with suppress(AecBenchError, OSError):
            collect(trial, sandbox)
        trial.phase = phase
        raise
