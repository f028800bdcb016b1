"""Directories of generated tasks: written whole or not at all, and compared with what is there."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.instance import PROGRAMS
from pytest_aecbench.tasks.digest import content_digest, is_ignored, task_digest
from pytest_aecbench.tasks.supplied import HELPER, HELPER_SOURCE
from pytest_aecbench.tasks.task import find_tasks

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

__all__ = ["differences", "digest_of", "place", "staging", "write_files"]

# Hidden, so that nothing collects tasks from there.
_PREFIX, _UNLOCKED = ".aec-generate-", ".aec-new-"


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """Yield a directory beside the place of the results; it is removed in the end.

    Directories of killed processes are removed first; a living one holds a lock on its own.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f"{_PREFIX}*"):
            _remove_abandoned(left)
        unlocked = parent / f"{_UNLOCKED}{os.urandom(8).hex()}"
        unlocked.mkdir()
        lock = os.open(unlocked, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory = unlocked.rename(parent / f"{_PREFIX}{os.urandom(8).hex()}")
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)
    except OSError as error:
        where = error.filename or parent
        raise SettingsError(
            f"{where}: cannot be written, {error.strerror}; use another directory"
        ) from None


def _remove_abandoned(directory: Path) -> None:
    with suppress(OSError):
        lock = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(lock)


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write the files of a task to a directory that does not exist."""
    directory.mkdir(parents=True)
    base = str(directory)
    for parent in sorted({str(parent) for name in files for parent in PurePath(name).parents}):
        if parent != ".":
            os.mkdir(f"{base}/{parent}")  # noqa: PTH102  (thousands of them)
    for name, text in files.items():
        mode = 0o777 if name in PROGRAMS else 0o666
        descriptor = os.open(f"{base}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())


def digest_of(files: Mapping[str, str]) -> str:
    """Return the digest that the task of these files has."""
    encoded = {name: text.encode() for name, text in files.items()}
    return content_digest({**encoded, HELPER: HELPER_SOURCE.read_bytes()}, PROGRAMS)


def place(staged: Path, target: Path) -> bool:
    """Move a finished directory to its place; return False if something is there already."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        staged.rename(target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ENOTEMPTY):
            return False
        raise
    return True


def differences(root: Path, digests: Mapping[str, str], record: str) -> list[str]:
    """Return a line for each task below ``root`` that is not as its digest says.

    Files beside the tasks do not belong there, except the record.
    """
    found = dict(find_tasks(root)) if root.is_dir() else {}
    lines = [f"{name}: missing" for name in digests if name not in found]
    others = [*(name for name in found if name not in digests), *_files_beside(root, found)]
    lines += [f"{name}: not part of the suite" for name in others if name != record]
    lines += [
        f"{name}: changed"
        for name in digests
        if name in found and task_digest(found[name]) != digests[name]
    ]
    return sorted(lines)


def _files_beside(root: Path, tasks: Container[str]) -> Iterator[str]:
    """Yield the files and links below ``root`` that no task has, by their paths from there."""
    for directory, names, files in os.walk(root):
        below = Path(directory).relative_to(root)
        linked = [name for name in names if (root / below / name).is_symlink()]
        yield from (str(below / name) for name in [*files, *linked] if not is_ignored(name))
        names[:] = [n for n in names if not is_ignored(n) and str(below / n) not in tasks]
