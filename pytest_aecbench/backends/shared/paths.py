"""Paths that every sandbox has."""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import normpath

from pytest_aecbench.errors import BackendError
from pytest_aecbench.tasks.dockerfile import WORKSPACE

__all__ = ["ROOTS", "WORKSPACE", "absolute"]

ROOTS = tuple(PurePosixPath(path) for path in (WORKSPACE, "/tests", "/logs", "/solution"))


def absolute(path: str) -> PurePosixPath:
    """Return a sandbox path in its plainest form."""
    if not path.startswith("/"):
        raise BackendError(f"sandbox path: {path!r} is not absolute; start it with '/'")
    return PurePosixPath("/" + normpath(path).lstrip("/"))
