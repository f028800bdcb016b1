"""Keep a REPL: one process that listens on a socket, and starts the one that runs cells.

The host asks one request per connection, ``{"do": ...}`` and reads one event: ``ready``, ``done``,
``calls`` that it has to answer, or ``busy``. An event is a line of JSON with its number and its
size, then its first piece; ``{"do": "more"}`` gets the next one, because backends cut long output.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from typing import Any

from .output import Output
from .worker import run_worker

VARIABLE = "AECBENCH_REPL"
PIECE = 700_000
MAX_MESSAGE = 16 * 1024 * 1024
# A client that connects has so long to send its request.
GRACE_SEC = 10.0
# Threads of a cell ask for models at about the same time; their calls are one event.
TOGETHER_SEC = 0.01
POLL_SEC = 0.05

Message = Any


class Cell:
    """One cell of the worker; its working time stands still during calls.

    After an interrupt it has ``grace_sec`` to end before its process is killed.
    """

    def __init__(self, timeout_sec: float, grace_sec: float) -> None:
        self.left_sec = self.most_sec = timeout_sec
        self.since = time.monotonic()
        self.grace_sec = grace_sec
        self.killed_at: float | None = None
        self.has_begun = False
        self.is_interrupted = False
        self.timeout_sec = timeout_sec

    def begin(self) -> None:
        """Count its time from now on: the worker may have been busy with what a cell left."""
        if not self.has_begun:
            self.has_begun, self.since = True, time.monotonic()
            self.left_sec, self.killed_at = self.most_sec, None

    def is_late(self, waits: bool) -> bool:
        """Count the time since the last look, unless the cell waits for a model."""
        now = time.monotonic()
        self.left_sec -= 0.0 if waits else now - self.since
        self.since = now
        return self.left_sec <= 0


class Keeper:
    """Answers the host, watches the worker and replaces it when it has died."""

    def __init__(self, directory: str, config: Message, listener: socket.socket) -> None:
        self._directory = directory
        self._config = config
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._cell: Cell | None = Cell(float(config["start_sec"]), GRACE_SEC)
        self._ended: Message | None = None
        self._calls: list[Message] = []
        self._called_at = 0.0
        self._unanswered: set[int] = set()
        self._client: socket.socket | None = None
        self._until = 0.0
        self._event = b""
        self._number = 0
        self._loss: str | None = None

    def serve(self) -> None:
        """Answer until the host says stop."""
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(woken, selectors.EVENT_READ, lambda: os.read(woken, 4096))
        self._start_worker()
        while True:
            for key, _ in self._selector.select(TOGETHER_SEC if self._calls else POLL_SEC):
                with contextlib.suppress(OSError):
                    key.data()
            self._look_after_worker()
            self._answer()

    def _start_worker(self) -> None:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            for end in (self._listener, ours, self._client):
                if end is not None:
                    end.close()
            os.close(read)
            run_worker(self._directory, self._config, theirs, write)
        theirs.close()
        os.close(write)
        os.set_blocking(read, False)
        ours.setblocking(False)
        self._pid, self._socket, self._pipe = pid, ours, read
        self._received, self._unsent = b"", bytearray()
        self._output = Output(read)
        self._selector.register(ours, selectors.EVENT_READ, self._hear)
        self._selector.register(read, selectors.EVENT_READ, self._listen)

    def _listen(self) -> None:
        if not self._output.read():
            self._selector.unregister(self._pipe)

    def _hear(self) -> None:
        """Read messages of the worker, and end it if they make no sense."""
        self._pass_on()
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return
        self._received += data
        if not data:
            self._selector.unregister(self._socket)
            self._kill(None)
            return
        *lines, self._received = self._received.split(b"\n")
        if max(len(self._received), *(len(line) for line in lines), 0) > MAX_MESSAGE:
            self._kill(f"sent an event of over {MAX_MESSAGE} bytes")
            return
        for line in lines:
            try:
                message = json.loads(line)
                kind = message["event"]
            except (ValueError, TypeError, KeyError, RecursionError):
                self._kill("sent an event that is not JSON")
                return
            if kind == "call" and isinstance(message.get("id"), int):
                self._called_at = self._called_at if self._calls else time.monotonic()
                self._calls.append({"id": message["id"], "requests": message.get("requests")})
                self._unanswered.add(message["id"])
            elif self._cell is not None and kind == "begun":
                self._cell.begin()
            elif self._cell is not None:
                self._end(message)

    def _end(self, message: Message) -> None:
        """Keep the end of a cell, with what it has printed."""
        self._output.read()
        message.update(self._output.take())
        if self._cell is not None and self._cell.killed_at is not None:
            message["interrupted_sec"] = self._cell.timeout_sec
        if self._loss is not None:
            message["lost"], self._loss = f"its process {self._loss}", None
        self._ended, self._cell = message, None

    def _kill(self, why: str | None) -> None:
        """End the worker, if it has not ended; the reason is its own end where there is none."""
        self._loss = self._loss or why
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)

    def _look_after_worker(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid == self._pid:
                    self._replace(status)
        cell = self._cell
        if cell is None or not cell.is_late(bool(self._unanswered)):
            return
        if cell.killed_at is None:
            cell.killed_at = cell.since + cell.grace_sec
        elif cell.since > cell.killed_at:
            self._kill(f"did not end when it was interrupted after {cell.timeout_sec:g} s")
            return
        if cell.has_begun and not cell.is_interrupted:
            cell.is_interrupted = True
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGINT)

    def _replace(self, status: int) -> None:
        """Start another worker; its first message ends the cell that the old one had."""
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        self._loss = self._loss or f"ended with exit code {code}"
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)
        self._output.read()
        printed = self._output.text
        for end in (self._socket, self._pipe):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(end)
        self._socket.close()
        os.close(self._pipe)
        self._calls, self._unanswered = [], set()
        if self._cell is not None:
            self._cell = Cell(float(self._config["start_sec"]), GRACE_SEC)
        self._start_worker()
        self._output.text = printed

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(GRACE_SEC)
        try:
            with connection.makefile("rb") as stream:
                request = json.loads(stream.read())
            self._take(request, connection)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the answer)
            self._reply(connection, {"event": "failed", "error": repr(error)[:2000]})

    def _take(self, request: Message, connection: socket.socket) -> None:
        do = request["do"]
        if do == "stop":
            self._kill("was stopped")
            self._reply(connection, {"event": "done"})
            shutil.rmtree(self._directory, ignore_errors=True)
            os._exit(0)
        if do == "more":
            self._send_piece(connection, int(request["offset"]))
            return
        if do == "answer":
            for answer in request["answers"]:
                self._unanswered.discard(answer["id"])
                self._tell(answer)
        elif do == "interrupt" and self._cell is not None:
            self._cell.left_sec = self._cell.most_sec = 0.0
            self._cell.grace_sec = float(request["grace"])
            self._unanswered.clear()
        elif do == "interrupt":
            self._ended = self._ended or {"event": "done"}
        elif do == "cell":
            self._cell = Cell(float(request["timeout"]), float(request["grace"]))
            self._ended = None
            self._output.take()
            self._tell(request["cell"])
        if self._client is not None:
            self._client.close()
        self._client, self._until = connection, time.monotonic() + float(request["wait"])

    def _tell(self, message: Message) -> None:
        self._unsent += json.dumps(message).encode("ascii") + b"\n"
        self._pass_on()

    def _pass_on(self) -> None:
        """Send the worker what it takes now; code of a cell can keep it from listening for long."""
        with contextlib.suppress(OSError):
            del self._unsent[: self._socket.send(self._unsent)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        with contextlib.suppress(KeyError):  # the worker has closed its end
            self._selector.modify(self._socket, events, self._hear)

    def _answer(self) -> None:
        if self._client is None:
            return
        now = time.monotonic()
        if self._ended is not None:
            event, self._ended = self._ended, None
        elif self._calls and now >= self._called_at + TOGETHER_SEC:
            event, self._calls = {"event": "calls", "calls": self._calls}, []
        elif now >= self._until:
            event = {"event": "busy"}
        else:
            return
        client, self._client = self._client, None
        self._reply(client, event)

    def _reply(self, client: socket.socket, event: Message) -> None:
        content = json.dumps(event).encode("ascii")
        if len(content) > MAX_MESSAGE:
            content = b'{"event": "failed", "error": "the event is too long"}'
        self._event, self._number = content, self._number + 1
        self._send_piece(client, 0)

    def _send_piece(self, client: socket.socket, offset: int) -> None:
        head = {"reply": self._number, "size": len(self._event)}
        piece = self._event[offset : offset + PIECE]
        with contextlib.suppress(OSError), client:
            client.settimeout(GRACE_SEC)
            client.sendall(json.dumps(head).encode("ascii") + b"\n" + piece)


def serve(directory: str) -> None:
    """Listen in the directory, and go on in a process of its own."""
    with open(directory + "/config.json", encoding="utf-8") as file:  # noqa: PTH123
        config = {**json.load(file), **json.loads(os.environ.pop(VARIABLE))}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(directory + "/socket")
        listener.listen(16)
        if os.fork():
            return
        os.setsid()
        if os.fork():
            os._exit(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        sys.stdin = sys.stdout = sys.stderr = open(os.devnull, "r+")  # noqa: PTH123, SIM115
        Keeper(directory, config, listener).serve()
