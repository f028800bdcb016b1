"""CooperBench's interface to sandboxes, on our backends.

::

    sandbox = get_backend("docker").create_sandbox(image="python:3.11-slim", timeout=300)
    try:
        result = sandbox.exec("python", "-c", "print(1)")
        print(result.returncode, result.stdout_read())
    finally:
        sandbox.terminate()
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    ComputeBackend,
    Limits,
    TrialHandle,
    accepts_limits,
    make_backend,
)
from pytest_aecbench.errors import BackendError, SandboxGone
from pytest_aecbench.host.homes import make_home
from pytest_aecbench.settings.layers import settings_at

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TIMED_OUT", "EvalBackend", "ExecResult", "Sandbox", "get_backend"]

TIMED_OUT = 124  # as from timeout(1)
_MARGIN_SEC = 60.0  # a sandbox lives this much longer than its last command


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The end of a command; 124 says that the sandbox's time was up."""

    returncode: int
    _stdout: str
    _stderr: str

    def stdout_read(self) -> str:
        """Return its standard output."""
        return self._stdout

    def stderr_read(self) -> str:
        """Return its standard error."""
        return self._stderr


class Sandbox:
    """One running sandbox."""

    def __init__(
        self, backend: ComputeBackend, handle: TrialHandle, home: Path, timeout: float
    ) -> None:
        self._backend = backend
        self._handle = handle
        self._home = home
        self._timeout = timeout
        self._ends = time.monotonic() + timeout

    def exec(self, *args: str) -> ExecResult:
        """Run a command and its arguments, such as ``"bash", "-c", "echo hello"``.

        Raises:
            SandboxGone: the sandbox was terminated, has died or has no time left.

        """
        if not args:
            raise BackendError("exec: no command; give a command and its arguments")
        return self.perform("exec", shlex.join(args), {})

    def upload(self, path: str, source: Path) -> None:
        """Replace an absolute path by a copy of a file or directory of the host."""
        self.perform("upload", "true", {path: source})

    def perform(self, doing: str, command: str, uploads: Mapping[str, Path]) -> ExecResult:
        """Place files and run a shell command as one request, which is a job on some backends."""
        request = BackendExecutionRequest(command, timeout_sec=self._left(doing), uploads=uploads)
        result = self._backend.execute_trial(handle=self._handle, request=request)
        returncode = TIMED_OUT if result.returncode is None else result.returncode
        return ExecResult(returncode, result.stdout, result.stderr)

    def _left(self, doing: str) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise SandboxGone(f"{doing}: the sandbox's timeout of {self._timeout:g} s has passed")
        return left

    def terminate(self) -> None:
        """Remove the sandbox; calling it again does nothing."""
        try:
            self._backend.teardown(handle=self._handle)
        finally:
            shutil.rmtree(self._home, ignore_errors=True)


class EvalBackend:
    """Makes sandboxes on one of our backends."""

    def __init__(self, backend: ComputeBackend) -> None:
        singly = getattr(backend, "singly", None)  # of a backend that runs whole trials
        self._backend: ComputeBackend = singly() if singly else backend

    def create_sandbox(
        self, image: str, timeout: int = 600, workdir: str = "/workspace"
    ) -> Sandbox:
        """Start a sandbox of ``image`` that lasts ``timeout`` seconds."""
        home = make_home(getattr(self._backend, "name", "local"))
        try:
            for name in ("environment", "workspace"):
                (home / name).mkdir()
            environment = {"docker_image": image, "workdir": workdir}
            lines = [f"{key} = {json.dumps(value)}\n" for key, value in environment.items()]
            toml = "".join(["[environment]\n", *lines])
            (home / "task.toml").write_text(toml, encoding="utf-8")
            image_ref = self._backend.build_environment(task_dir=home)
            launch = self._backend.launch_trial
            limits = {"limits": Limits(lifetime_sec=timeout + _MARGIN_SEC)}
            extra = limits if accepts_limits(self._backend) else {}
            handle = launch(image_ref=image_ref, workspace_dir=home / "workspace", **extra)
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        return Sandbox(self._backend, handle, home, timeout)


def get_backend(name: str) -> EvalBackend:
    """Return the backend of this name, with the options of the project and the user for it."""
    settings = settings_at(Path.cwd()).on(name)
    return EvalBackend(make_backend(name, "get_backend", settings))
