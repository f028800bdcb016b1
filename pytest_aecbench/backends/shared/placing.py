"""Place files below directories that an agent may have manipulated.

Every step uses the descriptor of the parent directory and follows no link, so no link that an
agent made, or makes meanwhile, leads a write elsewhere on the host.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_aecbench.errors import TransferError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["change_mode", "enter", "open_directory", "place", "remove_entries"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_REWRITE_CAP = 4 * 1024 * 1024
_BATCH = 500  # names that fit one command line


def place(
    directory: Path,
    parts: Sequence[str],
    source: Path,
    *,
    mode: int | None = None,
    rewrite: Callable[[str], str] | None = None,
) -> None:
    """Replace ``parts`` below ``directory`` by a copy of ``source``.

    With ``rewrite``, the copies of text files are passed through it.
    """
    try:
        if source.is_dir():
            with open_directory(directory, parts) as target:
                remove_entries(target, os.listdir(target))  # noqa: PTH208  (a descriptor)
                _copy_entries(source, target, rewrite)
                os.fchmod(target, stat.S_IMODE(source.stat().st_mode) | stat.S_IRWXU)
        elif source.exists() and not parts:
            raise TransferError(f"{source}: is a file; {directory.name} has to be a directory")
        else:
            source.stat()  # before anything is removed for it
            with open_directory(directory, parts[:-1]) as parent:
                remove_entries(parent, [parts[-1]])
                _copy(source, parent, parts[-1], mode, rewrite)
    except OSError as error:
        target_path = "/".join([directory.name, *parts])
        raise TransferError(
            f"{source}: cannot be placed at {target_path}; {error.strerror}"
        ) from None


@contextmanager
def open_directory(directory: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open the directory at ``parts`` below ``directory``, replacing anything else by one."""
    parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in (directory.name, *parts):
            inner = enter(parent, name)
            os.close(parent)
            parent = inner
        yield parent
    finally:
        os.close(parent)


def enter(parent: int, name: str) -> int:
    """Open the directory ``name``, made if needed, with all rights for its owner."""
    for _ in range(3):
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            os.mkdir(name, 0o755, dir_fd=parent)
        except PermissionError:
            change_mode(parent, name, stat.S_IRWXU)
        except OSError:  # a link or a file is in the way
            os.unlink(name, dir_fd=parent)
        else:
            if (mode := stat.S_IMODE(os.fstat(inner).st_mode)) & stat.S_IRWXU != stat.S_IRWXU:
                os.fchmod(inner, mode | stat.S_IRWXU)
            return inner
    return os.open(name, _DIRECTORY, dir_fd=parent)


def change_mode(parent: int, name: str, mode: int) -> None:
    """Set the mode of ``name``, but not of a link's target."""
    if sys.platform == "darwin":
        os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(mode)
    finally:
        os.close(descriptor)


def remove_entries(parent: int, names: Sequence[str]) -> None:
    """Remove the entries ``names`` of the directory ``parent``, also read-only trees."""
    trees = []
    for name in names:
        try:
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError:
            trees.append(f"./{name}")
    for first in range(0, len(trees), _BATCH):
        _remove_trees(parent, trees[first : first + _BATCH])


def _remove_trees(parent: int, names: Sequence[str]) -> None:
    # rm handles any depth and follows no link; it starts in this very directory.
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        done = subprocess.run(
            [*command, "--", *names],
            cwd=_path_of(parent),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if command[0] == "rm" and done.returncode == 0:
            return
    raise TransferError(f"sandbox: cannot be cleared; {done.stderr.strip().splitlines()[-1]}")


def _path_of(descriptor: int) -> str | bytes:
    if sys.platform == "darwin":
        return fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")
    return f"/proc/self/fd/{descriptor}"


def _copy_entries(source: Path, target: int, rewrite: Callable[[str], str] | None) -> None:
    for entry in sorted(source.iterdir()):
        _copy(entry, target, entry.name, None, rewrite)


def _copy(
    source: Path, parent: int, name: str, mode: int | None, rewrite: Callable[[str], str] | None
) -> None:
    if source.is_symlink():
        os.symlink(source.readlink(), name, dir_fd=parent)
        return
    if mode is None:
        mode = stat.S_IMODE(source.stat().st_mode)
    if source.is_dir():
        os.mkdir(name, stat.S_IRWXU, dir_fd=parent)
        target = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            _copy_entries(source, target, rewrite)
            os.fchmod(target, mode)
        finally:
            os.close(target)
    elif source.is_file():
        with source.open("rb") as reader, _create(parent, name) as writer:
            text = _text(reader) if rewrite else None
            if rewrite and text is not None:
                writer.write(rewrite(text).encode())
            else:
                shutil.copyfileobj(reader, writer)
            os.fchmod(writer.fileno(), mode)


def _create(parent: int, name: str) -> IO[bytes]:
    return os.fdopen(os.open(name, _NEW_FILE, stat.S_IRUSR | stat.S_IWUSR, dir_fd=parent), "wb")


def _text(reader: IO[bytes]) -> str | None:
    """Return the file's content if it is text of a script's size."""
    if os.fstat(reader.fileno()).st_size <= _REWRITE_CAP:
        data = reader.read()
        reader.seek(0)
        if b"\0" not in data:
            with suppress(UnicodeDecodeError):
                return data.decode()
    return None
