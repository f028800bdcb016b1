"""Start commands in local sandboxes through ``entry``, a program that runs beside this process."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_aecbench.backends.shared.shell import tool_env
from pytest_aecbench.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["SandboxProcess", "start_launcher"]

_ENTRY = Path(__file__).with_name("entry.py")
_LONGEST_ANSWER = 4096
_lock = threading.Lock()


class SandboxProcess:
    """A process that has entered a sandbox's ``namespaces`` and waits for a command there.

    It has those parts of ``subprocess.Popen`` that ``shared.processes.run`` needs.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        namespaces: Sequence[int],
        ids: tuple[int, int],
        cwd: str,
        env: Mapping[str, str],
        stdin: IO[bytes] | int,
        stdout: int,
        stderr: int,
    ) -> None:
        self.returncode: int | None = None
        request = {"argv": argv, "env": dict(env), "cwd": cwd, "ids": ids}
        answer, answering = os.pipe()
        self._answer = os.fdopen(answer, "rb", buffering=0)
        with ExitStack() as ours:
            ours.callback(os.close, answering)
            written = ours.enter_context(os.fdopen(os.memfd_create("request"), "wb", buffering=0))
            written.write(json.dumps(request).encode())
            written.seek(0)
            if stdin == subprocess.DEVNULL:
                stdin = ours.enter_context(Path(os.devnull).open("rb"))
            given = stdin if isinstance(stdin, int) else stdin.fileno()
            _send([answering, written.fileno(), given, stdout, stderr, *namespaces])
        line = self._answer.readline()
        if not line:
            raise BackendError("local: no command can be started; the launcher has ended")
        self.pid = int(line)

    def poll(self) -> int | None:
        """Return the command's exit code, or None while it runs."""
        if self.returncode is None and select.select([self._answer], [], [], 0)[0]:
            self._read_end()
        return self.returncode

    def wait(self, timeout: float) -> int | None:
        """Wait for the command's end; raise TimeoutExpired if it takes too long."""
        if self.returncode is None:
            if not select.select([self._answer], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("command", timeout)
            self._read_end()
        return self.returncode

    def _read_end(self) -> None:
        with self._answer:
            how, _, what = os.fsdecode(self._answer.read(_LONGEST_ANSWER)).partition(" ")
        self.returncode = int(what) if how == "exited" else -signal.SIGKILL
        if how == "failed":
            raise BackendError(f"command: cannot be started; {what}")


def start_launcher() -> None:
    """Start the launcher unless it runs, so that the first command does not wait for it."""
    with _lock:
        _launcher()


def _send(descriptors: list[int]) -> None:
    with _lock:
        try:
            socket.send_fds(_launcher(), [b"\0"], descriptors)
        except ConnectionError:  # it was killed
            _launcher.cache_clear()
            socket.send_fds(_launcher(), [b"\0"], descriptors)


@functools.cache
def _launcher() -> socket.socket:
    """Return the socket of a new launcher, which ends when the socket is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # A process that has changed its user may not reach its interpreter by name.
    reached = os.access(sys.executable, os.X_OK)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_ENTRY)],
            executable=sys.executable if reached else "/proc/self/exe",
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=tool_env(),
            start_new_session=True,
        )
    atexit.register(_stop, ours, process)
    return ours


def _stop(requests: socket.socket, process: subprocess.Popen[bytes]) -> None:
    requests.close()
    process.wait()
