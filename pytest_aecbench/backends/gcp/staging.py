"""A trial's files on their way through the bucket: one archive in, and one from each runnable."""

from __future__ import annotations

import math
import secrets
import shutil
import tarfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, NamedTuple

from pytest_aecbench.backends import BackendExecutionResult, CollectedArtifacts, TrialOutcome
from pytest_aecbench.backends.remote.requests import add_parts, pack_uploads, request_parts
from pytest_aecbench.backends.shared.archives import NOT_A_DIRECTORY, tidy, unpack
from pytest_aecbench.backends.shared.output import OUTPUT_CAP
from pytest_aecbench.backends.shared.spool import spool
from pytest_aecbench.errors import BackendError, TransferError
from pytest_aecbench.text import joined_ends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path, PurePosixPath

    from pytest_aecbench.backends import BackendExecutionRequest, TrialRequest

__all__ = [
    "Image",
    "mode_of",
    "pack",
    "pack_command",
    "read_files",
    "read_outcome",
    "read_result",
]

_CHUNK = 1024 * 1024
_HALF = OUTPUT_CAP // 2
_LONGEST_SEC = 14 * 86_400.0  # for which Batch lets a task run
_REASONS = {
    "full": "the sandbox's disk is full",
    "kill": "processes cannot be killed",
    "place": "files cannot be placed",
}


class Image(NamedTuple):
    """An image's working directory, variables and user, as its Dockerfile has them."""

    workdir: PurePosixPath
    env: Mapping[str, str]
    user: str


def mode_of(request: TrialRequest) -> str:
    """Return where the verifier runs: ``separate`` or ``shared``; ``agent`` if there is none."""
    if request.verifier is None:
        return "agent"
    return "shared" if request.verifier_image_ref is None else "separate"


def pack(request: TrialRequest, images: Mapping[str, Image], file: IO[bytes]) -> None:
    """Write the archive that a trial's task starts from."""
    mode = mode_of(request)
    own = images[request.image_ref]
    verifiers = images[request.verifier_image_ref or request.image_ref]
    limits = [one.timeout_sec or 0 for one in (request.agent, request.verifier) if one]
    with _archive(file, mode, own, max(limits)) as tar:
        contents = (own.workdir, request.workspace_dir)
        _add_request(tar, "agent/", request.agent, own, is_first=True, contents=contents)
        if request.verifier is not None:
            is_first = mode == "separate"
            _add_request(tar, "verify/", request.verifier, verifiers, is_first=is_first)


def pack_command(
    request: BackendExecutionRequest,
    image: Image,
    file: IO[bytes],
    *,
    workspace_dir: Path,
    before: str,
) -> None:
    """Write the archive that a single command starts from.

    ``before`` is the number of the command before it; the first has none, and places the contents
    of ``workspace_dir``.
    """
    contents = None if before else (image.workdir, workspace_dir)
    with _archive(file, "single", image, request.timeout_sec or 0, before) as tar:
        _add_request(tar, "agent/", request, image, is_first=not before, contents=contents)


@contextmanager
def _archive(
    file: IO[bytes], mode: str, image: Image, seconds: float, before: str = ""
) -> Iterator[tarfile.TarFile]:
    """Write an archive that begins with what its script wants to know first."""
    told = {
        "mode": mode,
        "workdir": str(image.workdir),
        "seconds": str(math.ceil(seconds)),
        "before": before,
    }
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        add_parts(tar, {name: f"{text}\n".encode() for name, text in told.items()})
        yield tar


def _add_request(
    tar: tarfile.TarFile,
    below: str,
    request: BackendExecutionRequest,
    image: Image,
    *,
    is_first: bool,
    contents: tuple[PurePosixPath, Path] | None = None,
) -> None:
    parts = request_parts(
        request,
        secrets.token_hex(16),
        workdir=image.workdir,
        env=image.env,
        user=image.user if request.user is None else request.user,
        is_first=is_first,
    )
    with spool() as archive:
        pack_uploads(archive, request.uploads, contents)
        add_parts(tar, parts, archive, below)


