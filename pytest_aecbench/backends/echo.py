"""What commands print, shown while they print it (``pytest -s``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.host.secrets import Scrubber

__all__ = ["Echo"]

_LONGEST_LINE = 64 * 1024


class Echo:
    """Passes on whole lines, free of secrets, and all at the end where a backend gave none."""

    def __init__(self, scrubber: Scrubber, write: Callable[[str], object]) -> None:
        self._scrubber = scrubber
        self._write = write
        self._pending = b""
        self._is_given = False
        self._is_first = True

    def __call__(self, chunk: bytes) -> None:
        """Take what a command has just printed."""
        self._is_given = True
        lines, newline, self._pending = (self._pending + chunk).rpartition(b"\n")
        if len(self._pending) > _LONGEST_LINE:
            lines, newline, self._pending = lines + newline + self._pending, b"", b""
        self._show(lines + newline)

    def end(self, result: BackendExecutionResult) -> None:
        """Take note that the command has ended, and how."""
        printed = (result.stdout + result.stderr).encode(errors="surrogateescape")
        rest = self._pending if self._is_given else printed
        self._show(rest if rest.endswith(b"\n") or not rest else rest + b"\n")
        self._pending, self._is_given = b"", False

    def _show(self, data: bytes) -> None:
        if data:
            text = self._scrubber.text(data.decode(errors="replace"))
            self._write(f"\n{text}" if self._is_first else text)  # not behind the trial's name
            self._is_first = False
