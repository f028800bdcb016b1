"""Small disks that tests may fill."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.driving import DrivenBackend
from tests.standins.executor import Executor

__all__ = ["on_small_disk", "small_disk"]

_SIZE = "24m"


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Mount a disk in memory at the directory."""
    _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(directory))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(directory))


@contextmanager
def on_small_disk(executor: Executor, directory: Path) -> Iterator[None]:
    """Let the executor start sandboxes on a disk that is not that of this process."""
    with small_disk(directory), pytest.MonkeyPatch.context() as monkeypatch:
        backend = DrivenBackend("namespaces", env={"TMPDIR": str(directory)})
        monkeypatch.setattr(executor, "backend", backend)
        monkeypatch.setattr(executor, "home", directory)
        yield
        for sandbox_id in list(executor):
            executor.kill(sandbox_id)
        backend.close()


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