def read_outcome(
    request: TrialRequest, agents: IO[bytes] | None, verifiers: IO[bytes] | None, home: Path
) -> TrialOutcome:
    """Return a trial's outcome from the archives that its two runnables left, if they did.

    Raises:
        BackendError: one of them is missing or incomplete.

    """
    agent_home, verifier_home = home / "agent", home / "verifier"
    mode = mode_of(request)
    skipped = _unpack(agents, agent_home)
    agent = _result(agent_home / "agent", request.agent)
    if agent is None:
        raise BackendError("the task has ended without the agent's result")
    verifier, timing = None, {"agent": agent.duration_sec}
    if request.verifier is not None:
        if mode == "separate":
            _unpack(verifiers, verifier_home)
        graded_in = verifier_home if mode == "separate" else agent_home
        verifier = _result(graded_in / "verify", request.verifier)
        if verifier is None:
            raise BackendError("the task has ended without the verifier's result")
        timing["verify"] = verifier.duration_sec
    logs_of = verifier_home if mode == "separate" else None
    artifacts = _artifacts(request.workspace_dir, agent_home, skipped, logs_of)
    return TrialOutcome(agent, verifier, artifacts, timing)


def read_result(
    request: BackendExecutionRequest, file: IO[bytes], home: Path
) -> BackendExecutionResult | None:
    """Return the result of a single command from what it left; None if there is none.

    Raises:
        BackendError: the request could not be run.

    """
    _unpack(file, home)
    return _result(home / "agent", request)


def read_files(file: IO[bytes], home: Path, workspace_dir: Path) -> CollectedArtifacts:
    """Bring home the working directory and the logs that a single command left."""
    return _artifacts(workspace_dir, home, _unpack(file, home), None)


def _artifacts(
    workspace_dir: Path, agent_home: Path, skipped: list[str], verifier_home: Path | None
) -> CollectedArtifacts:
    """Put the agent's files where its workspace was, and the verifier's logs beside its own."""
    workspace, logs = agent_home / "workspace", agent_home / "logs"
    for directory in (workspace, logs):
        if directory.is_dir():
            skipped += [f"{directory.name}/{what}" for what in tidy(directory)]
        else:
            directory.mkdir(parents=True)
            skipped.append(f"{directory.name}/{NOT_A_DIRECTORY}")
    if verifier_home is not None:
        shutil.rmtree(logs / "verifier", ignore_errors=True)
        found = verifier_home / "logs/verifier"
        if found.is_dir():
            tidy(found)
            shutil.move(found, logs / "verifier")
    (logs / "verifier").mkdir(exist_ok=True)
    shutil.rmtree(workspace_dir, ignore_errors=True)
    shutil.move(workspace, workspace_dir)
    return CollectedArtifacts(workspace_dir, logs, tuple(skipped))


def _unpack(file: IO[bytes] | None, directory: Path) -> list[str]:
    directory.mkdir(parents=True)
    if file is None:
        return []
    file.seek(0)
    try:
        return unpack(_chunks(file), directory)
    except TransferError:  # it is torn, or an agent has made it up
        return []


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    yield from iter(lambda: file.read(_CHUNK), b"")


def _result(directory: Path, request: BackendExecutionRequest) -> BackendExecutionResult | None:
    """Return the result of a request; None if there is none.

    Raises:
        BackendError: the request could not be run.

    """
    try:
        answer = _start_of(directory / "done").decode(errors="replace").split()[1:]
        if answer[0] == "failed":
            reason = " ".join(answer[1:])
            if reason == "user":
                raise BackendError(f"user: {request.user!r} is not known in the image")
            raise BackendError(f"the command cannot be run; {_REASONS.get(reason, reason)}")
        _, code, timed, _, out_size, _, err_size, *_ = answer
        sizes = int(out_size), int(err_size)
        duration_sec = _duration_sec(_start_of(directory / "times"))
        out, err = (_start_of(directory / name) for name in ("out", "err"))
        returncode = None if timed == "1" else int(code)
    except (OSError, ValueError, IndexError):
        return None
    return BackendExecutionResult(
        returncode=returncode,
        stdout=_text(out, sizes[0]),
        stderr=_text(err, sizes[1]),
        timed_out=timed == "1",
        duration_sec=duration_sec,
        truncated=max(sizes) > OUTPUT_CAP,
    )


def _start_of(path: Path) -> bytes:
    """Return a file's content, of which no more is kept than of a command's output."""
    with path.open("rb") as file:
        return file.read(OUTPUT_CAP)


def _duration_sec(times: bytes) -> float:
    """Return the time between two moments; raise ValueError if no command can take it.

    An agent may have written them. A clock that was set back meanwhile makes it nothing.
    """
    begun, ended = map(float, times.split())
    if not abs(ended - begun) <= _LONGEST_SEC:  # also if it is not a number
        raise ValueError("times")
    return max(0.0, ended - begun)


def _text(data: bytes, size: int) -> str:
    if size <= OUTPUT_CAP:
        return data.decode("utf-8", "replace")
    return joined_ends(data[:_HALF], data[-_HALF:], size - 2 * _HALF)
