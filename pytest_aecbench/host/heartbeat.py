"""Heartbeats: a live process touches its files, because not every process can look it up."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["beat", "silence"]

BEAT_SEC = 30.0


def beat(path: Path) -> None:
    """Touch a file of this process again and again, for as long as both exist."""
    _HEART.add(path)


def silence(path: Path) -> float:
    """Return for how many seconds a file has not been touched, by its filesystem's own clock.

    It is 0 if that cannot be known.
    """
    try:
        # The clock of a shared filesystem is its server's, which also dates a new file.
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            return os.fstat(probe.fileno()).st_mtime - path.stat().st_mtime
    except OSError:
        return 0.0


class _Heart:
    """The files that this process touches, and the thread that does it."""

    def __init__(self) -> None:
        self._files: set[Path] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, path: Path) -> None:
        with self._lock:
            self._files.add(path)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="aec-heartbeat", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT_SEC):
            with self._lock:
                paths = list(self._files)
            for path in paths:
                try:
                    os.utime(path)
                except FileNotFoundError:
                    with self._lock:
                        self._files.discard(path)
                except OSError:
                    continue  # such as a server that is away; the next beat may reach it


_HEART = _Heart()
