"""The stages of a trial; the fixtures call them."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench import __version__
from pytest_aecbench.agents import (
    AGENT_FILES,
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
from pytest_aecbench.errors import (
    AecBenchError,
    BackendError,
    BackendLost,
    BuildError,
    LaunchError,
    LedgerError,
    SandboxBroken,
    TransferError,
)
from pytest_aecbench.host.files import copy_file, whole
from pytest_aecbench.host.lanes import reversible
from pytest_aecbench.ledger.instructions import instruction_file
from pytest_aecbench.providers.calls import Meter
from pytest_aecbench.tasks.layering import write_layered
from pytest_aecbench.trials.full_disk import check_space, full_disk_attributed
from pytest_aecbench.trials.record import note_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_aecbench.agents.installation import Installation
    from pytest_aecbench.agents.trajectory import Entry
    from pytest_aecbench.backends import CollectedArtifacts
    from pytest_aecbench.trials.trial import Trial

__all__ = [
    "BACKENDS_OWN",
    "attempt",
    "attributed",
    "build_with_agent",
    "collect",
    "evidence_kept",
    "keep_artifacts",
    "launch",
    "limits_of",
    "replace_tree",
    "stage_inputs",
    "transferring",
]

# Errors of the infrastructure, whatever an agent did.
BACKENDS_OWN = (BackendLost, BuildError, LaunchError)


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
    config = trial.task.config.environment
    env = trial.task.environment_env()
    limits = limits_of(trial, network=network)
    # The protocol has no limits; our own backends and those that want them take them.
    extra = {"limits": limits} if accepts_limits(backend) else {}
    handle = reversible(
        lambda handle: backend.teardown(handle=handle),
        partial(backend.launch_trial, image_ref=image, workspace_dir=workspace_dir, **extra),
    )
    sandbox = Sandbox(backend, handle, env)
    if config.healthcheck is not None:
        try:
            await_health(sandbox, config.healthcheck, trial.settings.timeout_multiplier)
        except BaseException:
            sandbox.close()
            raise
    return sandbox


def limits_of(trial: Trial, *, network: bool | None = None) -> Limits:
    """Return the limits of a trial's sandboxes; ``network`` of None is as the task says."""
    config, settings = trial.task.config.environment, trial.settings
    return Limits(
        cpus=settings.cpus or config.cpus,
        memory_mb=settings.memory_mb or config.memory_mb,
        storage_mb=config.storage_mb,
        gpus=config.gpus,
        network=config.allow_internet if network is None else network,
        lifetime_sec=trial.lifetime_sec,
    )


def stage_inputs(trial: Trial) -> None:
    """Make the trial's directories and put the task's tools in its workspace."""
    check_space(trial.settings.jobs_root)
    with transferring(trial.directory):
        trial.workspace_dir.mkdir(parents=True)
        if trial.evaluates is None:
            _keep_instruction(trial)
        else:
            (trial.workspace_dir / MARKER).touch()
        if trial.task.tools:
            tools = trial.workspace_dir / "tools"
            tools.mkdir()
            for tool in trial.task.tools:
                shutil.copy2(tool, tools)


def _keep_instruction(trial: Trial) -> None:
    """Keep the text that the agent is given, once for the experiment, free of secrets."""
    path = instruction_file(
        trial.settings.jobs_root, trial.settings.experiment_id, trial.instruction_sha256
    )
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        text = trial.scrubber.text(trial.task.instruction)
        with whole(path, durable=False) as file:
            file.write(text.encode("utf-8", "replace"))


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
    with trial.timed("build"), transferring(home):
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
    with evidence_kept(trial, sandbox), trial.timed(phase), _files_staged(trial):
        limits = AgentLimits.of(trial.agent.parameters, trial.agent_timeout_sec)
        sandbox.context = context = _agent_context(trial, follow)
        echo = sandbox.echo
        if follow is not None and trial.agent.harness in MODEL_AGENTS:
            sandbox.echo = None  # its commands are followed as entries of its trajectory
        try:
            # The trajectory of an agent that works from the host is on the disk of its sandbox.
            with full_disk_attributed(trial, sandbox), attributed(trial):
                return agent.run(trial.task, sandbox, limits)
            return AgentResult.metered(
                context.meter, status="failed", end="sandbox_broken", error=trial.broken
            )
        except BaseException:
            # Money that was spent before the error belongs to the record.
            if context.meter.calls:
                trial.agent_result = AgentResult.metered(context.meter, status="failed")
            raise
        finally:
            sandbox.echo = echo
            _end_trajectory(trial, context.trajectory)


