"""A command's output as the engine sends it: demultiplexed, capped, cut off at its end marker."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends.shared.answers import EXIT_CODES, read_number
from pytest_aecbench.backends.shared.output import CappedOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Frames", "Output"]

_HEADER = struct.Struct(">BxxxL")
_CHUNK = 256 * 1024
_LONGEST_CODE = 16  # with its newline


class Frames:
    """The frames of one command's output; iteration ends when the engine closes the stream.

    Iteration can be stopped and resumed. It raises TimeoutError at ``deadline``, which is in
    monotonic time.
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


class Output(CappedOutput):
    """The bytes kept of one stream, which ends at a line that starts with ``nonce``."""

    def __init__(self, nonce: str) -> None:
        super().__init__()
        self._marker = f"{nonce} ended ".encode()
        self._pending = b""
        self.returncode: int | None = None
        self.on_output: Callable[[bytes], object] | None = None

    def feed(self, data: bytes) -> None:
        """Add the next bytes; ignore them once the stream has ended."""
        if self.returncode is not None:
            return
        data = self._pending + data
        at = data.find(self._marker)
        if at < 0:
            at = max(0, len(data) - len(self._marker) + 1)
        else:
            self._end(data[at + len(self._marker) :])
        self.keep(data[:at])
        self._pending = b"" if self.returncode is not None else data[at:]

    def _end(self, rest: bytes) -> None:
        """Read the exit code that follows the marker, up to a newline that may be to come."""
        code, newline, _ = rest[:_LONGEST_CODE].partition(b"\n")
        if newline or len(rest) >= _LONGEST_CODE:
            text = code.decode(errors="replace") if newline else ""
            self.returncode = read_number(text, "docker", EXIT_CODES)

    def close(self) -> None:
        """Add the bytes held back as a possible end marker."""
        self.keep(self._pending)
        self._pending = b""

    def keep(self, data: bytes) -> None:
        """Add bytes, and pass them to ``on_output``."""
        if data and self.on_output:
            self.on_output(data)
        super().keep(data)
