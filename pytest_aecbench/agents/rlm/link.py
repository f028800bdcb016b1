"""The host's end of a REPL in the sandbox: it starts it, gives it cells, and starts it again.

Nothing that comes from there is trusted: a model can write any code, also into the REPL's own
process.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.exchange import GRACE_SEC, Exchange, NoAnswerError
from pytest_aecbench.agents.rlm.repl.finals import PREVIEW_CHARS
from pytest_aecbench.agents.rlm.repl.keeper import MAX_MESSAGE, PIECE, VARIABLE
from pytest_aecbench.agents.rlm.repl.values import MOST_CALLS
from pytest_aecbench.errors import BackendError, LaunchError, SandboxBroken, TaskError
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = ["Calls", "CellEnd", "Progress", "Repl", "ReplConfig"]

START_SEC = 120.0
# The limit for what the harness itself asks of the REPL.
DO_SEC = 60.0
# One command of the sandbox waits so long for an event before it is asked again.
WAIT_SEC = 20.0
# A model sees both ends of a longer output.
OUTPUT_CHARS = 10_000
# A REPL that is lost more often than this in one run is not started again.
_MOST_STARTS = 20
# Of what a REPL says of itself, the host keeps so many names.
_MOST_NAMES = 500
# After its limit, or at the end of the run, a cell has so long to end before it is killed.
CELL_GRACE_SEC = 10.0
_INTERRUPT_GRACE_SEC = 2.0
_NO_PYTHON = 97
_UPLOADED = "/logs/agent/.aecbench-rlm"
_DIRECTORY = re.compile(r"/tmp/aecbench-rlm-\w+")  # noqa: S108  (made by mktemp in the sandbox)
_PACKAGE = Path(__file__).with_name("repl")
_START = """
command -v python3 >/dev/null || exit {no_python}
directory=$(umask 077 && mktemp -d /tmp/aecbench-rlm-XXXXXXXX) || exit 1
python3 -m zipfile -e {uploaded} "$directory" || exit 1
rm -f {uploaded}
python3 -c 'import sys; sys.path.insert(0, sys.argv[1])
from aecbench_repl.keeper import serve; serve(sys.argv[1])' "$directory" && echo "$directory"
"""
# Not a file of the REPL's directory, which a cell could have changed. The module beneath ``socket``
# is imported in a tenth of the time.
_ASK = """python3 -I -S -c 'import _socket, sys
asked = sys.stdin.buffer.read()
link = _socket.socket(_socket.AF_UNIX)
link.connect(sys.argv[1] + "/socket")
link.sendall(asked)
link.shutdown(_socket.SHUT_WR)
while True:
    data = link.recv(65536)
    if not data: break
    sys.stdout.buffer.write(data)' {directory}"""


