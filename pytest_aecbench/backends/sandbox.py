"""The running sandbox that agents and verifiers use."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_aecbench.backends import BackendExecutionRequest, BackendExecutionResult
from pytest_aecbench.errors import LaunchError, SandboxBroken
from pytest_aecbench.host.lanes import away, pause
from pytest_aecbench.host.secrets import ScrubbedStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_aecbench.agents import AgentContext
    from pytest_aecbench.backends import (
        BackendExecutionResult,
        CollectedArtifacts,
        ComputeBackend,
        TrialHandle,
    )
    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.tasks.schema import HealthcheckConfig

__all__ = ["Echo", "Sandbox", "await_health"]


class Sandbox:
    """One sandbox of one trial, with its task's environment variables and user."""

    def __init__(
        self, backend: ComputeBackend, handle: TrialHandle, env: Mapping[str, str] | None = None
    ) -> None:
        self.backend = backend
        self.handle = handle
        self.env = dict(env or {})
        self.user: str | None = None
        self.echo: Echo | None = None
        self.context: AgentContext | None = None

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
            env=env or {},
            cwd=cwd,
            timeout_sec=timeout_sec,
            user=user,
            uploads=uploads or {},
            exclusive=exclusive,
        )
        return self.perform(request)

    def completed(self, request: BackendExecutionRequest) -> BackendExecutionRequest:
        """Return a request with the task's environment variables and user."""
        user = request.user or self.user
        return replace(request, env={**self.env, **request.env}, user=user, on_output=self.echo)

    def perform(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        """Run one request to completion, as ``execute`` does."""
        request = self.completed(request)
        result = away(self.backend.execute_trial, handle=self.handle, request=request)
        if self.echo is not None:
            self.echo.end(result)
        return result

    def collect(self) -> CollectedArtifacts:
        """Copy the working directory and the logs to the host."""
        return away(self.backend.collect_outputs, handle=self.handle)

    def stop(self, timeout_sec: float) -> None:
        """End all processes of the sandbox; its files can still be collected."""
        stop = getattr(self.backend, "stop", None)
        if stop:
            away(stop, self.handle)
        elif self.execute(":", timeout_sec=timeout_sec, exclusive=True).timed_out:
            raise SandboxBroken(f"no command ends within {timeout_sec:.0f} s")

    def stored_bytes(self) -> int:
        """Return how much the sandbox has stored on a disk of this machine, as far as is known."""
        stored = getattr(self.backend, "stored_bytes", None)
        return int(stored(self.handle)) if stored else 0

    def keep(self) -> str:
        """Keep the sandbox after its end, if the backend can; return how to enter it."""
        keep = getattr(self.backend, "keep", None)
        return str(keep(self.handle)) if keep else "this backend keeps no sandboxes"

    def close(self) -> None:
        """Remove the sandbox."""
        self.backend.teardown(handle=self.handle)


def await_health(sandbox: Sandbox, check: HealthcheckConfig, multiplier: float = 1.0) -> None:
    """Run the check until it succeeds; ``multiplier`` is for slow machines.

    Raises:
        LaunchError: it failed as often in a row as the task allows after the start period.

    """
    start_period_ends = time.monotonic() + check.start_period_sec * multiplier
    failures = 0
    while True:
        result = sandbox.execute(check.command, timeout_sec=check.timeout_sec * multiplier)
        if result.returncode == 0:
            return
        starting = time.monotonic() < start_period_ends
        failures += not starting
        if failures >= check.retries:
            raise LaunchError(
                f"healthcheck: {check.command!r} did not succeed in {failures} "
                f"{'try' if failures == 1 else 'tries'}; {_why(result)}"
            )
        pause(check.start_interval_sec if starting else check.interval_sec)


def _why(result: BackendExecutionResult) -> str:
    if result.timed_out:
        return "it took too long"
    last = (result.stdout + result.stderr).strip().rpartition("\n")[2]
    return f"exit code {result.returncode}" + (f", {last!r}" if last else "")


_LONGEST_LINE = 64 * 1024


class Echo:
    """Prints output in whole lines without secrets; at the end if the backend does not stream."""

    def __init__(self, scrubber: Scrubber, write: Callable[[str], object]) -> None:
        self._scrubbed = ScrubbedStream(scrubber)
        self._write = write
        self._pending = b""
        self._is_given = False
        self._is_first = True

    def __call__(self, chunk: bytes) -> None:
        """Print the whole lines of new output."""
        self._is_given = True
        lines, newline, self._pending = (self._pending + chunk).rpartition(b"\n")
        if len(self._pending) > _LONGEST_LINE:
            lines, newline, self._pending = lines + newline + self._pending, b"", b""
        self._show(self._scrubbed.feed(lines + newline))

    def end(self, result: BackendExecutionResult) -> None:
        """Print the rest of the output of a command that has ended."""
        printed = (result.stdout + result.stderr).encode(errors="surrogateescape")
        rest = self._pending if self._is_given else printed
        rest = rest if rest.endswith(b"\n") or not rest else rest + b"\n"
        self._show(self._scrubbed.feed(rest) + self._scrubbed.end())
        self._pending, self._is_given = b"", False

    def _show(self, data: bytes) -> None:
        if data:
            text = data.decode(errors="replace")
            self._write(f"\n{text}" if self._is_first else text)  # not after the trial's name
            self._is_first = False
