"""A disk that is full: the agent that has filled it earns nothing, and others lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.host.homes import remove_tree, stored_bytes
from pytest_aecbench.trials.stages import check_space

if TYPE_CHECKING:
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.errors import LedgerError
    from pytest_aecbench.trials.trial import Trial

__all__ = ["blame_for_full_disk"]

_STORAGE_MB = 10240  # for a task that does not say how much its sandbox may store


def blame_for_full_disk(trial: Trial, sandbox: Sandbox, error: LedgerError) -> None:
    """Raise the error, unless the agent has stored more than its task allows.

    The sandbox and the agent's files are removed then, and ``trial.broken`` says so. The room that
    is left does not tell who is to blame, because neighbours fill and free the same disk.
    """
    allowed_mb = trial.task.config.environment.storage_mb or _STORAGE_MB
    if not trial.has_agent or _stored_bytes(trial, sandbox) <= allowed_mb * 1024**2:
        raise error
    sandbox.close()
    remove_tree(trial.logs_dir)
    # A backend may have begun to copy the workspace beside it.
    for directory in trial.directory.glob(f"{trial.workspace_dir.name}*"):
        remove_tree(directory)
    check_space(trial.settings.jobs_root)
    for directory in (trial.workspace_dir, trial.logs_dir):
        directory.mkdir()
    trial.broken = trial.broken or "agent broke its sandbox: it filled the disk"


def _stored_bytes(trial: Trial, sandbox: Sandbox) -> int:
    """Return how much the agent has stored; its workspace may be here and in the sandbox."""
    return max(stored_bytes(trial.directory), sandbox.stored_bytes())
