"""Capped output: the head and the tail of an over-long stream."""

from __future__ import annotations

from pytest_aecbench.text import joined_ends

__all__ = ["OUTPUT_CAP", "CappedOutput"]

# Bytes kept of each stream, half from its head and half from its tail.
OUTPUT_CAP = 1024 * 1024
_HALF = OUTPUT_CAP // 2


class CappedOutput:
    """The bytes kept of one stream, in bounded memory."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def keep(self, data: bytes) -> None:
        """Add the next bytes."""
        self._seen += len(data)
        room = _HALF - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * OUTPUT_CAP:
            del self._tail[:-_HALF]

    @property
    def left_out(self) -> int:
        """The number of bytes from the middle that are not kept."""
        return max(0, self._seen - 2 * _HALF)

    def text(self) -> str:
        """Return the kept bytes as text."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        return joined_ends(self._head, self._tail[-_HALF:], self.left_out)
