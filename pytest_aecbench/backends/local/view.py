"""The part of the host's files that a namespace sandbox sees."""

from __future__ import annotations

import os
import pwd
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["KERNEL", "View", "is_below", "is_directory"]

KERNEL = ("/dev", "/proc", "/sys")
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  (places to mount, not to write to)
_SERVICES = "/run"  # sockets of the host's services
_HOMES = ("/home", "/root")
_DISKS = ("/media", "/mnt")
_SYSTEM = ("/", "/etc", "/opt", "/usr", "/var")
_PARTS_OF_A_PREFIX = ("bin", "include", "lib", "lib64", "pyvenv.cfg", "share")


class View:
    """Rules about the host's paths, of which the longest decides whether a file is shown.

    Hidden are the ``hidden`` paths, homes, temporary directories, sockets of services and disks.
    Within them, programs on PATH and this Python are shown, and the ``shown`` paths.
    ``writable`` are the hidden directories in which a sandbox may write, with their modes;
    ``python`` are the shown ones in which it may install packages.
    """

    def __init__(self, hidden: Iterable[Path] = (), shown: Iterable[Path] = ()) -> None:
        temporary = {os.path.realpath(path) for path in (*_TEMPORARY, tempfile.gettempdir())}
        self.writable = {
            **dict.fromkeys((os.path.realpath(_SERVICES), *_homes()), "755"),
            **dict.fromkeys(temporary, "1777"),
        }
        disks = {os.path.realpath(path) for path in _DISKS if is_directory(path)}
        private = {*self.writable, *disks, *(os.path.realpath(path) for path in hidden)} - {"/"}
        self._rules = dict.fromkeys(sorted(private), False)
        for path in (*_programs(), os.path.realpath("/etc/resolv.conf")):
            for name in self._names(path):
                self._rules.setdefault(name, True)
        self.python = {name for path in _interpreter() for name in self._parts(path)}
        given = {name for path in shown for name in self._names(str(path))}
        self._rules |= dict.fromkeys(self.python | given, True)
        self.rules = dict(self._needed_rules())

    def shows(self, path: str) -> bool:
        """Return whether a sandbox sees the host's file of that name."""
        while path and path not in self._rules:
            path = path.rpartition("/")[0]
        return self._rules.get(path, True)

    def _parts(self, prefix: str) -> Iterator[str]:
        """Yield the names of a directory of Python, or its parts if it is itself private."""
        for name in self._names(prefix):
            if self._rules.get(name, True):
                yield name
            else:
                parts = (f"{name}/{part}" for part in _PARTS_OF_A_PREFIX)
                yield from filter(os.path.lexists, parts)

    def _names(self, path: str) -> set[str]:
        """Return the real path, and the one that keeps the links in hidden directories.

        Such a link is hidden too, but paths that lead through it have to work.
        """
        name = "/"
        for part in Path(os.path.normpath(path)).parts[1:]:
            above, name = name, f"{name.rstrip('/')}/{part}"
            if self.shows(above):
                name = os.path.realpath(name)
        return {name, os.path.realpath(path)}

    def _needed_rules(self) -> Iterator[tuple[str, bool]]:
        """Yield the rules that differ from those of the directories above them, from the top."""
        for path in sorted(self._rules):
            needed = self._rules[path] != self.shows(path.rpartition("/")[0])
            if needed or (path in self.writable and not is_below(path, self.writable)):
                yield path, self._rules[path]


def _homes() -> set[str]:
    """Return the directories with users' files."""
    own = [os.environ.get("HOME") or "/"]
    with suppress(KeyError):
        own.append(pwd.getpwuid(os.geteuid()).pw_dir)
    real = {os.path.realpath(path) for path in (*_HOMES, *own) if is_directory(path)}
    real -= {*_SYSTEM, *KERNEL, *map(os.path.realpath, _programs())}  # homes of services
    return {path for path in real if not is_below(path, real)}


def _programs() -> list[str]:
    return [path for path in os.get_exec_path() if path.startswith("/") and is_directory(path)]


def _interpreter() -> Iterator[str]:
    """Yield the directories of this Python and of every link on the way to it."""
    yield from {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    program = Path(sys.executable)
    with suppress(OSError):  # at the end of the links, or where this user may not look
        while True:
            program = program.parent / program.readlink()
            yield os.path.normpath(program.parent)


def is_directory(path: str) -> bool:
    """Return whether ``path`` is a directory that this user can reach."""
    with suppress(OSError):
        return stat.S_ISDIR(Path(path).stat().st_mode)
    return False


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Return whether ``path`` is inside one of the directories."""
    return any(path != d and path.startswith(d.rstrip("/") + "/") for d in directories)
