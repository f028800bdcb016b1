"""A program on a real terminal of its own, and what a person sees there."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyte

PATIENCE_SEC = 60.0


class Terminal:
    """Runs ``argv`` on a terminal of the given size; ``seen`` keeps every byte that it sent."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        columns: int = 80,
        lines: int = 24,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.seen = b""
        self._screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        environ = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        for name in ("COLUMNS", "LINES"):  # would be believed rather than the terminal
            environ.pop(name, None)
        self._descriptor, terminal = pty.openpty()
        self._set_size(columns, lines)
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=environ,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except OSError:
                return
            with self._lock:
                self.seen += data
                self._stream.feed(data)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size, as a person pulling at its window."""
        with self._lock:
            self._screen.resize(lines, columns)
        self._set_size(columns, lines)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._descriptor, text.encode())

    @property
    def scrolls_whole(self) -> bool:
        """Whether no part of the screen is kept from scrolling."""
        margins = self._screen.margins
        return margins is None or tuple(margins) == (0, self._screen.lines - 1)

    @property
    def display(self) -> list[str]:
        """What the screen shows, line by line."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    @property
    def scrolled(self) -> list[str]:
        """What has scrolled off the top, and then the screen."""
        with self._lock:
            top = [
                "".join(row[column].data for column in range(self._screen.columns)).rstrip()
                for row in self._screen.history.top
            ]
            return [*top, *(line.rstrip() for line in self._screen.display)]

    def wait_for(self, condition: Callable[[list[str]], object]) -> list[str]:
        """Wait until the screen is as wanted, and return it."""
        deadline = time.monotonic() + PATIENCE_SEC
        while not condition(display := self.display):
            assert time.monotonic() < deadline, "\n".join(display)
            time.sleep(0.02)
        return display

    def end(self) -> int:
        """Wait for the program's end and return its exit code."""
        try:
            returncode = self._process.wait(PATIENCE_SEC)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError("\n".join(self.display)) from None
        self._reader.join(PATIENCE_SEC)
        return returncode