@contextmanager
def attributed(trial: Trial) -> Iterator[None]:
    """Make what happens to the agent's sandbox the agent's outcome, unless the backend is to blame.

    ``trial.broken`` says then how the sandbox was broken. Where the backend cannot tell, the trial
    is in doubt, and is tried once more before it counts against the agent.
    """
    try:
        yield
    except BackendError as error:
        if not trial.has_agent or isinstance(error, BACKENDS_OWN):
            raise
        if not isinstance(error, SandboxBroken) and not trial.is_second_chance:
            trial.is_in_doubt = True
            raise
        trial.broken = trial.broken or f"agent broke its sandbox: {error}"


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


@contextmanager
def _files_staged(trial: Trial) -> Iterator[None]:
    """Copy the files that the agent brings beside the trial's own, while it works."""
    if not trial.agent.files or trial.evaluates is not None:
        yield
        return
    from pytest_aecbench.agents.files import stage_files

    with transferring(trial.directory):
        stage_files(trial.agent, trial.directory / AGENT_FILES)
    try:
        yield
    finally:
        shutil.rmtree(trial.directory / AGENT_FILES, ignore_errors=True)


def _agent_context(trial: Trial, follow: Callable[[Entry], object] | None = None) -> AgentContext:
    """Return what the trial gives its agent besides the task and the sandbox."""
    settings = trial.settings
    return AgentContext(
        Trajectory(trial.agent_dir, trial.scrubber, follow),
        Meter(on_call=partial(note_cost, trial)),
        repetition=trial.repetition,
        cache_dir=settings.cache_calls,
        prices=settings.prices,
        files=trial.directory / AGENT_FILES if trial.agent.files else None,
    )


def collect(trial: Trial, sandbox: Sandbox) -> None:
    """Bring the working directory and the logs into the trial's directory."""
    with trial.timed("collect"), transferring(trial.directory):
        keep_artifacts(trial, sandbox.collect())
    # An agent or a verifier that found no space left has failed for no fault of its own.
    check_space(trial.settings.jobs_root)


def keep_artifacts(trial: Trial, artifacts: CollectedArtifacts) -> None:
    """Copy what a backend has collected into the trial's directory."""
    replace_tree(artifacts.workspace, trial.workspace_dir)
    replace_tree(artifacts.logs, trial.logs_dir)
    trial.warnings.extend(f"not collected: {name}" for name in artifacts.skipped)
    trial.collected = not any(name.startswith("workspace/") for name in artifacts.skipped)


def replace_tree(source: Path, target: Path) -> None:
    """Make ``target`` a copy of the directory ``source``."""
    if source == target:
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True, copy_function=copy_file)


@contextmanager
def transferring(where: Path) -> Iterator[None]:
    """Turn trouble with the host's files into an error of the infrastructure."""
    try:
        yield
    except OSError as error:
        check_space(where.parent)
        raise TransferError(f"{where}: {error.strerror or error}") from error


@contextmanager
def evidence_kept(trial: Trial, sandbox: Sandbox) -> Iterator[None]:
    """Collect what there is before an error leads to teardown."""
    try:
        yield
    except AecBenchError:
        phase = trial.phase
        with suppress(AecBenchError, OSError):
            collect(trial, sandbox)
        trial.phase = phase
        raise
