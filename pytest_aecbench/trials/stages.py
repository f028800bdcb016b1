"""The stages of a trial; the fixtures call them."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench import __version__
from pytest_aecbench.agents import (
    MODEL_AGENTS,
    Agent,
    AgentContext,
    AgentLimits,
    AgentResult,
)
from pytest_aecbench.agents.stored import MARKER
from pytest_aecbench.agents.trajectory import Trajectory
from pytest_aecbench.backends import ComputeBackend, Limits, accepts_limits
from pytest_aecbench.backends.sandbox import Sandbox, await_health
from pytest_aecbench.errors import AecBenchError, LedgerError, TransferError
from pytest_aecbench.tasks.layering import write_layered
from pytest_aecbench.trials.reward import Reward, read_reward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_aecbench.agents.installation import Installation
    from pytest_aecbench.agents.trajectory import Entry
    from pytest_aecbench.trials.trial import Trial

__all__ = [
    "attempt",
    "build_with_agent",
    "check_space",
    "collect",
    "end",
    "launch",
    "stage_inputs",
    "verify",
    "verify_here",
]

_COPY = "verifier-workspace"


def launch(
    trial: Trial,
    backend: ComputeBackend,
    image: str,
    workspace_dir: Path,
    *,
    network: bool | None = None,
) -> Sandbox:
    """Start a sandbox whose working directory starts with what ``workspace_dir`` holds.

    It is healthy by the time it is returned, where the task says how to tell. ``network`` of None
    is as the task says.
    """
    config, settings = trial.task.config.environment, trial.settings
    env = trial.task.environment_env()
    limits = Limits(
        cpus=settings.cpus or config.cpus,
        memory_mb=settings.memory_mb or config.memory_mb,
        storage_mb=config.storage_mb,
        network=config.allow_internet if network is None else network,
        lifetime_sec=trial.lifetime_sec,
    )
    # The protocol has no limits; our own backends and those that want them take them.
    extra = {"limits": limits} if accepts_limits(backend) else {}
    handle = backend.launch_trial(image_ref=image, workspace_dir=workspace_dir, **extra)
    sandbox = Sandbox(backend, handle, env)
    if config.healthcheck is not None:
        try:
            await_health(sandbox, config.healthcheck, trial.settings.timeout_multiplier)
        except BaseException:
            sandbox.close()
            raise
    return sandbox


def stage_inputs(trial: Trial) -> None:
    """Make the trial's directories and put the task's tools in its workspace."""
    check_space(trial.settings.jobs_root)
    with _transferring(trial.directory):
        trial.workspace_dir.mkdir(parents=True)
        if trial.evaluates is not None:
            (trial.workspace_dir / MARKER).touch()
        if trial.task.tools:
            tools = trial.workspace_dir / "tools"
            tools.mkdir()
            for tool in trial.task.tools:
                shutil.copy2(tool, tools)


def build_with_agent(
    trial: Trial, backend: ComputeBackend, image: str, agent: Agent, home: Path
) -> str:
    """Return the image of the agent's sandbox: the task's own with the agent installed, if it asks.

    The backend builds it from a task directory in ``home``, once for each content. A backend
    without images has to have the agent already.
    """
    installation: Installation | None = getattr(agent, "installation", None)
    if installation is None or hasattr(backend, "find_program"):
        return image
    user_of = getattr(backend, "user_of", None)
    name = f"{trial.task.path.name}-{trial.agent.harness.rpartition('.')[2]}"
    with trial.timed("build"), _transferring(home):
        directory = Path(tempfile.mkdtemp(dir=home)) / name
        user = user_of(image) if user_of else None
        write_layered(trial.task, directory, installation.text, user)
        return backend.build_environment(task_dir=directory)


def attempt(
    trial: Trial,
    sandbox: Sandbox,
    agent: Agent,
    follow: Callable[[Entry], object] | None = None,
) -> AgentResult:
    """Let the agent work; ``follow`` gets the entries of its trajectory as they happen."""
    sandbox.user = trial.task.config.agent.user
    phase = "agent" if trial.evaluates is None else "launch"
    with _evidence_kept(trial, sandbox), trial.timed(phase):
        limits = AgentLimits.of(trial.agent.parameters, trial.agent_timeout_sec)
        sandbox.context = context = _agent_context(trial, follow)
        echo = sandbox.echo
        if follow is not None and trial.agent.harness in MODEL_AGENTS:
            sandbox.echo = None  # its commands are followed as entries of its trajectory
        try:
            return agent.run(trial.task, sandbox, limits)
        except BaseException:
            # Money that was spent before the error belongs to the record.
            if context.meter.calls:
                trial.agent_result = AgentResult.metered(context.meter, status="failed")
            raise
        finally:
            sandbox.echo = echo
            _end_trajectory(trial, context.trajectory)


def _end_trajectory(trial: Trial, trajectory: Trajectory) -> None:
    """Close the trajectory and write it in the format of other viewers, too."""
    from pytest_aecbench.agents.atif import write_atif

    trajectory.close()
    if not trajectory.has_entries:
        return
    agent = trial.agent
    try:
        write_atif(
            trial.agent_dir,
            agent.name,
            __version__,
            agent.model,
            session_id=trial.trial_id,
            tools=trajectory.tools,
            extra={"harness": agent.harness, "task": trial.task.task_id},
        )
    except LedgerError as error:  # no reason to lose the trial as well
        trial.warnings.append(str(error))


def _agent_context(trial: Trial, follow: Callable[[Entry], object] | None = None) -> AgentContext:
    """Return what the trial gives its agent besides the task and the sandbox."""
    settings = trial.settings
    return AgentContext(
        Trajectory(trial.agent_dir, trial.scrubber, follow),
        repetition=trial.repetition,
        cache_dir=settings.cache_calls,
        prices=settings.prices,
    )


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
    copy = trial.directory / _COPY
    with _transferring(copy):
        shutil.copytree(trial.workspace_dir, copy, symlinks=True)
    try:
        with trial.timed("launch"):
            fresh = trial.verifier_sandbox = launch(trial, backend, image, copy)
            fresh.user, fresh.env, fresh.echo = sandbox.user, sandbox.env, sandbox.echo
        _run_verifier(trial, fresh)
        with trial.timed("collect"), _transferring(trial.logs_dir):
            _replace(fresh.collect().logs / "verifier", trial.logs_dir / "verifier")
    finally:
        if trial.settings.keep == "none":
            _end_verification(trial)
    return _read(trial)


def _end_verification(trial: Trial) -> None:
    """Remove the sandbox that the verifier had to itself, if it had one."""
    if trial.verifier_sandbox is not None:
        trial.verifier_sandbox.close()
        trial.verifier_sandbox = None
    shutil.rmtree(trial.directory / _COPY, ignore_errors=True)


def end(trial: Trial, sandbox: Sandbox, *, keep: bool) -> str:
    """Remove the trial's sandboxes, or let go of them; return how to enter those that are kept."""
    entrances = []
    if keep:
        sandboxes = (trial.verifier_sandbox, sandbox)
        entrances = [one.keep() for one in sandboxes if one is not None]
    with trial.timed("teardown"):
        try:
            if not keep:
                _end_verification(trial)
            elif trial.verifier_sandbox is not None:
                trial.verifier_sandbox.close()
        finally:
            sandbox.close()
    return "\n\n".join(entrances)


