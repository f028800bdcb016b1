"""One rented sandbox: run commands, copy files in and out, kill processes."""

from __future__ import annotations

import base64
import binascii
import secrets
import tarfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, TypeVar

from pytest_aecbench.backends import BackendExecutionResult
from pytest_aecbench.backends.remote import calls
from pytest_aecbench.backends.remote.calls import Full, Lost, bounded, retry, says_full
from pytest_aecbench.backends.remote.requests import add_parts, fields, pack_uploads, request_parts
from pytest_aecbench.backends.remote.scripts import COLLECT
from pytest_aecbench.backends.shared.answers import EXIT_CODES, check_number, read_number
from pytest_aecbench.backends.shared.archives import (
    NOT_A_DIRECTORY,
    TOTAL_CAP,
    unpack,
)
from pytest_aecbench.backends.shared.output import OUTPUT_CAP
from pytest_aecbench.backends.shared.spool import spool
from pytest_aecbench.errors import (
    BackendError,
    BackendLost,
    SandboxBroken,
    SandboxGone,
)
from pytest_aecbench.text import joined_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_aecbench.backends import BackendExecutionRequest
    from pytest_aecbench.backends.remote.vendor import Vendor

__all__ = ["Box"]

_T = TypeVar("_T")

_HALF = OUTPUT_CAP // 2
_REQUESTS = "/tmp"  # noqa: S108  (the sandbox's own)
_PIECE = 1024 * 1024
_TRANSFER_SEC = 600.0
_MARGIN_SEC = 60.0  # for the steps before and after the command itself
_FOREVER_SEC = 7 * 24 * 3600.0
_POLL_SEC = 1.0
_STARTS = 5  # of a request that has not begun
_SUSPECT_SEC = 20.0  # how long a sandbox gets that did not answer before
_REASONS = {
    "kill": "processes cannot be killed",
    "place": "files cannot be placed",
}


