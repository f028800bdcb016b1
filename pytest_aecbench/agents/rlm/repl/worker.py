"""Run cells: the process whose variables a model works with."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import queue
import signal
import socket
import sys
import threading
import traceback
import types
from typing import Any

from .finals import Finals
from .helpers import make_helpers
from .inputs import load_inputs
from .notes import Notes
from .report import Report, ReportError
from .values import SubcallError, described

Message = Any

SHOWN_VARIABLES = 200
SHOWN_FRAMES = 20
MAX_MESSAGE = 16 * 1024 * 1024
PACKAGE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
EXITED = "[exit() does not end the REPL; call FINAL(...) when you have the answer]"


class Worker:
    """Runs one cell after another in the main thread, so that it can be interrupted."""

    def __init__(self, directory: str, config: Message, channel: socket.socket, out: int) -> None:
        self.directory = directory
        self._config = config
        self._channel = channel
        self._out = out
        self._pid = os.getpid()
        self._cells: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._answers: dict[int, queue.SimpleQueue[Message]] = {}
        self._asked = 0
        self._count = 0
        self._is_running = False
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self.variables = module.__dict__
        self.finals = Finals(config, self.variables)
        self.notes = Notes(directory + "/notes.json")
        template = config.get("template")
        self.report = Report(template, directory + "/sections.json") if template else None
        self._helpers = make_helpers(self, config)

    def serve(self) -> None:
        """Load the inputs, then run cells for ever."""
        threading.Thread(target=self._hear, daemon=True).start()
        self._print_here()
        about, problems = load_inputs(self._config, self.variables, self.directory)
        self.variables.update(self._helpers)
        self._send({"event": "ready", "inputs": about, "problems": problems})
        known = self.described()
        while True:
            try:
                cell = self._cells.get()
                self._print_here()
                known = self._do(cell, known)
            except KeyboardInterrupt:
                continue  # the cell before has put back Python's own handler

    def _hear(self) -> None:
        with self._channel.makefile("rb") as stream:
            for line in stream:
                message = json.loads(line)
                waiting = self._answers.get(message.get("id"))
                if waiting is not None:
                    waiting.put(message)
                elif "do" in message:
                    self._cells.put(message)
        os._exit(0)

    def _print_here(self) -> None:
        """Make everything that is printed go to the keeper, whatever the last cell did to that."""
        for stream in (1, 2):
            os.dup2(self._out, stream)
        signal.signal(signal.SIGINT, self._interrupt)
        raw = io.FileIO(self._out, "w", closefd=False)
        encoding = {"encoding": "utf-8", "errors": "replace", "write_through": True}
        text = io.TextIOWrapper(io.BufferedWriter(raw), **encoding)  # type: ignore[arg-type]
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = text  # type: ignore[misc]

    def _interrupt(self, number: int, frame: object) -> None:
        """End the cell's code; once that has ended, nothing must keep the host from hearing it."""
        if self._is_running:
            raise KeyboardInterrupt

    def _do(self, cell: Message, known: dict[str, str]) -> dict[str, str]:
        if cell["do"] == "set":
            self.variables.update(cell["variables"])
            error = None
        elif cell["do"] == "finish":
            error = self._finish(cell)
        else:
            error = self._run(cell["code"])
        self._flush()
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the cell forked
        own = [name for name, value in self._helpers.items() if self._has_lost(name, value)]
        self.variables.update(self._helpers)
        described = self.described()
        event = {
            "event": "done",
            "error": error,
            "new": {name: text for name, text in described.items() if name not in known},
            "removed": [name for name in known if name not in described],
            "restored": sorted(own),
            "variables": described,
            "final": self.finals.told(),
            "notes": self.notes.keys(),
            "progress": self.report.progress() if self.report else None,
        }
        self._send(event)
        return described

    def final(self, *values: object) -> None:
        """End the run with an answer."""
        if self.report is not None:
            raise ReportError("this task has a template; FILL its sections and call SUBMIT()")
        self.finals.final(*values)

    def final_var(self, name: object) -> None:
        """End the run with the value of the variable that has this name."""
        if self.report is not None:
            raise ReportError("this task has a template; FILL its sections and call SUBMIT()")
        self.finals.final_var(name)

    def submit(self) -> None:
        """Write the report and end the run; every section has to be filled."""
        assert self.report is not None
        gaps = self.report.gaps()
        if gaps:
            raise ReportError("these sections are not filled: {}".format(", ".join(gaps)))
        self.finals.write(self.report.composed(self.finals.path), "sections")

    def _has_lost(self, name: str, value: object) -> bool:
        return self.variables.get(name) is not value

    def _run(self, code: str) -> str | None:
        """Run a cell; return its error, if it raised one."""
        self._count += 1
        name = f"<cell {self._count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            self._is_running = True
            try:
                self._send({"event": "begun"})
                return self._execute(code, name)
            finally:
                self._is_running = False
        except KeyboardInterrupt as error:  # just when it had ended
            self._is_running = False
            return self._told(error)

    def _execute(self, code: str, name: str) -> str | None:
        try:
            tree = ast.parse(code, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), self.variables)  # noqa: S102
            if isinstance(last, ast.Expr):
                shown = ast.Expression(last.value)
                value = eval(compile(shown, name, "eval"), self.variables)  # noqa: S307
                if value is not None:
                    print(repr(value))
            self.finals.look()
        except SystemExit:
            return EXITED
        except BaseException as error:  # noqa: BLE001  (whatever it is, the model is told)
            return self._told(error)
        return None

    def _told(self, error: BaseException) -> str:
        """Return a traceback without the frames of this package."""
        try:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
            if len(own) > SHOWN_FRAMES:
                half = SHOWN_FRAMES // 2
                own = own[:half] + own[-half:]
            lines = ["Traceback (most recent call last):\n"] if own else []
            lines += traceback.format_list(own)
            lines += traceback.format_exception_only(type(error), error)
            return "".join(lines)[-10_000:].rstrip()
        except BaseException:  # noqa: BLE001  (an exception of the model's own may not be printable)
            return f"{type(error).__name__} (which cannot be printed)"

    def _finish(self, cell: Message) -> str | None:
        """Write what there is of an answer, because the run is over."""
        try:
            if self.report is not None and self.report.filled:
                self.finals.write(self.report.composed(self.finals.path), "sections")
            else:
                self.finals.salvage(cell.get("text"))
        except Exception as error:  # noqa: BLE001  (whatever it is, the host is told)
            return self._told(error)
        return None

    def _flush(self) -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()

    def described(self) -> dict[str, str]:
        """Return type and size of the variables that the model made or was given."""
        names = [
            name
            for name, value in list(self.variables.items())
            if isinstance(name, str)
            and not name.startswith("_")
            and name not in self._helpers
            and not isinstance(value, types.ModuleType)
        ]
        return {name: described(self.variables[name]) for name in sorted(names)[:SHOWN_VARIABLES]}

    def call(self, requests: list[Message]) -> list[Message]:
        """Let the host ask models; return their answers in the same order."""
        if os.getpid() != self._pid:
            raise SubcallError("only the REPL's own process can ask models, not one that it forked")
        with self._sending:
            self._asked += 1
            number = self._asked
        waiting: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._answers[number] = waiting
        try:
            self._send({"event": "call", "id": number, "requests": requests})
            replies: list[Message] = waiting.get()["replies"]
            return replies
        finally:
            del self._answers[number]

    def _send(self, message: Message) -> None:
        line = json.dumps(message).encode("ascii") + b"\n"
        if len(line) > MAX_MESSAGE:
            raise SubcallError(f"{len(line):,} bytes are too much; the most is 16 MiB")
        with self._sending:
            self._channel.sendall(line)


def run_worker(directory: str, config: Message, channel: socket.socket, out: int) -> None:
    """Run cells until the end of this process."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write("500")  # rather this process than its keeper
        sys.path[:] = ["", *(entry for entry in sys.path if entry not in ("", directory))]
        sys.argv[:] = [""]
        Worker(directory, config, channel, out).serve()
    except BaseException:  # noqa: BLE001  (the keeper finds out that the process ended)
        code = 70
    finally:
        os._exit(code)