def _run_verifier(trial: Trial, sandbox: Sandbox) -> None:
    task = trial.task
    empty = trial.directory / "empty"
    with _transferring(empty):
        empty.mkdir(exist_ok=True)
    with trial.timed("verify"):
        trial.verification = sandbox.execute(
            task.verifier_command,
            env=task.verifier_env(),
            timeout_sec=trial.verifier_timeout_sec,
            uploads={**task.verifier_uploads(), "/logs/verifier": empty},
            exclusive=True,
        )
    with _transferring(empty):
        empty.rmdir()


def collect(trial: Trial, sandbox: Sandbox) -> None:
    """Bring the working directory and the logs into the trial's directory."""
    with trial.timed("collect"), _transferring(trial.directory):
        artifacts = sandbox.collect()
        _replace(artifacts.workspace, trial.workspace_dir)
        _replace(artifacts.logs, trial.logs_dir)
        trial.warnings.extend(f"not collected: {name}" for name in artifacts.skipped)
        trial.collected = not any(name.startswith("workspace/") for name in artifacts.skipped)
    # An agent or a verifier that found no space left has failed for no fault of its own.
    check_space(trial.settings.jobs_root)


def check_space(directory: Path) -> None:
    """Raise LedgerError unless more of the trials' files could be written now."""
    probe = directory / f".{os.urandom(8).hex()}.tmp"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(bytes(4096))
    except OSError as error:
        raise LedgerError(
            f"{directory}: cannot be written, {error.strerror}; the trials' files need a directory "
            "that can be written and has space left"
        ) from None
    finally:
        with suppress(OSError):
            probe.unlink()


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
        trial.warnings.append(
            f"verifier: exit code {verification.returncode}, but it left a reward"
        )
    return reward


@contextmanager
def _transferring(where: Path) -> Iterator[None]:
    """Turn trouble with the host's files into an error of the infrastructure."""
    try:
        yield
    except OSError as error:
        check_space(where.parent)
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
