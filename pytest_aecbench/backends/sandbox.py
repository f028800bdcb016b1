"""A running sandbox as agents and verifiers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.backends import BackendExecutionRequest, BackendExecutionResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_aecbench.backends import CollectedArtifacts, ComputeBackend, TrialHandle
    from pytest_aecbench.backends.echo import Echo

__all__ = ["Sandbox"]


class Sandbox:
    """One sandbox of one trial, with the environment variables and user its task asks for."""

    def __init__(
        self, backend: ComputeBackend, handle: TrialHandle, env: Mapping[str, str] | None = None
    ) -> None:
        self.backend = backend
        self.handle = handle
        self.env = dict(env or {})
        self.user: str | None = None
        self.echo: Echo | None = None

    def execute(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_sec: float | None = None,
        user: str | None = None,
        uploads: Mapping[str, Path] | None = None,
        exclusive: bool = False,
    ) -> BackendExecutionResult:
        """Run one shell command to completion.

        Raises:
            SandboxGone: the sandbox died.
            BackendError: the command could not be started.

        """
        request = BackendExecutionRequest(
            command=command,
            env={**self.env, **(env or {})},
            cwd=cwd,
            timeout_sec=timeout_sec,
            user=user or self.user,
            uploads=uploads or {},
            exclusive=exclusive,
            on_output=self.echo,
        )
        result = self.backend.execute_trial(handle=self.handle, request=request)
        if self.echo is not None:
            self.echo.end(result)
        return result

    def collect(self) -> CollectedArtifacts:
        """Bring the working directory and the logs to the host."""
        return self.backend.collect_outputs(handle=self.handle)

    def keep(self) -> str:
        """Let the sandbox outlive its end, where the backend can; return how to enter it."""
        keep = getattr(self.backend, "keep", None)
        return str(keep(self.handle)) if keep else "this backend keeps no sandboxes"

    def close(self) -> None:
        """Remove the sandbox."""
        self.backend.teardown(handle=self.handle)
