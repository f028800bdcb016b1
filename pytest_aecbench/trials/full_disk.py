"""A disk that is full: the agent that has filled it earns nothing, and others lose nothing."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.homes import remove_tree, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.trials.trial import Trial

__all__ = ["check_space", "full_disk_attributed"]

_STORAGE_MB = 10240  # for a task that does not say how much its sandbox may store


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


@contextmanager
def full_disk_attributed(trial: Trial, sandbox: Sandbox, *, clear: bool = False) -> Iterator[None]:
    """Make a full disk the agent's outcome, if it has stored more than its task allows.

    ``trial.broken`` says so then, and with ``clear`` its sandbox and files are removed. Room that
    is left does not tell who is to blame, because neighbours fill and free the same disk.
    """
    try:
        yield
    except LedgerError:
        if not _has_agent_stored_too_much(trial, sandbox):
            raise
        if clear:
            _remove_work(trial, sandbox)
        trial.broken = trial.broken or "agent broke its sandbox: it filled the disk"


def _has_agent_stored_too_much(trial: Trial, sandbox: Sandbox) -> bool:
    allowed_mb = trial.task.config.environment.storage_mb or _STORAGE_MB
    if not trial.has_agent:
        return False
    # The workspace may be here and in the sandbox.
    return max(stored_bytes(trial.directory), sandbox.stored_bytes()) > allowed_mb * 1024**2


def _remove_work(trial: Trial, sandbox: Sandbox) -> None:
    """Remove the sandbox and the files that came of it; raise LedgerError if that gives no room."""
    sandbox.close()
    remove_tree(trial.logs_dir)
    # A backend may have begun to copy the workspace beside it.
    for directory in trial.directory.glob(f"{trial.workspace_dir.name}*"):
        remove_tree(directory)
    check_space(trial.settings.jobs_root)
    for directory in (trial.workspace_dir, trial.logs_dir):
        directory.mkdir()
