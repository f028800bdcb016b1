"""The mounts of a namespace sandbox, as lines of an fstab."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.backends.local.view import KERNEL, is_below, is_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.backends import Mount
    from pytest_aecbench.backends.local.layout import Layout
    from pytest_aecbench.backends.local.view import View

__all__ = ["Mounts"]

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


class Mounts:
    """The mounts of one sandbox.

    With ``overlay``, the host's files are the lower layer of a file system whose changes vanish;
    without, they are bound read-only. Paths that the view hides are covered by empty files or
    directories, and those that it shows in them are mounted there again.
    """

    def __init__(
        self, layout: Layout, view: View, *, overlay: bool, given: Sequence[Mount] = ()
    ) -> None:
        self.home = layout.home
        self.scratch = layout.home / "scratch"
        self.root = self.scratch / "root" if overlay else self.scratch
        self.fstab: list[str] = []
        self.made: list[Path] = []  # directories in the scratch file system
        self.copied: dict[Path, list[str]] = {}  # directory: links and devices to put there
        self.same: list[tuple[Path, Path]] = []  # pairs that are one file after mounting
        self.apart: list[tuple[Path, Path]] = []  # pairs that are two files after mounting
        self._host = _host_mounts()
        self._view = view
        self._own = {os.path.realpath(path): place for path, place in layout.directories.items()}
        self._own |= {os.path.realpath(one.target): one.source for one in given}
        read_only = {os.path.realpath(one.target) for one in given if not one.writable}

        self.scratch.mkdir()
        if overlay:
            self._overlay_host()
        else:
            self._bind_host(os.path.realpath(layout.workdir))
        self._mount_kernel(overlay=overlay)
        for path, shown in view.rules.items():
            if not shown and (overlay or os.path.lexists(path)):
                self._hide(path)
            elif shown and overlay and path in view.python:
                self._show_changeable(path)
            elif shown:
                self._bind_read_only(path, "bind" if overlay else "rbind")
        for target, source in self._own.items():
            locked = self._locked(str(source)) if target in read_only else ""
            self._bind(source, target, f"bind,ro{locked}" if target in read_only else "bind")

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
            self._show_changeable(mount.path, mount.locked)

    def _show_changeable(self, path: str, locked: str = "") -> None:
        # Stays visible if the overlay on it fails.
        self._add(path, path, "none", f"bind,ro,nodev{locked}")
        if is_directory(path) and not re.search(r"[,:\\]", path):
            self._overlay(path)

    def _overlay(self, path: str) -> None:
        upper, work = (self.scratch / f"{name}-{len(self.made)}" for name in ("upper", "work"))
        self.made += [upper, work]
        layers = f"lowerdir={path},upperdir={upper},workdir={work}"
        self._add("overlay", path, "overlay", f"nodev,{layers}")

    def _mount_kernel(self, *, overlay: bool) -> None:
        """Mount the kernel's file systems as in containers."""
        self._add("proc", "/proc", "proc", "nodev,noexec,nosuid")
        for name in _READ_ONLY_PROC:
            self._add(f"{self.root}/proc/{name}", f"/proc/{name}", "none", "bind,ro")
        if overlay:
            self._add("/sys", "/sys", "none", "bind,ro")
        else:
            self._bind_read_only("/sys")
            for path in self._mounts_below("/sys"):  # of which a user may own some
                self._add("tmpfs", path, "tmpfs", "mode=755")
        devices = self.home / "dev"
        devices.mkdir()
        for name, target in _DEVICE_LINKS.items():
            (devices / name).symlink_to(target)
        if overlay:
            self._add("tmpfs", "/dev", "tmpfs", "mode=755,nosuid")
            self.copied[self.root / "dev"] = [
                *(f"/dev/{name}" for name in _DEVICES),
                *(f"{devices}/{name}" for name in _DEVICE_LINKS),
            ]
        else:  # only root can make devices
            for name in _DEVICES:
                (devices / name).touch()
            self._add(devices, "/dev", "none", "bind")
            for name in _DEVICES:
                self._add(f"/dev/{name}", f"/dev/{name}", "none", "bind")
        self._add("devpts", "/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620")
        self._add("tmpfs", _SHARED_MEMORY, "tmpfs", "mode=1777")

    def _mounts_below(self, directory: str) -> list[str]:
        """Return the highest mounts of the host in a directory."""
        found = [mount.path for mount in self._host if is_below(mount.path, [directory])]
        return [path for path in found if not is_below(path, found)]

    def _bind_host(self, workdir: str) -> None:
        """Bind the directories of the host's root, and the siblings of a new ``workdir``."""
        taken = (*KERNEL, *self._view.writable)
        levels = ["/"]
        if not is_directory(workdir) and not is_below(workdir, self._view.writable):
            parents = map(str, Path(workdir).parents)
            levels = sorted((path for path in parents if is_directory(path)), key=len)
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

    def _bind_read_only(self, path: str, how: str = "rbind") -> None:
        self._add(path, path, "none", f"{how},ro,nodev{self._locked(path)}")

    def _locked(self, path: str) -> str:
        holders = [m for m in self._host if path == m.path or is_below(path, [m.path])]
        return max(holders, key=lambda mount: len(mount.path)).locked if holders else ""

    def _further_mounts(self) -> list[_HostMount]:
        """Return the host's mounts except its root and those that the sandbox replaces."""
        return [m for m in self._host if is_below(m.path, ["/"]) and not self._is_replaced(m.path)]

    def _is_replaced(self, path: str) -> bool:
        kernels = path in KERNEL or is_below(path, KERNEL)
        return kernels or not self._view.shows(path)

    def _hide(self, path: str) -> None:
        """Cover a path, with places for what is to be mounted in it."""
        inner = [place for place in (*self._view.rules, *self._own) if is_below(place, [path])]
        files = [place for place in inner if place not in self._own and not is_directory(place)]
        mode = self._view.writable.get(path)
        if not mode and not inner:  # all can share one cover, because none can change it
            self._bind(self._empty(is_file=_is_file(path)), path, "bind,ro")
        elif not files:
            self._add("tmpfs", path, "tmpfs", f"mode={mode or '755'}")
            self.apart.append((Path(f"{self.root}{path}"), Path(path)))
        else:  # mount makes directories where they are missing, but not files
            cover = self.home / f"cover-{len(self.fstab)}"
            for place in inner:
                point = cover / Path(place).relative_to(path)
                directory = point.parent if place in files else point
                directory.mkdir(parents=True, exist_ok=True)
                if place in files:
                    point.touch()
            cover.chmod(int(mode or "755", 8))
            self._bind(cover, path, "bind")

    def _empty(self, *, is_file: bool) -> Path:
        """Return an empty file or directory."""
        path = self.home / ("empty-file" if is_file else "empty")
        if not path.exists():
            path.touch() if is_file else path.mkdir()
            path.chmod(0o444 if is_file else 0o755)
        return path


class _HostMount(NamedTuple):
    path: str
    options: frozenset[str]

    @property
    def locked(self) -> str:
        """The options, apart from nodev, that a bind in a user namespace has to keep."""
        return "".join(f",{o}" for o in ("noexec", "nosuid") if o in self.options)


def _host_mounts() -> list[_HostMount]:
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        fields = line.split()
        if fields[fields.index("-") + 1] != "autofs":
            path = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[4])
            mounts[path] = _HostMount(path, frozenset(fields[5].split(",")))
    return [mounts[path] for path in sorted(mounts)]


def _is_file(path: str) -> bool:
    return os.path.lexists(path) and not is_directory(path)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return []
