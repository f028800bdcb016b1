"""The output of a command as it comes from the engine: demultiplexed, capped, with its end told."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends.processes import OUTPUT_CAP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Frames", "Output"]

_HALF = OUTPUT_CAP // 2
_HEADER = struct.Struct(">BxxxL")
_CHUNK = 256 * 1024


class Frames:
    """The frames of one command's output; iterating ends where the engine closes the stream.

    Iteration may be broken off and taken up again. It raises TimeoutError at ``deadline``, which
    is in monotonic time.
    """

    def __init__(self, socket: Any, already_read: bytes = b"") -> None:
        self._socket = socket
        self._buffer = bytearray(already_read)
        self.deadline: float | None = None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the stream's number, 1 or 2, and the bytes of each frame."""
        while True:
            while frame := self._next():
                yield frame
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            try:
                chunk = self._socket.recv(_CHUNK)
            except ConnectionError:
                return
            if not chunk:
                return
            self._buffer += chunk

    def _next(self) -> tuple[int, bytes] | None:
        if len(self._buffer) < _HEADER.size:
            return None
        stream, size = _HEADER.unpack_from(self._buffer)
        end = _HEADER.size + size
        if len(self._buffer) < end:
            return None
        data = bytes(self._buffer[_HEADER.size : end])
        del self._buffer[:end]
        return stream, data


class Output:
    """The bytes kept of one stream, its head and its tail; a line with ``word`` ends it."""

    def __init__(self, word: str) -> None:
        self._marker = f"\n{word} ended ".encode()
        self._pending = b""
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0
        self.returncode: int | None = None
        self.on_output: Callable[[bytes], object] | None = None

    def feed(self, data: bytes) -> None:
        """Take what came next; nothing counts any more once the stream has ended."""
        if self.returncode is not None:
            return
        data = self._pending + data
        at = data.find(self._marker)
        if at < 0:
            at = max(0, len(data) - len(self._marker) + 1)
        else:
            code, newline, _ = data[at + len(self._marker) :].partition(b"\n")
            if newline:
                self.returncode = int(code)
        self._keep(data[:at])
        self._pending = b"" if self.returncode is not None else data[at:]

    def close(self) -> None:
        """Take what was held back, for it was no end."""
        self._keep(self._pending)
        self._pending = b""

    def _keep(self, data: bytes) -> None:
        if data and self.on_output:
            self.on_output(data)
        self._seen += len(data)
        room = _HALF - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * OUTPUT_CAP:
            del self._tail[:-_HALF]

    @property
    def left_out(self) -> int:
        """How many bytes from the middle are not kept."""
        return max(0, self._seen - 2 * _HALF)

    def text(self) -> str:
        """Return what is kept, as text."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail[-_HALF:]))
        return f"{head}\n[{self.left_out} bytes left out]\n{tail}"
