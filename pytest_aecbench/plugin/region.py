"""Lines at the bottom of a terminal that stay while everything else scrolls above them."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Region"]

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_DOWN = "\x1bD"  # scrolls at the bottom, and stays in its column
_ALL_SCROLLS = "\x1b[r"
_ERASE_LINE, _ERASE_BELOW = "\x1b[2K", "\x1b[J"
_CLIP, _WRAP = "\x1b[?7l", "\x1b[?7h"
# With fewer lines, what scrolls is worth more than what stays.
_LEAST_LINES = 8


class Region:
    """The last lines of the terminal that ``file`` leads to.

    The terminal itself scrolls only the lines above them, so other writers, such as pytest, a test
    under ``-s`` or another process, need not know of them. Every change is one write.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._drawn: tuple[os.terminal_size, int] | None = None
        self._closed = False
        self._lock = threading.RLock()  # a signal may close it while the same thread clears it

    def draw(self, compose: Callable[[int, int], Sequence[str]]) -> None:
        """Show what ``compose`` returns for a width and a greatest number of lines."""
        with self._lock, suppress(OSError):  # a terminal that is gone shows nothing
            size = os.get_terminal_size(self._file.fileno())
            if self._closed or size.lines < _LEAST_LINES:
                return
            # In the last column terminals differ on what comes next.
            lines = compose(size.columns - 1, size.lines // 2)
            if lines:
                self._write(self._make_room(size, len(lines)) + _placed(lines, size))

    def close(self) -> None:
        """Leave the terminal as if nothing had been there; draw no more."""
        with self._lock, suppress(OSError):
            self._closed = True
            if self._drawn is not None:
                size, height = self._drawn
                self._drawn = None
                self._write(_placed([""] * height, size) + _SAVE + _ALL_SCROLLS + _RESTORE)

    def _make_room(self, size: os.terminal_size, height: int) -> str:
        if self._drawn == (size, height):
            return ""
        again = self._drawn is not None
        self._drawn = (size, height)
        # Below the cursor there are but our own lines, wherever a resize has moved them.
        clear = f"{_SAVE}{_ALL_SCROLLS}{_RESTORE}{_ERASE_BELOW}" if again else ""
        room = f"{_DOWN * height}\x1b[{height}A"
        return f"{clear}{room}{_SAVE}\x1b[1;{size.lines - height}r{_RESTORE}"

    def _write(self, text: str) -> None:
        os.write(self._file.fileno(), text.encode(self._file.encoding, "replace"))


def _placed(lines: Sequence[str], size: os.terminal_size) -> str:
    first = size.lines - len(lines) + 1
    rows = (f"\x1b[{first + i};1H{_ERASE_LINE}{line}" for i, line in enumerate(lines))
    return f"{_SAVE}{_CLIP}{''.join(rows)}{_WRAP}{_RESTORE}"
