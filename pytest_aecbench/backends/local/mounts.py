"""The mounts of a namespace sandbox, as lines of an fstab."""

from __future__ import annotations

import os
import re
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_aecbench.backends.local.layout import Layout

__all__ = ["Mounts"]

_KERNEL = ("/dev", "/proc", "/sys")
_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "ptmx": "pts/ptmx",
    "stderr": "/proc/self/fd/2",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
}
# Files through which root could change the whole machine, even without capabilities.
_READ_ONLY_PROC = ("bus", "irq", "sys", "sysrq-trigger")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  (a place to mount, not one to write to)
_TEMPORARY = {"/run": "755", "/tmp": "1777", "/var/tmp": "1777"}  # noqa: S108  (likewise)


class Mounts:
    """The mounts of one sandbox.

    With ``overlay``, the host's files are the lower layer of a file system whose changes vanish;
    without, they are bound read-only. ``hidden`` paths are covered by empty files or directories.
    """

    def __init__(self, layout: Layout, *, overlay: bool, hidden: Iterable[Path]) -> None:
        self.home = layout.home
        self.scratch = layout.home / "scratch"
        self.root = self.scratch / "root" if overlay else self.scratch
        self.fstab: list[str] = []
        self.made: list[Path] = []  # directories in the scratch file system
        self.copied: dict[Path, list[str]] = {}  # directory: links and devices to put there
        self.same: list[tuple[Path, Path]] = []  # pairs that are one file after mounting
        self._host = _host_mounts()
        self._temporary = _temporary_directories()

        self.scratch.mkdir()
        if overlay:
            self._overlay_host()
            self._mount_own_devices()
        else:
            self._bind_host(os.path.realpath(layout.workdir))
        for path, mode in self._temporary.items():
            self._add("tmpfs", path, "tmpfs", f"mode={mode}")
        needed = _needed_directories()
        self._keep(needed, self._temporary)
        self._keep(needed, self._cover(hidden, needed, missing_too=overlay))
        for target, source in layout.directories.items():
            self._bind(source, os.path.realpath(target), "bind")

    def _add(self, source: object, target: str, kind: str, options: str) -> None:
        """Mount something at ``target``, a path in the sandbox."""
        fields = (str(source), f"{self.root}{target}".rstrip("/"), kind, options)
        escaped = (re.sub(r"[\s#\\]", lambda m: f"\\{ord(m[0]):03o}", field) for field in fields)
        self.fstab.append(f"{' '.join(escaped)},X-mount.mkdir 0 0")

    def _bind(self, source: Path, target: str, options: str) -> None:
        """Bind a path that the sandbox needs, and check it after mounting."""
        self._add(source, target, "none", options)
        self.same.append((Path(f"{self.root}{target}"), source))

    def _overlay_host(self) -> None:
        self.made.append(self.root)
        self._overlay("/")
        for mount in self._further_mounts():
            # Stays visible if the overlay on it fails.
            self._add(mount.path, mount.path, "none", f"bind,ro{mount.locked}")
            if _is_directory(mount.path) and not re.search(r"[,:\\]", mount.path):
                self._overlay(mount.path)

    def _overlay(self, path: str) -> None:
        upper, work = (self.scratch / f"{name}-{len(self.made)}" for name in ("upper", "work"))
        self.made += [upper, work]
        self._add("overlay", path, "overlay", f"lowerdir={path},upperdir={upper},workdir={work}")

    def _mount_own_devices(self) -> None:
        """Mount the kernel's file systems as in containers."""
        links = self.home / "dev"
        links.mkdir()
        for name, target in _DEVICE_LINKS.items():
            (links / name).symlink_to(target)
        self._mount_proc()
        self._add("/sys", "/sys", "none", "bind,ro")
        self._add("tmpfs", "/dev", "tmpfs", "mode=755,nosuid")
        self._add("devpts", "/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620")
        self._add("tmpfs", _SHARED_MEMORY, "tmpfs", "mode=1777")
        self.copied[self.root / "dev"] = [
            *(f"/dev/{name}" for name in _DEVICES),
            *(f"{links}/{name}" for name in _DEVICE_LINKS),
        ]

    def _mount_proc(self) -> None:
        self._add("proc", "/proc", "proc", "nodev,noexec,nosuid")
        for name in _READ_ONLY_PROC:
            self._add(f"{self.root}/proc/{name}", f"/proc/{name}", "none", "bind,ro")

    def _bind_host(self, workdir: str) -> None:
        """Bind the directories of the host's root, and the siblings of a new ``workdir``."""
        taken = (*_KERNEL, *self._temporary)
        levels = ["/"]
        if not _is_directory(workdir) and not _is_below(workdir, self._temporary):
            parents = map(str, Path(workdir).parents)
            levels = sorted((path for path in parents if _is_directory(path)), key=len)
        for level in levels:
            self._add("tmpfs", level, "tmpfs", "mode=755")
            for entry in _entries(level):
                if entry.is_symlink():
                    self.copied.setdefault(Path(f"{self.root}{level}"), []).append(entry.path)
                elif entry.is_dir() and entry.path not in (*levels, *taken):
                    self._bind_read_only(entry.path)
        for mount in self._further_mounts():
            if "ro" not in mount.options and mount.path.count("/") > 1:
                self._bind_read_only(mount.path)
        self._mount_proc()
        self._bind_read_only("/sys")
        self._add("/dev", "/dev", "none", "rbind")
        self._add("tmpfs", _SHARED_MEMORY, "tmpfs", "mode=1777")

    def _bind_read_only(self, path: str) -> None:
        holders = [m for m in self._host if path == m.path or _is_below(path, [m.path])]
        locked = max(holders, key=lambda mount: len(mount.path)).locked if holders else ""
        self._add(path, path, "none", f"rbind,ro{locked}")

    def _further_mounts(self) -> list[_HostMount]:
        """Return the host's mounts except its root and those that the sandbox replaces."""
        own = (*_KERNEL, *self._temporary)
        return [
            m
            for m in self._host
            if _is_below(m.path, ["/"]) and m.path not in own and not _is_below(m.path, own)
        ]

    def _keep(self, needed: Iterable[str], covered: Iterable[str]) -> None:
        """Mount needed paths again that are below ``covered`` directories."""
        for path in needed:
            if _is_below(path, covered):
                self._add(path, path, "none", "bind,ro")

    def _cover(
        self, hidden: Iterable[Path], needed: Iterable[str], *, missing_too: bool
    ) -> list[str]:
        covered: list[str] = []
        for path in sorted({os.path.realpath(path) for path in hidden}):
            gone = _is_below(path, self._temporary) and not _is_below(path, needed)
            if gone or _is_below(path, covered) or not (missing_too or os.path.lexists(path)):
                continue
            cover = self.home / f"cover-{len(covered)}"
            covered.append(path)
            if Path(path).is_file():
                cover.touch(0o444)
            else:
                cover.mkdir()
                for inner in needed:
                    if _is_below(inner, [path]):
                        (cover / Path(inner).relative_to(path)).mkdir(parents=True, exist_ok=True)
            self._bind(cover, path, "bind,ro")
        return covered


