"""Files on this machine: read regular files only, replace files atomically, show paths."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_aecbench.errors import BackendError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = [
    "copy_file",
    "copy_with_holes",
    "files_below",
    "open_regular",
    "output_file",
    "read_regular",
    "read_text",
    "shared_directory",
    "shown_path",
    "user_directory",
    "whole",
]

_MAX_TEXT_BYTES = 1 << 20  # larger files are not hand-written
_BLOCK = 256 * 1024
_RIGHT = {errno.EINVAL: "put a text file there", errno.EFBIG: "make it shorter"}


def shared_directory(name: str = "") -> Path:
    """Return the directory that all runs of this user share, or a directory in it."""
    root = Path(tempfile.gettempdir()) / f"aecbench-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        if root.lstat().st_uid != os.getuid() or root.is_symlink():
            raise BackendError(f"{root}: belongs to another user; remove it, or set TMPDIR")
        directory = root / name
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise BackendError(f"{root}: cannot be used, {error.strerror}; set TMPDIR") from None
    return directory


def user_directory(variable: str, default: str) -> Path | None:
    """Return this user's directory of a kind, by XDG's variable or below home; None without one."""
    named = os.environ.get(variable, "")
    if os.path.isabs(named):  # noqa: PTH117  (the specification has it that others are ignored)
        return Path(named, "aec-bench")
    try:
        return Path.home() / default / "aec-bench"
    except RuntimeError:
        return None


def shown_path(path: Path) -> str:
    """Return the path as a person would write it: from the working directory, or from home.

    Every message about a project's files shows paths in this way. Errors of infrastructure name
    the whole path, because they are also read in records, elsewhere.
    """
    with suppress(OSError, ValueError):
        return str(path.relative_to(Path.cwd()))
    with suppress(RuntimeError, ValueError):
        return f"~/{path.relative_to(Path.home())}"
    return str(path)


def read_text(path: Path | str) -> str:
    """Return a hand-written text file's text, or raise a ValueError of one line with its path."""
    try:
        data = read_regular(path, _MAX_TEXT_BYTES)
    except OSError as error:
        reason, right = error.strerror or str(error), _RIGHT.get(error.errno or 0)
        problem = f"{reason[:1].lower()}{reason[1:]}; {right or 'add a readable file'}"
        raise ValueError(f"{shown_path(Path(path))}: {problem}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"byte {error.start}, {data[error.start : error.start + 1]!r},"
        problem = f"{where} is not UTF-8; save it as UTF-8"
        raise ValueError(f"{shown_path(Path(path))}: {problem}") from None


def read_regular(path: Path | str, max_bytes: int, *, follow: bool = True) -> bytes:
    """Return a regular file's bytes; raise OSError if it is of another kind or too large."""
    # Bare system calls, because every worker reads two files of each of ten thousand tasks.
    descriptor, size = _open(path, follow)
    try:
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"more than {max_bytes >> 20} MiB", str(path))
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file; raise OSError if it is of another kind."""
    return os.fdopen(_open(path, follow=True)[0], "rb")


def _open(path: Path | str, follow: bool) -> tuple[int, int]:
    """Return a descriptor of a regular file, and its size."""
    # O_NONBLOCK: do not wait for the writer of a pipe.
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return descriptor, found.st_size
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


@contextmanager
def whole(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Write a file that replaces ``path`` at the end, so that no reader finds half of it.

    A ``durable`` file also survives a power cut.
    """
    temporary = path.parent / f".{os.urandom(8).hex()}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def output_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file where a user wants it, whole or not at all; a pipe or device is written to.

    Raises:
        SettingsError: it cannot be written.

    """
    try:
        is_replaced = not path.exists() or path.is_file()
        opened = whole(path.resolve(), durable=False) if is_replaced else path.open("wb")
        with opened as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError(f"{shown_path(path)}: cannot be written, {reason}") from None


def copy_with_holes(reader: IO[bytes], writer: IO[bytes]) -> None:
    """Copy the rest of a file; blocks of nothing but zeros take no room in the copy."""
    empty = bytes(_BLOCK)
    while block := reader.read(_BLOCK):
        if block == empty[: len(block)]:
            writer.seek(len(block), os.SEEK_CUR)
        else:
            writer.write(block)
    writer.truncate()


def copy_file(source: str, target: str) -> None:
    """Copy a file with its mode and times; blocks of nothing but zeros take no room."""
    with open(source, "rb") as reader, open(target, "wb") as writer:  # noqa: PTH123  (of copytree)
        copy_with_holes(reader, writer)
    shutil.copystat(source, target)


def files_below(directory: Path, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the path and size of each regular file below ``directory``; links do not count."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(Path(entry.path), f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            yield f"{prefix}{entry.name}", entry.stat(follow_symlinks=False).st_size
