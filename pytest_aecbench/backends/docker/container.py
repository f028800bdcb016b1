"""One Docker container as a sandbox: run commands, copy files in and out, kill processes."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from pytest_aecbench.backends import BackendExecutionResult
from pytest_aecbench.backends.docker._internals import already_read, connection_of
from pytest_aecbench.backends.docker.engine import TROUBLE, is_gone, is_late, translated
from pytest_aecbench.backends.docker.kill import insist
from pytest_aecbench.backends.docker.scripts import KILL_NEWER, OOM_KILLS, RUN
from pytest_aecbench.backends.docker.streams import Frames, Output
from pytest_aecbench.backends.shared.answers import check_number, read_number
from pytest_aecbench.backends.shared.archives import (
    NOT_A_DIRECTORY,
    ArchiveWriter,
    sandbox_path,
    unpack,
)
from pytest_aecbench.backends.shared.shell import check_request
from pytest_aecbench.backends.shared.spool import spool
from pytest_aecbench.errors import (
    BackendError,
    SandboxBroken,
    SandboxGone,
    TransferError,
)
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_aecbench.backends import BackendExecutionRequest

__all__ = ["ROOT", "Container"]

# The names under which an image's user is root.
ROOT = ("", "0", "root", "0:0", "root:root")
_PREPARE_SEC = 60.0  # to kill and upload before a command starts
_SLOWEST_UPLOAD = 1024**2  # bytes per second
_TOOL_SEC = 10.0
_DRAIN_SEC = 0.5
_DEATH_SEC = 5.0
_CHUNK = 1024 * 1024
_LONGEST_SAID = 4 * 1024 * 1024  # by our own scripts, unless an agent has replaced their shell
_KILLED = 137
_CANNOT_RUN = 126
_OUT_OF_MEMORY = "killed: the sandbox is out of memory\n"


class _NotStartedError(Exception):
    """The command was not started, because ``what`` failed: kill, place, start or tar."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(reason or what)
        self.what = what


@dataclass(eq=False, slots=True)
class _Running:
    """One process in the container that runs the script."""

    exec_id: str
    socket: Any
    frames: Frames
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    start_time: str = ""
    stdout: Output = field(init=False)
    stderr: Output = field(init=False)

    def __post_init__(self) -> None:
        self.stdout, self.stderr = Output(self.nonce), Output(self.nonce)

    def read(self) -> None:
        """Read until the command has ended or the stream is closed."""
        for number, data in self.frames:
            (self.stdout if number == 1 else self.stderr).feed(data)
            if self.ended:
                return

    @property
    def ended(self) -> bool:
        return self.stdout.returncode is not None and self.stderr.returncode is not None


