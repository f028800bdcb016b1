"""The output of a cell: both ends of what is printed, and how much there was."""

from __future__ import annotations

import codecs
import contextlib
import os
from typing import Any

KEPT_CHARS = 50_000
MOST_READS = 64


class Text:
    """Both ends of a text that may be too long to keep."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._chars = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> None:
        """Append some bytes."""
        text = self._decoder.decode(data)
        self._chars += len(text)
        missing = KEPT_CHARS - len(self._head)
        self._head, rest = self._head + text[:missing], text[missing:]
        self._tail = (self._tail + rest)[-KEPT_CHARS:]

    def told(self) -> dict[str, Any]:
        """Return what the host is told."""
        return {"head": self._head, "tail": self._tail, "chars": self._chars}


class Output:
    """Reads the pipe into which a worker prints."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.text = Text()

    def read(self) -> bool:
        """Read what is there now; return whether there may be more later."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(MOST_READS):  # a thread may print for ever
                data = os.read(self._pipe, 1 << 20)
                if not data:
                    return False
                self.text.add(data)
        return True

    def take(self) -> dict[str, Any]:
        """Return what was printed, and begin anew."""
        text, self.text = self.text, Text()
        return {"output": text.told()}
