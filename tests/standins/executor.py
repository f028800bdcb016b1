"""What really runs the commands behind a vendor's stand-in: one of our own backends."""

from __future__ import annotations

import base64
import errno
import shlex
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_aecbench.backends import BackendExecutionRequest, BackendExecutionResult, TrialHandle
from pytest_aecbench.errors import BackendError, TransferError

__all__ = ["Executor"]

_PIECE = 700_000  # as base64 it is below what is kept of an output


@dataclass
class Executor:
    """Sandboxes on ``backend``, by their ids."""

    backend: Any
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="aecbench-standin-")))
    _handles: dict[str, TrialHandle] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def build(self, task_dir: Path) -> str:
        """Build the image of ``task_dir/environment``."""
        return str(self.backend.build_environment(task_dir=task_dir))

    def create(self, sandbox_id: str, image_ref: str, **extra: Any) -> None:
        """Start a sandbox."""
        workspace = self.home / sandbox_id / "workspace"
        workspace.mkdir(parents=True)
        handle = self.backend.launch_trial(image_ref=image_ref, workspace_dir=workspace, **extra)
        self._handles[sandbox_id] = handle

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._handles

    def run(
        self,
        sandbox_id: str,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout_sec: float | None = None,
        uploads: Mapping[str, Path] | None = None,
    ) -> BackendExecutionResult:
        """Run a command; KeyError where there is no such sandbox."""
        request = BackendExecutionRequest(command, env or {}, cwd, timeout_sec, user, uploads or {})
        result: BackendExecutionResult = self.backend.execute_trial(
            handle=self._handles[sandbox_id], request=request
        )
        return result

    def write(self, sandbox_id: str, path: str, source: Path) -> None:
        """Put a host file at ``path``; OSError where the sandbox's disk is full."""
        try:
            self.run(sandbox_id, ":", uploads={path: source}, cwd="/")
        except TransferError:
            left = f"stat -f -c %a {shlex.quote(str(PurePosixPath(path).parent))}"
            if self.run(sandbox_id, left, cwd="/").stdout.strip() == "0":
                raise OSError(errno.ENOSPC, "No space left on device", path) from None
            raise

    def read(self, sandbox_id: str, path: str) -> Iterator[bytes]:
        """Read a file; FileNotFoundError where there is none."""
        quoted = shlex.quote(path)
        found = self.run(sandbox_id, f"stat -c %s -- {quoted}", cwd="/")
        if found.returncode != 0:
            raise FileNotFoundError(path)
        for number in range(-(-int(found.stdout) // _PIECE)):
            piece = f"dd if={quoted} bs={_PIECE} skip={number} count=1 2>/dev/null | base64 -w 0"
            yield base64.b64decode(self.run(sandbox_id, piece, cwd="/").stdout)

    def kill(self, sandbox_id: str) -> bool:
        """End a sandbox; False where there is none."""
        with self._lock:
            handle = self._handles.pop(sandbox_id, None)
        if handle is None:
            return False
        self.backend.teardown(handle=handle)
        shutil.rmtree(self.home / sandbox_id, ignore_errors=True)
        return True

    def close(self) -> None:
        """End everything."""
        for sandbox_id in list(self._handles):
            try:
                self.kill(sandbox_id)
            except BackendError:
                continue
        if close := getattr(self.backend, "close", None):
            close()
        shutil.rmtree(self.home, ignore_errors=True)
