"""A sandbox under test, and the files it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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

__all__ = ["Launch", "RunningSandbox", "launching", "write"]


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


@contextmanager
def launching(backend: ComputeBackend, image_ref: str, directory: Path) -> Iterator[Launch]:
    """Yield a function that starts a sandbox with ``files`` in its workspace; all are removed."""
    sandboxes: list[RunningSandbox] = []

    def launch(files: Mapping[str, str] | None = None, **extra: Any) -> RunningSandbox:
        workspace_dir = directory / f"trial-{len(sandboxes)}" / "workspace"
        workspace_dir.mkdir(parents=True)
        for name, content in (files or {}).items():
            write(workspace_dir / name, content)
        handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace_dir, **extra)
        sandboxes.append(RunningSandbox(backend, handle, workspace_dir))
        return sandboxes[-1]

    yield launch
    for sandbox in sandboxes:
        sandbox.teardown()


def write(path: Path, content: str | bytes = "", mode: int = 0o644) -> Path:
    """Write a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path
