"""The directory on this machine that all runs of one user share."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pytest_aecbench.errors import BackendError

__all__ = ["cores", "shared_directory"]


def shared_directory(name: str = "") -> Path:
    """Return the directory, or one in it, which nobody else can read or write."""
    root = Path(tempfile.gettempdir()) / f"aecbench-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        if root.lstat().st_uid != os.getuid() or root.is_symlink():
            raise BackendError(f"{root}: belongs to another user; remove it, or set TMPDIR")
        directory = root / name
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise BackendError(f"{root}: cannot be used, {error.strerror}; set TMPDIR") from None
    return directory


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
