"""The digest of a task: what identifies the content of its files."""

from __future__ import annotations

import hashlib
import heapq
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.errors import TaskError
from pytest_aecbench.tasks.supplied import supplied_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


__all__ = [
    "FileDigest",
    "content_digest",
    "context_digest",
    "directory_digest",
    "entries_below",
    "file_digests",
    "file_header",
    "is_ignored",
    "task_digest",
]


# Files that tools leave behind, which do not change a task.
_IGNORED = {
    ".DS_Store",
    ".git",
    ".hg",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    "Thumbs.db",
    "__pycache__",
}
_IGNORED_SUFFIXES = (".pyc", ".pyo")


def task_digest(path: Path) -> str:
    """Return the digest of a directory as a task, whether or not it is a good one.

    A file that the package supplies counts as if the task had a copy of it.
    """
    with _readable():
        return f"sha256:{_digest(_task_contents(path))}"


def content_digest(files: Mapping[str, bytes], programs: Collection[str] = ()) -> str:
    """Return the digest that a task of exactly these files would have, supplied ones included."""
    contents = (
        ("program" if name in programs else "file", name, files[name])
        for name in sorted(files, key=_bytes)
    )
    return f"sha256:{_digest(contents)}"


def directory_digest(path: Path) -> str:
    """Return the digest of any directory: that of a task which has all its files itself."""
    with _readable():
        return f"sha256:{_digest(_contents(path, _kind))}"


def context_digest(path: Path) -> str:
    """Return the digest of a directory as a build context, in hexadecimal.

    An image also holds modes and empty directories, so here these count too. A missing
    directory is an empty one; an unreadable file raises OSError.
    """
    return _digest(_contents(path, _mode, directories=True) if path.exists() else ())


def _digest(contents: Iterable[tuple[str, str, bytes]]) -> str:
    digest = hashlib.sha256()
    for kind, name, content in contents:
        digest.update(file_header(kind, name, len(content)))
        digest.update(content)
    return digest.hexdigest()


def file_header(kind: str, name: str, size: int) -> bytes:
    """Return what stands before a file's content in the digest of its task."""
    parts = (kind.encode(), _bytes(name))
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return framed + size.to_bytes(8, "big")


class FileDigest(NamedTuple):
    """One file of a task: ``file``, ``program``, ``link`` or ``other``, and its content's hash."""

    kind: str
    sha256: str


def file_digests(path: Path) -> dict[str, FileDigest]:
    """Return what the task's digest is made of, by the files' paths below the task."""
    with _readable():
        return {
            name: FileDigest(kind, f"sha256:{hashlib.sha256(content).hexdigest()}")
            for kind, name, content in _task_contents(path)
        }


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TaskError(f"{error.filename}: {error.strerror}; make it readable") from None


def is_ignored(name: str) -> bool:
    """Return whether a file or directory of that name is not part of its task."""
    return name in _IGNORED or name.endswith(_IGNORED_SUFFIXES)


def _task_contents(path: Path) -> Iterator[tuple[str, str, bytes]]:
    supplied = [("file", name, file.read_bytes()) for name, file in supplied_files(path).items()]
    return heapq.merge(_contents(path, _kind), supplied, key=lambda one: _bytes(one[1]))


def _contents(
    path: Path, kind: Callable[[os.DirEntry[str]], str], *, directories: bool = False
) -> Iterator[tuple[str, str, bytes]]:
    """Yield each file's kind, path and content, in the order of the digest."""
    found = [one for one in entries_below(path) if directories or not one[0].endswith("/")]
    for name, entry in sorted(found, key=lambda one: _bytes(one[0])):
        yield kind(entry), name, _content(entry)


def entries_below(
    directory: str | Path, prefix: str = ""
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below, by the path it has in the digest; that of a directory ends with /."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if is_ignored(entry.name):
                continue
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield f"{name}/", entry
                yield from entries_below(entry.path, f"{name}/")
            else:
                yield name, entry


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if not entry.is_file(follow_symlinks=False):
        return "other"
    executable = entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR
    return "program" if executable else "file"


def _mode(entry: os.DirEntry[str]) -> str:
    return f"{entry.stat(follow_symlinks=False).st_mode:o}"


def _content(entry: os.DirEntry[str]) -> bytes:
    if entry.is_symlink():
        return _bytes(os.readlink(entry.path))  # noqa: PTH115  (as written, not normalised)
    return Path(entry.path).read_bytes() if entry.is_file(follow_symlinks=False) else b""


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