@dataclass(eq=False)
class Container:
    """A running container, in which commands run as ``user`` unless they name another.

    ``impatient`` is a client of the engine for calls that end quickly unless something is wrong.
    ``expires`` is the end of its lifetime, in monotonic time. Unless it is ``ready``, the first
    command makes the directories that every sandbox has.
    """

    api: Any
    impatient: Any
    container_id: str
    workdir: PurePosixPath
    user: str
    ready: bool
    expires: float | None = None
    _has_tar: bool = True
    _is_stopped: bool = False
    _oom_kills: int = 0
    _requests: set[str] = field(default_factory=set)
    # Those without a process yet that bears their mark: one that is being started would be killed
    # with another request's processes, so killing and starting take turns.
    _starting: set[str] = field(default_factory=set)
    _is_killing: bool = False
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _killer: threading.Lock = field(default_factory=threading.Lock)  # two would kill each other

    def execute(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        """Run one command to completion."""
        check_request(request, request.env)
        uploads = {sandbox_path(target): source for target, source in request.uploads.items()}
        user = self.user if request.user is None else request.user
        try:
            if self.ready and not (uploads or request.exclusive):
                return self._run(request, user)
            with _packed(uploads) as archive:
                return self._prepare_and_run(request, user, list(uploads), archive)
        except _NotStartedError as error:
            return self._explain(error, user)
        except SandboxGone:
            if not self._is_expired():
                self._raise_if_dead()  # with the reason
            raise

    def _is_expired(self) -> bool:
        return self.expires is not None and time.monotonic() >= self.expires

    def _explain(self, error: _NotStartedError, user: str) -> BackendExecutionResult:
        self._raise_if_dead()
        reason = str(error)
        if "temporarily unavailable" in reason:  # the agent's own processes reached the limit
            return BackendExecutionResult(_CANNOT_RUN, stderr=f"bash: {reason}\n")
        if "unable to find user" in reason or "unable to find group" in reason:
            raise BackendError(f"user: {user!r} is not known in the image") from None
        if "executable file not found" not in reason:
            self._await_death()
        raise SandboxBroken(f"docker: the command cannot be started; {reason}") from None

    def _prepare_and_run(
        self,
        request: BackendExecutionRequest,
        user: str,
        targets: list[PurePosixPath],
        archive: IO[bytes],
    ) -> BackendExecutionResult:
        if user in ROOT and self._has_tar:
            try:
                return self._run(request, user, request.exclusive, targets, archive)
            except _NotStartedError as error:
                self._remedy(error, request.exclusive)
        self._prepare(request.exclusive, targets, archive)
        return self._run(request, user)

    def _prepare(self, kill: bool, targets: list[PurePosixPath], archive: IO[bytes]) -> None:
        """Kill and place as root, for another user's command or after a failed attempt."""
        for attempt in range(3):
            sent = archive if targets and self._has_tar else None
            try:
                with self._counted() as mark, self._opened("0", mark) as running:
                    self._send(running, self._steps(kill), "/", "", targets, sent)
                    self._await(running, "prepared")
                self.ready = True
            except _NotStartedError as error:
                if attempt == 2:
                    raise
                self._remedy(error, kill)
            else:
                break
        if targets and not sent:
            archive.seek(0)
            with translated(TransferError, "uploading"):
                self.api.put_archive(self.container_id, "/", archive)

    def _remedy(self, error: _NotStartedError, kill: bool) -> None:
        """Avoid a step that failed: kill by restarting the container, unpack by the engine."""
        if error.what == "tar":
            self._has_tar = False
        elif error.what == "place":
            raise SandboxBroken(f"docker: files cannot be placed; {error}") from None
        elif kill:
            self._raise_if_dead()
            self._restart()
        else:
            raise error

    def _run(
        self,
        request: BackendExecutionRequest,
        user: str,
        kill: bool = False,
        targets: list[PurePosixPath] | None = None,
        archive: IO[bytes] | None = None,
    ) -> BackendExecutionResult:
        steps = self._steps(kill) + ("" if request.cwd else " make")
        cwd, command = request.cwd or str(self.workdir), request.command or ":"
        with self._counted() as mark, self._opened(user, mark, request.env) as running:
            running.stdout.on_output = running.stderr.on_output = request.on_output
            sent = archive if targets else None
            self._send(running, steps, cwd, command, targets or [], sent)
            self._await(running, "started")
            self._has_started(mark)
            self.ready = True
            return self._follow(running, request.timeout_sec, mark, user)

    def _steps(self, kill: bool) -> str:
        return ("kill" if kill else "") + ("" if self.ready else " first")

    @contextmanager
    def _counted(self) -> Iterator[str]:
        """Yield a mark for processes that another request's deadline has to spare."""
        mark = secrets.token_hex(8)
        with self._turn:
            self._turn.wait_for(lambda: not self._is_killing, _PREPARE_SEC)
            self._requests.add(mark)
            self._starting.add(mark)
        try:
            yield mark
        finally:
            self._has_started(mark)
            with self._turn:
                self._requests.discard(mark)

    def _has_started(self, mark: str) -> None:
        with self._turn:
            self._starting.discard(mark)
            self._turn.notify_all()

    @contextmanager
    def _opened(
        self,
        user: str,
        mark: str,
        env: Mapping[str, str] | None = None,
        argv: tuple[str, ...] = (RUN, "bash"),
    ) -> Iterator[_Running]:
        api = self.api if argv[0] is RUN else self.impatient
        marked = {**(env or {}), "AECBENCH_REQUEST": mark}
        argv = ("bash", "-c", *argv)
        with translated(BackendError, "executing"), _not_in_time():
            exec_id = api.exec_create(
                self.container_id, argv, stdin=True, user=user, environment=marked, workdir="/"
            )["Id"]
            try:
                stream = api.exec_start(exec_id, socket=True)
            except APIError as error:
                if is_gone(error):
                    raise
                raise _NotStartedError("start", str(error.explanation)) from None
        response, socket = connection_of(stream)
        with closing(response):
            frames = Frames(socket, already_read(response, socket))
            socket.settimeout(_PREPARE_SEC)
            yield _Running(exec_id, socket, frames)

    def _send(
        self,
        running: _Running,
        steps: str,
        cwd: str,
        command: str,
        targets: list[PurePosixPath],
        archive: IO[bytes] | None,
    ) -> None:
        size = 0 if archive is None else archive.seek(0, os.SEEK_END)
        running.frames.deadline = time.monotonic() + _PREPARE_SEC + size / _SLOWEST_UPLOAD
        texts = [running.nonce, steps, cwd, str(size), command, *map(str, targets), ""]
        try:
            running.socket.sendall(os.fsencode("".join(f"{text}\0" for text in texts)))
            if archive is not None:
                archive.seek(0)
                while chunk := archive.read(_CHUNK):
                    running.socket.sendall(chunk)
        except TimeoutError:
            reason = f"no file was read for {_PREPARE_SEC:.0f} s"
            raise _NotStartedError("start", reason) from None
        except OSError:
            pass  # the script has ended early, and prints why

    def _await(self, running: _Running, what: str) -> None:
        """Read the script's first line; raise an error unless it says ``what``."""
        printed, errors = bytearray(), bytearray()
        try:
            for number, data in running.frames:
                (printed if number == 1 else errors).extend(data)
                if number == 1 and b"\n" in data:
                    break
                if len(printed) + len(errors) > _LONGEST_SAID:
                    raise SandboxBroken("docker: the command's result is unreadable")
        except TimeoutError:
            reason = f"no answer for {_PREPARE_SEC:.0f} s or more"
            raise _NotStartedError("start", reason) from None
        line, _, rest = printed.partition(b"\n")
        nonce, said, value = (*line.decode(errors="replace").split(" "), "", "")[:3]
        if nonce != running.nonce:
            reason = (printed + errors).decode(errors="replace")
            raise _NotStartedError(
                "start", " ".join(reason.split()) or "check that the image has bash"
            )
        if said == "failed":
            errors += _rest_of_errors(running.frames)  # the reason may come after the line
            reason, _, _ = errors.decode(errors="replace").strip().partition("\n")
            raise _NotStartedError(value, reason)
        if said != what:
            raise SandboxBroken("docker: the command's result is unreadable")
        if what == "started":  # root's scripts calculate with it
            running.start_time = check_number(value, "docker")
        running.stdout.feed(bytes(rest))
        running.stderr.feed(bytes(errors))

    def _follow(
        self, running: _Running, timeout_sec: float | None, mark: str, user: str
    ) -> BackendExecutionResult:
        started = time.monotonic()
        ends = [] if timeout_sec is None else [started + timeout_sec]
        ends += [] if self.expires is None else [self.expires]
        running.frames.deadline = min(ends, default=None)
        timed_out = False
        try:
            running.read()
        except TimeoutError:
            if self._is_expired():
                with translated(BackendError, "killing"):
                    self.api.kill(self.container_id)
                raise SandboxGone("docker: the sandbox has outlived its lifetime") from None
            timed_out = True
            self._kill_newer(running.start_time, mark, user)
            running.frames.deadline = time.monotonic() + _DRAIN_SEC
            with suppress(TimeoutError):
                running.read()
        for stream in (running.stdout, running.stderr):
            stream.close()
        returncode = None if timed_out else self._returncode(running)
        reason = _OUT_OF_MEMORY if returncode == _KILLED and self._ran_out_of_memory() else ""
        return BackendExecutionResult(
            returncode=returncode,
            stdout=running.stdout.text(),
            stderr=running.stderr.text() + reason,
            timed_out=timed_out,
            duration_sec=time.monotonic() - started,
            truncated=bool(running.stdout.left_out or running.stderr.left_out),
        )

    def _returncode(self, running: _Running) -> int:
        returncode = running.stdout.returncode
        if returncode is None:  # the script was killed, or the whole container is dying
            alive = self._ask_for_kills() is not None
            returncode = self._inspect_returncode(running.exec_id, alive=alive)
        return returncode

    def _ran_out_of_memory(self) -> bool:
        """Return whether the kernel has killed processes of the container since the last time."""
        said = self._ask_for_kills()
        counts = [read_number(word, "docker") for word in said or () if word != "done"]
        count = max(counts, default=0)
        before, self._oom_kills = self._oom_kills, count
        return count > before

    def _ask_for_kills(self) -> list[str] | None:
        with self._counted() as mark:
            return self._ask(mark, OOM_KILLS)

    def _inspect_returncode(self, exec_id: str, *, alive: bool) -> int:
        deadline = time.monotonic() + _TOOL_SEC
        while not alive and time.monotonic() < deadline:
            self._raise_if_dead()  # the engine notices a death late
            time.sleep(0.05)
        with translated(BackendError, "executing"):
            found = self.api.exec_inspect(exec_id)
        if not alive or found["Running"]:
            raise BackendError("docker: the command's output broke off")
        return int(found["ExitCode"])

    def _kill_newer(self, start_time: str, mark: str, user: str) -> None:
        """Kill the processes that a request started; restart the container if that fails."""
        with self._killer, self._alone(mark) as others:
            # Only that user can read which of its processes are another request's.
            users = [user, "0"] if others and user not in ROOT else ["0"]
            asked = (KILL_NEWER, start_time, *others)
            if any(self._ask(mark, *asked, user=one) is None for one in users):
                self._restart()

    @contextmanager
    def _alone(self, mark: str) -> Iterator[list[str]]:
        """Yield the marks of other requests, while no process is started."""
        with self._turn:
            self._turn.wait_for(lambda: not self._starting, _TOOL_SEC)
            others = sorted(self._requests - {mark})
            self._is_killing = True
        try:
            yield others
        finally:
            with self._turn:
                self._is_killing = False
                self._turn.notify_all()

    def _ask(self, mark: str, script: str, *arguments: str, user: str = "0") -> list[str] | None:
        """Return the words that a script prints, as root by default; None if it takes too long."""
        printed = b""
        argv = (script, "bash", *arguments)
        with suppress(_NotStartedError, OSError), self._opened(user, mark, argv=argv) as running:
            running.frames.deadline = time.monotonic() + _TOOL_SEC
            running.socket.sendall(b"\n")
            for number, data in running.frames:
                printed += data if number == 1 else b""
                if len(printed) > _LONGEST_SAID:
                    break
                if printed.endswith(b"done\n"):
                    return printed.decode(errors="replace").split()
        return None

    def _restart(self) -> None:
        with _refused_by_contents("restarting"):
            insist(
                self.api,
                self.container_id,
                lambda: self.impatient.restart(self.container_id, timeout=0),
                then=lambda: self.api.restart(self.container_id, timeout=0),
            )
        self._oom_kills = 0

    def stop(self) -> None:
        """Kill all processes by the engine, which nothing inside can hinder; keep the files."""
        with translated(BackendError, "stopping"):
            insist(
                self.api,
                self.container_id,
                lambda: self.impatient.stop(self.container_id, timeout=0),
                then=lambda: self.api.stop(self.container_id, timeout=0),
            )
        self._is_stopped = True

    def stored(self) -> int:
        """Return how many bytes the container has written."""
        with translated(BackendError, "measuring"):
            filters = {"id": self.container_id}
            found = self.api.containers(all=True, size=True, filters=filters)
        return sum(int(one.get("SizeRw") or 0) for one in found)

    def resume(self) -> None:
        """Start a stopped container again, without the processes that it had."""
        if self._is_stopped:
            with _refused_by_contents("starting again"):
                self.api.start(self.container_id)
            self._is_stopped = False

    def _await_death(self) -> None:
        """Raise SandboxGone if the container is found to be dead; the engine notices that late."""
        deadline = time.monotonic() + _DEATH_SEC
        while time.monotonic() < deadline:
            self._raise_if_dead()
            time.sleep(0.05)

    def _raise_if_dead(self) -> None:
        with translated(BackendError, "inspecting"):
            state = self.api.inspect_container(self.container_id)["State"]
        if not state["Running"]:
            code = state["ExitCode"]
            if state.get("OOMKilled"):
                raise SandboxBroken(
                    f"docker: the container has died (exit code {code}, out of memory)"
                )
            raise SandboxGone(f"docker: the container has died (exit code {code})")

    def fetch(self, path: PurePosixPath, directory: Path) -> list[str]:
        """Copy the files in ``path`` to ``directory``; return the entries left out."""
        with translated(TransferError, f"fetching {path}"):
            try:
                chunks, _ = self.api.get_archive(self.container_id, f"{path}/.")
            except APIError as error:
                if is_gone(error):
                    raise
                if isinstance(error, NotFound):
                    return []  # removed by the agent
                return [NOT_A_DIRECTORY]  # the engine answers, so the agent has replaced it
            with closing(chunks):
                return unpack(chunks, directory)


@contextmanager
def _refused_by_contents(what: str) -> Iterator[None]:
    """Blame the container's contents if the engine answers but cannot run its shell."""
    with translated(BackendError, what):
        try:
            yield
        except APIError as error:
            if is_gone(error):
                raise
            raise SandboxBroken(f"docker: {what}: {one_line(error)}") from None


@contextmanager
def _not_in_time() -> Iterator[None]:
    """Raise _NotStartedError if the engine waits for a process that another has stopped."""
    try:
        yield
    except TROUBLE as error:
        if not is_late(error):
            raise
        raise _NotStartedError("start", "no process can be started") from None


def _rest_of_errors(frames: Frames) -> bytes:
    """Return what a script that has ended printed on stderr and was not read yet."""
    frames.deadline = time.monotonic() + _TOOL_SEC
    rest = b""
    with suppress(TimeoutError):
        for number, data in frames:
            rest += data[: _LONGEST_SAID - len(rest)] if number == 2 else b""
    return rest


@contextmanager
def _packed(uploads: Mapping[PurePosixPath, Path]) -> Iterator[IO[bytes]]:
    with spool() as file:
        with closing(ArchiveWriter(file)) as archive:
            for target, source in uploads.items():
                archive.add(target, source)
        yield file