@dataclass(eq=False)
class Box:
    """A running sandbox, in which commands run as ``user`` in ``workdir`` by default.

    The first request also copies ``workspace_dir`` to the working directory.
    """

    vendor: Vendor
    sandbox_id: str
    workspace_dir: Path
    workdir: PurePosixPath
    env: Mapping[str, str]
    user: str = ""
    _since: str = ""
    _is_prepared: bool = False
    _is_suspect: bool = False  # it did not answer, although the vendor says that it runs
    _live: list[BackendExecutionRequest] = field(default_factory=list)
    _is_shared: bool = False  # by requests at the same time

    def execute(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        """Run one command to completion."""
        self._live.append(request)
        self._is_shared = self._is_shared or len(self._live) > 1
        try:
            with self._attributed():
                return self._execute(request)
        finally:
            self._live.remove(request)

    @contextmanager
    def _attributed(self) -> Iterator[None]:
        """Raise errors that say whose fault it is: the vendor's, the sandbox's, or not known.

        Raises:
            BackendLost: the vendor itself does not answer.
            SandboxBroken: the sandbox has filled its own disk.
            BackendError: a disk is full that others may have filled.

        """
        try:
            yield
        except Full as error:
            kind = SandboxBroken if self.vendor.has_own_disk else BackendError
            raise kind(f"{self.vendor.name}: the sandbox's disk is full; {error}") from None
        except Lost as error:
            try:
                is_running = self._is_running()
            except BackendError:
                raise BackendLost(str(error)) from None
            if not is_running:
                raise SandboxGone(f"{self.vendor.name}: the sandbox is gone; {error}") from None
            self._is_suspect = True
            raise

    def _patience(self, seconds: float) -> float:
        """Return how long to wait; an agent that stopped every process gets no hour of it."""
        return min(seconds, _SUSPECT_SEC) if self._is_suspect else seconds

    def _execute(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        started = time.monotonic()
        user = self.user if request.user is None else request.user
        nonce = secrets.token_hex(16)
        parts = request_parts(
            request,
            nonce,
            workdir=self.workdir,
            env=self.env,
            user=user,
            is_first=not self._is_prepared,
            since=self._since,
        )
        with spool() as archive:
            pack_uploads(
                archive,
                request.uploads,
                None if self._is_prepared else (self.workdir, self.workspace_dir),
            )
            answer = self._ask(nonce, parts, request.timeout_sec, archive)
        if answer[0] == "failed":
            raise self._refused(" ".join(answer[1:]), user)
        self._is_prepared = True
        _, code, timed, since, out_size, out, err_size, err = self._checked(answer, 8)
        returncode = read_number(code, self.vendor.name, EXIT_CODES)
        sizes = [read_number(size, self.vendor.name) for size in (out_size, err_size)]
        started_at = check_number(since, self.vendor.name)
        self._since = self._since or started_at
        stdout = self._stream(nonce, "out", sizes[0], out)
        stderr = self._stream(nonce, "err", sizes[1], err)
        if request.on_output:  # all at once, because it comes with the answer
            request.on_output((stdout + stderr).encode())
        return BackendExecutionResult(
            returncode=None if timed == "1" else returncode,
            stdout=stdout,
            stderr=stderr,
            timed_out=timed == "1",
            duration_sec=time.monotonic() - started,
            truncated=max(sizes) > OUTPUT_CAP,
        )

    def _checked(self, answer: list[str], count: int) -> list[str]:
        """Return an answer of so many fields; its programs may be missing or false."""
        if len(answer) != count:
            raise SandboxBroken(f"{self.vendor.name}: the command's result is unreadable")
        return answer

    def _refused(self, reason: str, user: str) -> BackendError:
        if reason == "user":
            return BackendError(f"user: {user!r} is not known in the image")
        if reason == "full":
            return Full("files cannot be placed")
        return SandboxBroken(f"{self.vendor.name}: {_REASONS.get(reason, reason)}")

    def _ask(
        self,
        nonce: str,
        parts: Mapping[str, bytes],
        timeout_sec: float | None,
        archive: IO[bytes] | None = None,
    ) -> list[str]:
        """Send a request, run its script, and return the fields of its answer."""
        where = self._where(nonce)
        with spool() as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                add_parts(tar, parts, archive)
            self._write(f"{where}.tar", file)
        begun = f"mkdir -m 700 {where} && echo >{where}/begun"
        unpacked = f"{begun} && tar -xf {where}.tar -C {where} && rm {where}.tar"
        script = f"{unpacked} && exec bash {where}/run {where}"
        # Its mark, by which the deadlines of other requests spare it.
        mark = f"AECBENCH_REQUEST={PurePosixPath(where).name}"
        command = f"{mark} exec bash -c '{script}' </dev/null"
        for _ in range(_STARTS):
            said = self._dispatch(nonce, command, timeout_sec)
            if answer := _answer(said, nonce):
                return answer
            # Another's deadline may end it before it bears its mark.
            if not self._is_shared or self._has_begun(nonce):
                break
        if not self._is_running():
            raise SandboxGone(f"{self.vendor.name}: the sandbox is gone")
        shown = " ".join(said.split())[-300:]
        if says_full(said):
            raise Full(shown)
        raise SandboxBroken(
            f"{self.vendor.name}: the command's result is unknown; {shown or 'nothing was printed'}"
        )

    def _dispatch(self, nonce: str, command: str, timeout_sec: float | None) -> str:
        """Run a command in the sandbox and return its output.

        It is sent again only if it has not begun. It cannot begin twice, because it makes its own
        directory. If the connection is lost, its answer is read from a file.
        """
        seconds = (_FOREVER_SEC if timeout_sec is None else timeout_sec) + _MARGIN_SEC
        seconds = self._patience(seconds)
        deadline = time.monotonic() + seconds
        what = f"{self.vendor.name}: a command"
        is_repeated = False
        while True:
            try:
                said = retry(
                    lambda: bounded(
                        lambda: self.vendor.run(self.sandbox_id, command, seconds),
                        seconds + self._patience(_MARGIN_SEC),
                        what,
                    )
                )
                if not is_repeated or _answer(said, nonce):
                    return said
                error = Lost(f"{what}: had begun already")
            except Lost as lost:
                error = lost
            if self._has_begun(nonce):
                return self._find_answer(nonce, deadline, error)
            if time.monotonic() > deadline:
                raise error
            is_repeated = True
            time.sleep(_POLL_SEC)

    def _has_begun(self, nonce: str) -> bool:
        try:
            b"".join(self._read(f"{self._where(nonce)}/begun"))
        except FileNotFoundError:
            return False
        return True

    def _find_answer(self, nonce: str, deadline: float, error: Lost) -> str:
        while True:
            with suppress(FileNotFoundError, Lost):
                return b"".join(self._read(f"{self._where(nonce)}/done")).decode(errors="replace")
            if not self._is_running():
                raise SandboxGone(f"{self.vendor.name}: the sandbox is gone; {error}") from None
            if time.monotonic() > deadline:
                raise error
            time.sleep(_POLL_SEC)

    def _is_running(self) -> bool:
        return retry(lambda: self.vendor.is_running(self.sandbox_id), on_lost=True)

    def _where(self, nonce: str) -> str:
        """Return the request's directory in the sandbox, whose name does not reveal the nonce."""
        return f"{_REQUESTS}/.aecbench-{nonce[:8]}"

    def _write(self, path: str, file: IO[bytes]) -> None:
        def write() -> None:
            file.seek(0)
            self.vendor.write(self.sandbox_id, path, file)

        self._transfer(write, "an upload")

    def _read(self, path: str) -> Iterable[bytes]:
        def read() -> IO[bytes]:
            with ExitStack() as stack:
                file = stack.enter_context(spool())
                for chunk in self.vendor.read(self.sandbox_id, path):
                    file.write(chunk)
                    if file.tell() > 2 * TOTAL_CAP:  # more than it was said to have
                        raise SandboxBroken(f"{self.vendor.name}: {path} is too large")
                file.seek(0)
                stack.pop_all()  # it is closed when it has been read
                return file

        return _chunks(self._transfer(read, "a download"))

    def _transfer(self, call: Callable[[], _T], what: str) -> _T:
        return retry(
            lambda: bounded(call, self._patience(_TRANSFER_SEC), f"{self.vendor.name}: {what}"),
            on_lost=True,
            patience_sec=self._patience(calls.PATIENCE_SEC),
        )

    def _content(self, nonce: str, name: str, content: str) -> Iterable[bytes]:
        """Return a file of the answer, which is in the answer itself if it is small."""
        try:
            if not content.startswith("="):
                return self._read(f"{self._where(nonce)}/{name}")
            return [base64.b64decode(content[1:], validate=True)]
        except binascii.Error:
            raise Lost(f"{self.vendor.name}: the answer is incomplete") from None
        except (FileNotFoundError, ValueError):  # it was removed, or has other characters
            raise SandboxBroken(f"{self.vendor.name}: the command's result is missing") from None

    def _stream(self, nonce: str, name: str, size: int, content: str) -> str:
        data = b"".join(self._content(nonce, name, content))
        if size <= OUTPUT_CAP:
            return data.decode("utf-8", "replace")
        return joined_ends(data[:_HALF], data[-_HALF:], size - 2 * _HALF)

    def collect(self, logs: Path, workspace: Path) -> list[str]:
        """Copy ``/logs`` and the working directory to the host; return the entries left out."""
        with self._attributed():
            return self._collect(logs, workspace)

    def _collect(self, logs: Path, workspace: Path) -> list[str]:
        if not self._is_prepared:
            from pytest_aecbench.backends import BackendExecutionRequest

            self._execute(BackendExecutionRequest(":", timeout_sec=_TRANSFER_SEC))
        nonce = secrets.token_hex(16)
        request = fields(nonce, str(self.workdir))
        answer = self._ask(nonce, {"run": COLLECT.encode(), "request": request}, _TRANSFER_SEC)
        if answer[0] == "failed":
            reason = " ".join(answer[1:])
            if reason == "full":
                raise Full("files cannot be packed")
            raise SandboxBroken(f"{self.vendor.name}: nothing can be collected; {reason}")
        skipped = []
        _, *contents = self._checked(answer, 3)
        for directory, content in zip((logs, workspace), contents, strict=True):
            if content == "none":
                skipped.append(f"{directory.name}/{NOT_A_DIRECTORY}")
                continue
            is_inline = content.startswith("=")
            if not is_inline and read_number(content, self.vendor.name) > TOTAL_CAP:
                skipped.append(f"{directory.name}/ (over {TOTAL_CAP} bytes)")
                continue
            found = unpack(self._content(nonce, f"{directory.name}.tar", content), directory)
            skipped += [f"{directory.name}/{what}" for what in found]
        return skipped


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(_PIECE), b"")


def _answer(said: str, nonce: str) -> list[str]:
    """Return the fields of the line that starts with ``nonce``; none without such a line."""
    lines = [line for line in said.splitlines() if line.startswith(f"{nonce} ")]
    return lines[-1].split(" ")[1:] if lines else []
