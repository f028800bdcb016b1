"""Files below a directory that is not to be trusted: no link on the way to them is followed.

Each part of a path is opened relative to the one before, so that no directory can be replaced by
a link between a check and its use.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Found", "Slice", "found_below", "open_below", "read_below", "slice_below"]

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Found:
    """A file below a directory, with its size; of a link, ``target`` is where it points to."""

    path: str
    size: int
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a file, and the size of the whole."""

    data: bytes
    size: int


def open_below(root: Path, path: str) -> IO[bytes]:
    """Open a regular file by its path from ``root``; raise OSError if that is not possible.

    ``root`` itself may be reached by a link, because it is the user's own.
    """
    *directories, name = _parts(path)
    directory = _open_directory(root, directories)
    try:
        descriptor = os.open(name, _FLAGS, dir_fd=directory)
    finally:
        os.close(directory)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def read_below(root: Path, path: str, max_bytes: int) -> bytes:
    """Return a regular file's bytes; raise OSError if that is not possible or it is too large."""
    with open_below(root, path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"more than {max_bytes} bytes", path)
    return data


def slice_below(root: Path, path: str, offset: int, most: int) -> Slice:
    """Return at most so many bytes of a regular file, from an offset on."""
    with open_below(root, path) as file:
        return Slice(os.pread(file.fileno(), most, offset), os.fstat(file.fileno()).st_size)


def found_below(root: Path, path: str, most: int) -> list[Found]:
    """Return files and links below a directory of ``root``, sorted by path; at most so many."""
    found: list[Found] = []
    waiting = [_parts(path)]
    start = len(waiting[0])
    while waiting and len(found) < most:
        parts = waiting.pop()
        try:
            directory = _open_directory(root, parts)
        except OSError:
            continue  # gone by now, or a link by now
        try:
            for name, kind, size, target in sorted(_entries(directory)):
                if kind == stat.S_IFDIR:
                    if len(parts) - start < _MAX_DEPTH:
                        waiting.append([*parts, name])
                elif kind in (stat.S_IFREG, stat.S_IFLNK):
                    found.append(Found("/".join([*parts[start:], name]), size, target))
        finally:
            os.close(directory)
    return sorted(found, key=lambda one: one.path)[:most]


def _entries(directory: int) -> Iterator[tuple[str, int, int, str | None]]:
    for name in os.listdir(directory):
        try:
            status = os.lstat(name, dir_fd=directory)
            is_link = stat.S_ISLNK(status.st_mode)
            target = os.readlink(name, dir_fd=directory) if is_link else None
        except OSError:
            continue
        yield name, stat.S_IFMT(status.st_mode), status.st_size, target


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return parts


def _open_directory(root: Path, parts: list[str]) -> int:
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        try:
            inner = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=directory)
        finally:
            os.close(directory)
        directory = inner
    return directory
