"""Start commands in local sandboxes through ``entry``, a program that runs beside this process."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_aecbench.backends.shared.processes import is_readable
from pytest_aecbench.backends.shared.shell import tool_env
from pytest_aecbench.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Launcher"]

_ENTRY = Path(__file__).with_name("entry.py")
_LONGEST_ANSWER = 4096


class Launcher:
    """The program ``entry``, which is started when it is needed, and again if it was killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._stop: Callable[[], object] | None = None

    def start(self) -> None:
        """Start the program ahead of the first command, unless it runs."""
        with self._lock:
            self._connect()

    def launch(
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
    ) -> SandboxProcess:
        """Start a command in the namespaces of a sandbox; the rest is as for ``Popen``."""
        request = {"argv": argv, "env": dict(env), "cwd": cwd, "ids": ids}
        with ExitStack() as ours:
            if stdin == subprocess.DEVNULL:
                stdin = ours.enter_context(Path(os.devnull).open("rb"))
            streams = [stdin if isinstance(stdin, int) else stdin.fileno(), stdout, stderr]
            written = ours.enter_context(os.fdopen(os.memfd_create("request"), "wb", buffering=0))
            written.write(json.dumps(request).encode())
            written.seek(0)
            for _ in range(2):
                asked, answer = self._ask([written.fileno(), *streams, *namespaces])
                if pid := answer.readline():
                    return SandboxProcess(int(pid), answer)
                answer.close()
                # It was killed, and has not started anything if it did not answer.
                self._give_up(asked)
        raise BackendError("local: no command can be started; the launcher ended at once")

    def _ask(self, descriptors: list[int]) -> tuple[socket.socket, io.FileIO]:
        """Send a request; return where it went, and the stream of its answer."""
        reading, writing = os.pipe()
        with self._lock:
            requests = self._connect()
            with suppress(ConnectionError):
                socket.send_fds(requests, [b"\0"], [writing, *descriptors])
        os.close(writing)
        return requests, io.FileIO(reading)

    def _connect(self) -> socket.socket:
        if self._requests is not None:
            return self._requests
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
        self._stop = weakref.finalize(self, _stop, self._requests, process)
        return self._requests

    def _give_up(self, requests: socket.socket) -> None:
        """End the program that got these requests, unless another has taken its place."""
        with self._lock:
            if self._requests is requests:
                self._end()

    def close(self) -> None:
        """End the program; commands that it has started go on."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop()
        self._requests = self._stop = None


def _stop(requests: socket.socket, process: subprocess.Popen[bytes]) -> None:
    requests.close()
    process.kill()
    process.wait()


class SandboxProcess:
    """A process that has entered a sandbox's namespaces and waits for a command there.

    It has those parts of ``subprocess.Popen`` that ``shared.processes.run`` needs.
    """

    def __init__(self, pid: int, answer: io.FileIO) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._answer = answer

    def poll(self) -> int | None:
        """Return the command's exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float) -> int | None:
        """Wait for the command's end; raise TimeoutExpired if it takes too long."""
        if self.returncode is None:
            if not is_readable(self._answer, timeout):
                raise subprocess.TimeoutExpired("command", timeout)
            with self._answer:
                how, _, what = os.fsdecode(self._answer.read(_LONGEST_ANSWER) or b"").partition(" ")
            self.returncode = int(what) if how == "exited" else -signal.SIGKILL
            if how == "failed":
                raise BackendError(f"command: cannot be started; {what}")
        return self.returncode