@dataclass(frozen=True, slots=True)
class ReplConfig:
    """The settings and files that a REPL starts with; ``files`` have their names there.

    ``settings`` are those of ``repl.worker``. ``paths`` are of the sandbox: a backend that rewrites
    them finds them in a variable.
    """

    settings: Mapping[str, Any]
    paths: Mapping[str, Any]
    files: Mapping[str, Path | bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls to models that a cell waits for: the requests of each group, by its number."""

    groups: Mapping[int, tuple[Mapping[str, Any], ...]]


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a report: its sections, those that are filled, and those that can be."""

    total: int
    filled: tuple[str, ...]
    unlocked: tuple[str, ...]

    @classmethod
    def of(cls, given: object) -> Progress | None:
        """Read what the REPL says of a report; None if there is none."""
        if not isinstance(given, dict) or not isinstance(given.get("total"), int):
            return None
        return cls(given["total"], _names(given.get("filled")), _names(given.get("unlocked")))

    def to_json(self) -> dict[str, Any]:
        """Return what a trajectory says of it."""
        return {
            "completed": len(self.filled),
            "total": self.total,
            "filled": list(self.filled),
            "unlocked": list(self.unlocked),
        }


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The end of a cell; ``lost`` says how the REPL's variables were lost, if they were.

    ``final`` is what is known of the answer that the cell declared. ``missing`` are the inputs that
    a REPL which was started again could not load.
    """

    output: str = ""
    error: str | None = None
    lost: str | None = None
    new: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    final: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    progress: Progress | None = None
    interrupted_sec: float | None = None
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> CellEnd:
        """Read an event, without values of the wrong type."""
        return cls(
            _output(event.get("output")),
            _text(event.get("error")),
            _text(event.get("lost")),
            _texts(event.get("new")),
            _names(event.get("removed")),
            _names(event.get("restored")),
            _texts(event.get("variables")),
            _final(event.get("final")),
            _names(event.get("notes")),
            Progress.of(event.get("progress")),
            _number(event.get("interrupted_sec")),
            _names(event.get("problems")),
        )


class Repl:
    """One REPL. ``inputs`` are the variables that it began with, each with its type and size."""

    def __init__(self, sandbox: Sandbox, config: ReplConfig) -> None:
        self._sandbox = sandbox
        self._config = config
        self._starts = 0
        self.history: list[Mapping[str, str]] = []
        self.inputs: dict[str, str] = {}
        if missing := self._start():
            raise TaskError(f"rlm.toml: inputs.{missing[0]}; name a file that can be read")

    def begin(self, cell: Mapping[str, Any], timeout_sec: float) -> Calls | CellEnd | None:
        """Give the REPL a cell; return its end, calls to answer, or None while it is busy."""
        wait_sec = min(WAIT_SEC, timeout_sec)
        limits = {"timeout": timeout_sec, "grace": CELL_GRACE_SEC, "wait": wait_sec}
        return self._event({"do": "cell", "cell": cell, **limits}, wait_sec)

    def go_on(
        self, answers: Mapping[int, Iterable[Any]], wait_sec: float
    ) -> Calls | CellEnd | None:
        """Answer calls, maybe none, and return what happens next within a time."""
        given = [{"id": number, "replies": list(said)} for number, said in answers.items()]
        wait_sec = min(WAIT_SEC, wait_sec)
        return self._event({"do": "answer", "answers": given, "wait": wait_sec}, wait_sec)

    def interrupt(self) -> None:
        """End the cell that is running, or its process."""
        request = {"do": "interrupt", "grace": _INTERRUPT_GRACE_SEC, "wait": 3 * GRACE_SEC}
        self._event(request, 3 * GRACE_SEC)

    def do(self, cell: Mapping[str, Any]) -> CellEnd:
        """Give the REPL something that calls no models; return its end."""
        give_up = time.monotonic() + 2 * DO_SEC
        event = self.begin(cell, DO_SEC)
        while not isinstance(event, CellEnd):
            if time.monotonic() > give_up:  # a cell can have put something else in its place
                return self._restarted("it did not come to an end")
            event = self.go_on({}, DO_SEC)
        return event

    def stop(self) -> None:
        """Let the REPL end; the rest of it dies with the sandbox."""
        with suppress(BackendError, NoAnswerError):
            self._exchange.ask({"do": "stop"}, GRACE_SEC)

    def _event(self, request: Mapping[str, Any], wait_sec: float) -> Calls | CellEnd | None:
        try:
            event = self._exchange.ask(request, wait_sec)
        except NoAnswerError as error:
            return self._restarted(str(error))
        kind = event.get("event")
        if kind == "busy":
            return None
        if kind == "calls":
            calls = _calls(event.get("calls"))
            return calls if calls is not None else self._restarted("a call made no sense")
        if kind == "failed":
            return self._restarted(str(event.get("error")))
        end = CellEnd.of(event)
        if end.lost and self.history:
            self.tell_history()
        return end

    def tell_history(self) -> None:
        """Put the conversation so far into the variable ``history``."""
        with suppress(NoAnswerError):
            self.do({"do": "set", "variables": {"history": self.history}})

    def _restarted(self, why: str) -> CellEnd:
        """Start another REPL and return the end of the cell that the old one had.

        A cell can make that impossible, which is the agent's outcome and not a mistake of the task.
        """
        self.stop()
        try:
            missing = self._start()
        except (LaunchError, TaskError) as error:
            raise SandboxBroken(f"the REPL was lost ({why}) and {error}") from None
        if self.history:
            self.tell_history()
        return CellEnd(lost=f"the connection to it broke: {why}", missing=missing)

    def _start(self) -> tuple[str, ...]:
        """Start a REPL; return what is wrong with its inputs."""
        self._starts += 1
        if self._starts > _MOST_STARTS:
            raise LaunchError(f"was started {_MOST_STARTS} times")
        with tempfile.TemporaryDirectory(prefix="aecbench-rlm-") as directory:
            archive = Path(directory, "repl.zip")
            self._pack(archive)
            archive.chmod(0o644)
            uploaded = f"{_UPLOADED}-{token_hex(8)}"  # several may start at once
            done = self._sandbox.execute(
                _START.format(no_python=_NO_PYTHON, uploaded=uploaded),
                env={VARIABLE: json.dumps(self._config.paths)},
                timeout_sec=START_SEC,
                uploads={uploaded: archive},
            )
        if done.returncode == _NO_PYTHON:
            raise TaskError("rlm: needs python3 in the sandbox, which the image lacks; install it")
        place = done.stdout.strip().rpartition("\n")[2]
        if done.returncode != 0 or not _DIRECTORY.fullmatch(place):
            said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            raise LaunchError(f"rlm: the REPL cannot be started; {said[:500]}")
        ask = _ASK.format(directory=place)
        self._exchange = Exchange(self._sandbox, ask, "REPL", PIECE, MAX_MESSAGE)
        return self._await_ready()

    def _await_ready(self) -> tuple[str, ...]:
        try:
            event = self._exchange.ask({"do": "wait", "wait": START_SEC}, START_SEC)
        except NoAnswerError as error:
            raise LaunchError(f"rlm: the REPL did not start; {error}") from None
        if event.get("event") != "ready":
            raise LaunchError(f"rlm: the REPL did not start; {str(event)[:500]}")
        about = event.get("inputs")
        for one in about if isinstance(about, list) else ():
            if isinstance(one, dict):
                self.inputs[str(one.get("name"))] = str(one.get("type"))
        return _names(event.get("problems"))

    def _pack(self, archive: Path) -> None:
        """Put the REPL's own files, its settings and its inputs into one file."""
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            for source in sorted(_PACKAGE.glob("*.py")):
                packed.write(source, f"aecbench_repl/{source.name}")
            packed.writestr("config.json", json.dumps({**self._config.settings, "start_sec": 60.0}))
            for name, content in self._config.files.items():
                if isinstance(content, Path):
                    packed.write(content, name)
                else:
                    packed.writestr(name, content)


def _calls(given: object) -> Calls | None:
    groups: dict[int, tuple[Mapping[str, Any], ...]] = {}
    count = 0
    for one in given if isinstance(given, list) else ():
        number, requests = (one.get("id"), one.get("requests")) if isinstance(one, dict) else (0, 0)
        if not isinstance(number, int) or number in groups or not isinstance(requests, list):
            return None
        count += len(requests)
        if count > MOST_CALLS or not all(isinstance(request, dict) for request in requests):
            return None
        groups[number] = tuple(requests)
    return Calls(groups) if groups else None


def _output(given: object) -> str:
    """Return what a cell printed, shortened to what a model sees of it."""
    if not isinstance(given, dict):
        return ""
    head, tail, chars = given.get("head"), given.get("tail"), given.get("chars")
    if not isinstance(head, str) or not isinstance(tail, str) or not isinstance(chars, int):
        return ""
    if len(head) + len(tail) >= chars:
        return both_ends(head + tail, OUTPUT_CHARS)
    half = OUTPUT_CHARS // 2
    return f"{head[:half]}\n[{chars - 2 * half} characters left out]\n{tail[-half:]}"


def _text(given: object) -> str | None:
    return both_ends(given, OUTPUT_CHARS) if isinstance(given, str) and given else None


def _texts(given: object) -> dict[str, str]:
    items = islice(given.items(), _MOST_NAMES) if isinstance(given, dict) else ()
    return {name[:100]: str(text)[:100] for name, text in items}


def _names(given: object) -> tuple[str, ...]:
    listed = given[:_MOST_NAMES] if isinstance(given, list) else ()
    return tuple(str(name)[:500] for name in listed)


def _number(given: object) -> float | None:
    try:
        return float(given) if isinstance(given, (int, float)) else None
    except OverflowError:
        return None


def _final(given: object) -> Mapping[str, Any] | None:
    """Return where an answer came from and how it begins; that of a child is all there."""
    if not isinstance(given, dict):
        return None
    about: dict[str, Any] = {
        name: given[name][:PREVIEW_CHARS]
        for name in ("from", "preview")
        if isinstance(given.get(name), str)
    }
    about |= {"chars": given["chars"]} if isinstance(given.get("chars"), int) else {}
    return about | ({"text": given["text"]} if isinstance(given.get("text"), str) else {})
