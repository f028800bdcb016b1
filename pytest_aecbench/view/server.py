"""The server: connections in threads, each with one request that must come soon and be short."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from pytest_aecbench.view.access import HEADERS, RefusalError
from pytest_aecbench.view.answers import MAX_TARGET_BYTES, Answer, refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

    Answering = Callable[[str, str, Message], Answer]

__all__ = ["Server"]

_MAX_CONNECTIONS = 256
_MAX_REQUESTS = 32
_MAX_HEAD_BYTES = 32 * 1024
_SEND_SEC = 10.0
_READ_SEC = 60.0


class Server(ThreadingHTTPServer):
    """Serves until it is shut down.

    A connection that has not sent its request within ten seconds is closed. When there are too many
    connections, the oldest of those makes room for the new one, so that idle ones do not matter.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], answer: Answering) -> None:
        self.answer = answer
        self.requests = threading.BoundedSemaphore(_MAX_REQUESTS)
        self._waiting: dict[socket.socket, float] = {}  # without a request so far, oldest first
        self._connections = 0
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Connection)

    def server_bind(self) -> None:
        """Bind without asking for the name of this machine, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, if need be in place of one that waits."""
        with self._lock:
            is_full = self._connections >= _MAX_CONNECTIONS
            oldest = next(iter(self._waiting), None) if is_full else None
            if oldest is not None:
                del self._waiting[oldest]
                _hang_up(oldest)
            elif is_full:
                self.shutdown_request(request)
                return
            self._connections += 1
            self._waiting[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads are allowed
            self.shutdown_request(request)
            self.forget(request)

    def received(self, request: socket.socket) -> None:
        """Note that a connection's request has come."""
        with self._lock:
            self._waiting.pop(request, None)

    def forget(self, request: socket.socket) -> None:
        """Note that a connection is over."""
        with self._lock:
            self._waiting.pop(request, None)
            self._connections -= 1

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.forget(request)

    def service_actions(self) -> None:
        """Close connections whose request takes too long, however steadily it drips."""
        too_old = time.monotonic() - _SEND_SEC
        with self._lock:
            for request, since in list(self._waiting.items()):
                if since > too_old:
                    break
                del self._waiting[request]
                _hang_up(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that go away."""


def _hang_up(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Head(io.BufferedIOBase):
    """Reads the lines of a request, no more than a few kilobytes in all."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = _MAX_HEAD_BYTES
        self.is_too_long = False

    def readline(self, size: int | None = -1, /) -> bytes:
        line: bytes = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            self.is_too_long = True
            return b""
        return line

    def close(self) -> None:
        self._file.close()


class _Connection(BaseHTTPRequestHandler):
    """One request and its answer."""

    server: Server
    server_version = "aec-bench"
    sys_version = ""
    timeout = _READ_SEC

    def handle(self) -> None:
        """Read the request, answer it, and end the connection."""
        head = _Head(self.rfile)
        self.rfile = head
        self.close_connection = True
        self.requestline, self.command = "", ""
        self.raw_requestline = head.readline()
        if head.is_too_long or len(self.raw_requestline) > MAX_TARGET_BYTES + 64:
            self._send(refusal(RefusalError(414, "the address is too long")))
        elif self.raw_requestline and self.parse_request():
            self.server.received(self.request)
            if head.is_too_long:
                self._send(refusal(RefusalError(431, "the headers are too long")))
            else:
                self._send(self._answer())

    def _answer(self) -> Answer:
        with self.server.requests:
            try:
                return self.server.answer(self.command, self.path, self.headers)
            except Exception:  # noqa: BLE001  (a mistake of ours, which must not end the page)
                traceback.print_exc()
                return refusal(RefusalError(500, "the viewer failed; its terminal says why"))

    def _send(self, answer: Answer) -> None:
        self.request_version = "HTTP/1.1"  # of an older one there would be no headers
        self.send_response_only(answer.status)
        length = {"Content-Type": answer.kind, "Content-Length": str(len(answer.body))}
        for name, value in {**HEADERS, **length, "Connection": "close", **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self._drain()

    def _drain(self) -> None:
        """Take what was sent in vain, or the client would not get to read the answer."""
        with contextlib.suppress(OSError):
            self.request.shutdown(socket.SHUT_WR)
            self.request.settimeout(0.5)
            for _ in range(64):
                if not self.request.recv(65536):
                    break

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not HTTP, without repeating any of it."""
        self._send(refusal(RefusalError(int(code), "this is not a request that can be answered")))

    def log_message(self, *arguments: Any) -> None:
        """Keep no log, because addresses name trials."""