class _HostMount(NamedTuple):
    path: str
    options: frozenset[str]

    @property
    def locked(self) -> str:
        """The options that a bind in a user namespace has to keep."""
        return "".join(f",{o}" for o in ("nodev", "noexec", "nosuid") if o in self.options)


def _host_mounts() -> list[_HostMount]:
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        fields = line.split()
        if fields[fields.index("-") + 1] != "autofs":
            path = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[4])
            mounts[path] = _HostMount(path, frozenset(fields[5].split(",")))
    return [mounts[path] for path in sorted(mounts)]


def _temporary_directories() -> dict[str, str]:
    """Return the directories that are empty in every sandbox, with their modes."""
    found = {**_TEMPORARY, tempfile.gettempdir(): "1777"}
    real = {os.path.realpath(path): mode for path, mode in found.items()}
    return {path: mode for path, mode in real.items() if not _is_below(path, real)}


def _needed_directories() -> list[str]:
    """Return the directories of programs, of this Python and of name resolution."""
    found = {sys.prefix, sys.base_prefix, str(Path("/etc/resolv.conf").resolve().parent)}
    found |= {path for path in os.get_exec_path() if path.startswith("/")}
    return sorted(path for path in found if not _is_below(path, found) and _is_directory(path))


def _is_directory(path: str) -> bool:
    """Return whether ``path`` is a directory that this user can reach."""
    with suppress(OSError):
        return stat.S_ISDIR(Path(path).stat().st_mode)
    return False


def _entries(directory: str) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return []


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(path != d and path.startswith(d.rstrip("/") + "/") for d in directories)
