"""Paths that every sandbox has, and their plain form."""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import normpath

from pytest_aecbench.errors import BackendError
from pytest_aecbench.tasks.dockerfile import WORKSPACE

__all__ = ["ROOTS", "WORKSPACE", "absolute"]

ROOTS = tuple(PurePosixPath(path) for path in (WORKSPACE, "/tests", "/logs", "/solution"))


def absolute(path: str) -> PurePosixPath:
    """Return an absolute sandbox path in its plainest form, or raise BackendError."""
    if not path.startswith("/"):
        raise BackendError(f"sandbox path: {path!r} is not absolute; start it with '/'")
    return PurePosixPath("/" + normpath(path).lstrip("/"))
