"""Refusals before a run: agents that cannot work on a backend or on a task."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError, TaskError
from pytest_aecbench.host.files import shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_aecbench.agents import Agent
    from pytest_aecbench.agents.installation import Installation
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends import ComputeBackend
    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.tasks.task import Task

__all__ = [
    "check_files",
    "check_gpus",
    "check_network",
    "check_program",
    "needs_network",
    "not_brought",
]


def check_gpus(task_dirs: Iterable[Path], backend: ComputeBackend, name: str) -> None:
    """Raise TaskError for a task that needs GPUs, if the backend or its engine has none."""
    from pytest_aecbench.backends.shared.environment import read_environment

    for task_dir in task_dirs:
        path = task_dir / "task.toml"
        # Few tasks have the word in their file, and there may be thousands of them.
        with suppress(OSError):
            if b"gpus" not in path.read_bytes():
                continue
        asked = read_environment(task_dir).gpus
        if not asked:
            continue
        refuse_gpus = getattr(backend, "refuse_gpus", None)
        reason = refuse_gpus() if refuse_gpus else f"{name} has none; use docker or modal"
        if reason:
            raise TaskError(f"{path}: environment.gpus: the task needs {asked}, and {reason}")
        return  # what one task can have, all can


def check_program(spec: AgentSpec, agent: Agent, backend: ComputeBackend) -> None:
    """Raise SettingsError if the backend has no images and lacks the agent's program."""
    installation: Installation | None = getattr(agent, "installation", None)
    find_program = getattr(backend, "find_program", None)
    if installation is None or installation.program is None or find_program is None:
        return
    if find_program(installation.program) is None:
        backend_name = getattr(backend, "name", type(backend).__name__)
        wanted = f"{installation.program} {installation.version}".strip()
        raise SettingsError(
            f"{spec.name}: {installation.program!r} is not on PATH, and {backend_name} has no "
            f"images to install it in; install {wanted}, or use --aec-backend=docker"
        )


def needs_network(agent: Agent) -> bool:
    """Return whether the agent cannot work on a task without a network."""
    return getattr(agent, "network", "task") == "needed"


def check_network(spec: AgentSpec, tasks: Iterable[Task]) -> None:
    """Raise SettingsError if one of the tasks forbids the network that the agent needs."""
    offline = [task.task_id for task in tasks if not task.config.environment.allow_internet]
    if not offline:
        return
    others = f" and {len(offline) - 1} more" if len(offline) > 1 else ""
    raise SettingsError(
        f"{spec.name}: needs a network to reach its model, which {offline[0]}{others} forbid"
        f"{'' if others else 's'} (allow_internet = false); write 'network: true' in the agent's "
        "parameters to give it one there too, or 'network: false' if it needs none"
    )


def check_files(spec: AgentSpec, scrubber: Scrubber) -> None:
    """Raise SettingsError if a file that the agent brings has one of this machine's secrets."""
    from pytest_aecbench.agents.files import files_of

    for path in files_of(spec):
        found = scrubber.search.find(path.read_bytes())
        if found:
            name = found[0].label.decode().strip("<>")
            raise SettingsError(
                f"{spec.name}: {shown_path(path)} contains the value of {name}, which must not go "
                f"into a sandbox; read ${name} there, and name it in the agent's parameters.env"
            )


def not_brought(spec: AgentSpec, root: Path) -> str | None:
    """Return a warning if a command names a file of the project, which sandboxes do not have."""
    if not spec.may_bring_files or spec.files:
        return None
    try:
        words = shlex.split(str(spec.parameters.get("command") or spec.parameters.get("run")))
    except ValueError:
        return None  # a shell may understand more
    for word in words:
        if not word.startswith(("/", "-")) and "." in word and (root / word).is_file():
            right = f"--aec-agent-files={shlex.quote(word)}"
            return f"{spec.name}: {word!r} of the project is not in sandboxes; add {right}"
    return None
