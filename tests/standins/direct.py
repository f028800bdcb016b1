"""A vendor without a wire: what all vendors share is tested on it."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pytest_aecbench.backends import Limits
from pytest_aecbench.backends.remote import Environment, Rented
from pytest_aecbench.backends.remote.calls import Full
from pytest_aecbench.errors import BackendError, LaunchError, SandboxGone, TransferError
from tests.standins.executor import Executor

__all__ = ["DirectVendor"]


class DirectVendor:
    """Sandboxes of an executor in this process; ``calls`` says what was asked for.

    ``before`` and ``after`` are errors for the next calls of a name: raised instead of the call,
    or once it has been done. A call with one of the ``gates`` waits until that is set.
    """

    name = "direct"
    concurrency = 8
    has_own_disk = True

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.labels: dict[str, Mapping[str, str]] = {}
        self.calls: list[str] = []
        self.before: dict[str, list[Exception]] = {}
        self.after: dict[str, list[Exception]] = {}
        self.gates: dict[str, threading.Event] = {}

    @contextmanager
    def _called(self, name: str) -> Iterator[None]:
        self.calls.append(name)
        if self.before.get(name):
            raise self.before[name].pop(0)
        if name in self.gates:
            self.gates[name].wait()
        yield
        if self.after.get(name):
            raise self.after[name].pop(0)

    def check(self) -> str:
        return "direct"

    def refusal(self, limits: Limits) -> str | None:
        return None

    def unenforced(self) -> tuple[str, ...]:
        return ("cpus",)

    def build(self, environment: Environment) -> str:
        with self._called("build"):
            return self.executor.build(environment.task_dir)

    def create(
        self, image_ref: str, limits: Limits, labels: Mapping[str, str], lifetime_sec: int
    ) -> str:
        with self._called("create"):
            sandbox_id = secrets.token_hex(8)
            try:
                self.executor.create(sandbox_id, image_ref, limits=limits)
            except BackendError as error:
                raise LaunchError(f"direct: {error}") from None
            self.labels[sandbox_id] = labels
        return sandbox_id

    def run(self, sandbox_id: str, command: str, timeout_sec: float) -> str:
        with self._called("run"):
            self._check(sandbox_id)
            done = self.executor.run(sandbox_id, command, cwd="/", timeout_sec=timeout_sec)
        return done.stdout + done.stderr

    def write(self, sandbox_id: str, path: str, file: IO[bytes]) -> None:
        with self._called("write"), tempfile.NamedTemporaryFile() as copy:
            self._check(sandbox_id)
            copy.write(file.read())
            copy.flush()
            try:
                self._place(sandbox_id, path, Path(copy.name))
            except OSError as error:
                raise Full(f"direct: an upload: {error}") from None

    def _place(self, sandbox_id: str, path: str, source: Path) -> None:
        """Write a file, again if a command's deadline has ended the process that wrote it."""
        try:
            self.executor.write(sandbox_id, path, source)
        except TransferError:
            self.executor.write(sandbox_id, path, source)

    def read(self, sandbox_id: str, path: str) -> Iterable[bytes]:
        with self._called("read"):
            self._check(sandbox_id)
        return self.executor.read(sandbox_id, path)

    def _check(self, sandbox_id: str) -> None:
        if sandbox_id not in self.executor:
            raise SandboxGone("direct: the sandbox is gone")

    def is_running(self, sandbox_id: str) -> bool:
        return sandbox_id in self.executor

    def kill(self, sandbox_id: str) -> None:
        with self._called("kill"):
            self.executor.kill(sandbox_id)
            self.labels.pop(sandbox_id, None)

    def rented(self) -> Iterable[Rented]:
        return [Rented(sandbox_id, labels) for sandbox_id, labels in self.labels.items()]
