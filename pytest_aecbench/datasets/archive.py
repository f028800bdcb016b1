"""Archives of datasets: the manifest and the tasks' files, the same bytes for the same content.

An archive has exactly the members that its manifest implies, in one order, so anything else in
one is refused unread.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import reprlib
import stat
import tarfile
import zlib
from typing import IO, TYPE_CHECKING, TypeAlias

from pytest_aecbench.datasets.drift import drift
from pytest_aecbench.datasets.manifest import MAX_MANIFEST_BYTES, Manifest, TaskEntry
from pytest_aecbench.datasets.names import problem_with
from pytest_aecbench.datasets.store import MANIFEST_FILE
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import whole
from pytest_aecbench.tasks.digest import file_header
from pytest_aecbench.tasks.supplied import supplied_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    Sink: TypeAlias = Callable[[TaskEntry, str], AbstractContextManager[IO[bytes] | None]]

__all__ = ["read_archive", "write_archive"]

MAX_BYTES = 1 << 30
_CHUNK = 1 << 20
# A member's header, with those of a long name, and the size of one read.
_HEADERS = 64 << 10
_RIGHT = "use an archive written by 'aec-bench dataset export'"


def write_archive(manifest: Manifest, data: bytes, tasks_root: Path, target: Path) -> None:
    """Write the manifest, stored as ``data``, and its tasks, unless these have changed."""
    if changes := drift(manifest, tasks_root):
        raise SettingsError(f"{manifest.ref}: {changes[0]}; restore the tasks")
    try:
        with whole(target) as file:
            _write(file, manifest, data, tasks_root)
    except OSError as error:
        raise SettingsError(f"{target}: cannot be written, {error.strerror}") from None


def _write(file: IO[bytes], manifest: Manifest, data: bytes, tasks_root: Path) -> None:
    left = MAX_BYTES
    with (
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.addfile(_member(MANIFEST_FILE, "file", len(data)), io.BytesIO(data))
        for task, path, source in _sources(manifest, tasks_root):
            content = source.read_bytes()
            if f"sha256:{hashlib.sha256(content).hexdigest()}" != task.files[path]:
                raise SettingsError(f"{task.task_id}: {path} changed meanwhile; export again")
            left -= len(content)
            if left < 0:
                raise SettingsError(
                    f"{manifest.ref}: more than {MAX_BYTES >> 20} MiB; make several datasets of it"
                )
            member = _member(_name(task, path), task.kind(path), len(content))
            tar.addfile(member, io.BytesIO(content))


def _sources(manifest: Manifest, tasks_root: Path) -> Iterator[tuple[TaskEntry, str, Path]]:
    """Yield the path of each file in its task, and where its content is."""
    for task in manifest.tasks:
        directory = tasks_root / task.task_id
        supplied = supplied_files(directory)
        for path in sorted(task.files):
            yield task, path, supplied.get(path, directory / path)


def _name(task: TaskEntry, path: str) -> str:
    return f"tasks/{task.task_id}/{path}"


def _member(name: str, kind: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)  # without an owner, dated 1970
    member.size = size
    member.mode = 0o755 if kind == "program" else 0o644
    return member


class _Metered:
    """A stream that raises a ValueError when more than allowed is read.

    The input is compressed and its headers can claim any length, so a small file could otherwise
    fill the memory.
    """

    def __init__(self, file: gzip.GzipFile) -> None:
        self.file = file
        self.left = _HEADERS

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise ValueError("its headers are longer than any that export writes")
        return data


def read_archive(file: IO[bytes], archive: Path, sink: Sink) -> tuple[Manifest, bytes]:
    """Check a whole opened archive; return its manifest, also as stored bytes.

    The content of each file goes to its sink, if it has one.
    """
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
            stream = _Metered(unzipped)
            with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
                data = _read_manifest(tar, stream)
                manifest = Manifest.from_json(data, f"{archive}: {MANIFEST_FILE}")
                _read_tasks(tar, stream, manifest, sink)
            while stream.read(_CHUNK):  # to its end, where the checksum is
                pass
    except (OSError, EOFError, ValueError, OverflowError, tarfile.TarError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise SettingsError(f"{archive}: {reason}; {_RIGHT}") from None
    return manifest, data


def _read_manifest(tar: tarfile.TarFile, stream: _Metered) -> bytes:
    member = _next(tar, stream, MANIFEST_FILE)
    if member.size > MAX_MANIFEST_BYTES:
        raise ValueError(f"its {MANIFEST_FILE} is more than {MAX_MANIFEST_BYTES >> 20} MiB")
    return b"".join(_content(tar, stream, member))


def _read_tasks(tar: tarfile.TarFile, stream: _Metered, manifest: Manifest, sink: Sink) -> None:
    left = MAX_BYTES
    for task in manifest.tasks:
        digest = hashlib.sha256()
        for path in sorted(task.files):
            member = _next(tar, stream, _name(task, path))
            left -= member.size
            if left < 0:
                raise ValueError(f"its files are more than {MAX_BYTES >> 20} MiB")
            kind = "program" if member.mode & stat.S_IXUSR else "file"
            digest.update(file_header(kind, path, member.size))
            content = hashlib.sha256()
            with sink(task, path) as kept:
                for chunk in _content(tar, stream, member):
                    digest.update(chunk)
                    content.update(chunk)
                    if kept is not None:
                        kept.write(chunk)
            if f"sha256:{content.hexdigest()}" != task.files[path]:
                raise ValueError(f"{member.name!r} differs from the manifest")
        if f"sha256:{digest.hexdigest()}" != task.content_hash:
            raise ValueError(f"the task {task.task_id!r} differs from the manifest")
    _next(tar, stream, None)


def _next(tar: tarfile.TarFile, stream: _Metered, expected: str | None) -> tarfile.TarInfo:
    """Return the next member, which must be a plain file of that name, or the end if None."""
    stream.left = _HEADERS
    try:
        member = tar.next()
    except tarfile.StreamError:  # Python 3.10's error for an empty archive
        member = None
    tar.members = []  # type: ignore[attr-defined]  # which it would keep to the end
    if member is None:
        if expected is None:
            return tarfile.TarInfo()
        raise ValueError(f"it ends before {expected!r}")
    if problem := problem_with(member.name):
        raise ValueError(f"{reprlib.repr(member.name)} {problem}")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise ValueError(f"{member.name!r} is not a regular file")
    if member.name != expected:
        after = "the end" if expected is None else repr(expected)
        raise ValueError(f"it has {member.name!r} in place of {after}")
    return member


def _content(tar: tarfile.TarFile, stream: _Metered, member: tarfile.TarInfo) -> Iterator[bytes]:
    stream.left += member.size
    file = tar.extractfile(member)
    assert file is not None
    while chunk := file.read(_CHUNK):
        yield chunk
