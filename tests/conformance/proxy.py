"""A way to the engine that can be cut off while the engine goes on."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["EngineProxy"]


class EngineProxy:
    """Passes every connection to a socket at ``path`` on to the engine at ``host``."""

    def __init__(self, path: Path, host: str) -> None:
        self.host = f"unix://{path}"
        self._engine = host.removeprefix("unix://")
        self._open: list[socket.socket] = []
        self.held = b""  # a part of the next call that is not passed on, nor answered
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._engine)
                self._open += [here, there]
                for one, other in ((here, there), (there, here)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def cut(self) -> None:
        """Cut off all connections; new ones are passed on as before."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for one in self._open:
            one.close()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if self.held and self.held in data:
                    self.held = b""
                    continue
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
