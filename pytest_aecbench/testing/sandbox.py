"""A sandbox under test, and the files it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    BackendExecutionResult,
    CollectedArtifacts,
    ComputeBackend,
    TrialHandle,
)

__all__ = ["Launch", "RunningSandbox", "write"]


@dataclass(frozen=True)
class RunningSandbox:
    """One sandbox of a backend, with shorthands for tests."""

    backend: ComputeBackend
    handle: TrialHandle
    workspace_dir: Path

    def run(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_sec: float | None = 60,
        user: str | None = None,
        uploads: Mapping[str, Path] | None = None,
        exclusive: bool = False,
    ) -> BackendExecutionResult:
        """Run a command."""
        request = BackendExecutionRequest(
            command, env or {}, cwd, timeout_sec, user, uploads or {}, exclusive
        )
        return self.backend.execute_trial(handle=self.handle, request=request)

    def output(self, command: str, **options: Any) -> str:
        """Run a command that has to succeed; return its output."""
        result = self.run(command, **options)
        assert result.returncode == 0, result
        return result.stdout

    def collect(self) -> CollectedArtifacts:
        """Copy all files to the host."""
        return self.backend.collect_outputs(handle=self.handle)

    def teardown(self) -> None:
        """Remove the sandbox."""
        self.backend.teardown(handle=self.handle)


Launch = Callable[..., RunningSandbox]


def write(path: Path, content: str | bytes = "", mode: int = 0o644) -> Path:
    """Write a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path
