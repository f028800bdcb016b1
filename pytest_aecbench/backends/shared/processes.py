"""Run one command to its end, with a deadline and capped output."""

from __future__ import annotations

import os
import select
import selectors
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Protocol

from pytest_aecbench.backends import BackendExecutionResult
from pytest_aecbench.backends.shared.output import CappedOutput
from pytest_aecbench.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["is_readable", "run"]

_CHUNK = 1024 * 1024  # at least a pipe's capacity, so that one read empties it
_POLL_SEC = 0.02
_KILL_SEC = 1.0


class _Process(Protocol):
    """The part of ``subprocess.Popen`` that is needed of a process."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int | None: ...


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    kill: Callable[[int], None],
    cwd: Path | None = None,
    stdin: IO[bytes] | None = None,
    timeout_sec: float | None = None,
    on_start: Callable[[int], object] | None = None,
    on_output: Callable[[bytes], object] | None = None,
    start: Callable[..., _Process] | None = None,
) -> BackendExecutionResult:
    """Run ``argv``, calling ``kill`` with its process id at the deadline or when interrupted.

    Processes that it leaves running keep its output streams and may go on writing to them.
    ``start`` is called like ``subprocess.Popen``, which is what starts the process by default.
    """
    started = time.monotonic()
    streams = (_Stream(on_output), _Stream(on_output))
    try:
        process = _start(start or _in_own_session, argv, streams, env=env, cwd=cwd, stdin=stdin)
        try:
            if on_start:
                on_start(process.pid)
            exited = _pump(process, streams, None if timeout_sec is None else started + timeout_sec)
        except BaseException:
            _end(process, kill)
            raise
        if not exited:
            _end(process, kill)
        for stream in streams:
            stream.read()
        return BackendExecutionResult(
            returncode=_shell_exit_code(process.returncode) if exited else None,
            stdout=streams[0].text(),
            stderr=streams[1].text(),
            timed_out=not exited,
            duration_sec=time.monotonic() - started,
            truncated=any(stream.left_out for stream in streams),
        )
    finally:
        _release(streams)


def _start(
    start: Callable[..., _Process],
    argv: Sequence[str],
    streams: tuple[_Stream, _Stream],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    stdin: IO[bytes] | None,
) -> _Process:
    try:
        return start(
            argv,
            stdin=stdin or subprocess.DEVNULL,
            stdout=streams[0].writer,
            stderr=streams[1].writer,
            env=env,
            cwd=cwd,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BackendError(f"command: cannot be started; {reason}") from None
    finally:
        for stream in streams:
            os.close(stream.writer)


# This process handles a Ctrl-C at the terminal.
_in_own_session = partial(subprocess.Popen, start_new_session=True)


def _shell_exit_code(returncode: int | None) -> int | None:
    """Return 128 plus the signal's number for a process that a signal ended."""
    return 128 - returncode if returncode is not None and returncode < 0 else returncode


def _end(process: _Process, kill: Callable[[int], None]) -> None:
    kill(process.pid)
    with suppress(subprocess.TimeoutExpired):  # even SIGKILL may take effect later
        process.wait(_KILL_SEC)


def _pump(process: _Process, streams: tuple[_Stream, _Stream], deadline: float | None) -> bool:
    """Read both streams until the process has ended; return False if the deadline came first."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.reader, selectors.EVENT_READ, stream)
        ended = _pidfd(process.pid)
        if ended is not None:
            selector.register(ended, selectors.EVENT_READ)
        try:
            while process.poll() is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                if ended is None:
                    left = _POLL_SEC if left is None else min(left, _POLL_SEC)
                for key, _ in selector.select(left):
                    if isinstance(key.data, _Stream) and not key.data.read():
                        selector.unregister(key.fd)
        finally:
            if ended is not None:
                os.close(ended)
    return True


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, if the system has them."""
    pidfd_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    with suppress(OSError):
        return pidfd_open(pid) if pidfd_open else None
    return None


class _Stream(CappedOutput):
    """One output pipe and the bytes kept of it."""

    def __init__(self, on_output: Callable[[bytes], object] | None) -> None:
        super().__init__()
        self._on_output = on_output
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.open = True

    def read(self) -> bool:
        """Read the bytes in the pipe; return False once every writer is gone."""
        with suppress(BlockingIOError):
            chunk = os.read(self.reader, _CHUNK) if self.open else b""
            self.open = bool(chunk)
            if chunk and self._on_output:
                self._on_output(chunk)
            self.keep(chunk)
        return self.open


def _release(streams: Sequence[_Stream]) -> None:
    """Close the pipes; drain those that background processes still write to."""
    lingering = [stream.reader for stream in streams if stream.read()]
    for stream in streams:
        if not stream.open:
            os.close(stream.reader)
    if lingering:
        reader = threading.Thread(
            target=_discard, args=(lingering,), name="aec-output", daemon=True
        )
        reader.start()


def is_readable(file: IO[bytes], timeout_sec: float) -> bool:
    """Wait until there is something to read, or the end; return whether it came in time."""
    # Not select, which fails for the descriptors of a process that has more than 1,024.
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(timeout_sec * 1000))


def _discard(readers: list[int]) -> None:
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if not os.read(key.fd, _CHUNK):
                    selector.unregister(key.fd)
                    os.close(key.fd)
