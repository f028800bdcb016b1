"""Make a directory that an agent has left safe to read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from pytest_aecbench.backends.shared.placing import (
    change_mode,
    enter,
    open_directory,
    remove_entries,
)
from pytest_aecbench.errors import TransferError

__all__ = ["tidy"]

_MAX_DEPTH = 64


def tidy(directory: Path) -> list[str]:
    """Remove what is no file, directory or link within ``directory``; return what that was.

    What stays can be read by its owner.
    """
    skipped: list[str] = []
    try:
        with open_directory(directory, ()) as descriptor:
            _tidy(descriptor, Path(os.path.realpath(directory)), "", skipped)
    except OSError as error:
        raise TransferError(f"{directory}: cannot be collected; {error.strerror}") from None
    return [os.fsencode(what).decode(errors="replace") for what in skipped]


def _tidy(parent: int, root: Path, way: str, skipped: list[str]) -> None:
    for name in sorted(os.listdir(parent)):
        with suppress(FileNotFoundError):  # what still runs may remove things
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if reason := _reason_to_skip(mode, root, f"{way}{name}"):
                remove_entries(parent, [name])
                skipped.append(f"{way}{name} ({reason})")
            elif stat.S_ISDIR(mode):
                inner = enter(parent, name)
                try:
                    _tidy(inner, root, f"{way}{name}/", skipped)
                finally:
                    os.close(inner)
            elif stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
                change_mode(parent, name, stat.S_IMODE(mode) | stat.S_IRUSR)


def _reason_to_skip(mode: int, root: Path, relative: str) -> str | None:
    if stat.S_ISLNK(mode):
        if (root / relative).readlink().is_absolute():
            return "absolute link"
        inside = Path(os.path.realpath(root / relative)).is_relative_to(root)
        return None if inside else "link that leads outside"
    if stat.S_ISDIR(mode):
        return "nested too deeply" if relative.count("/") >= _MAX_DEPTH else None
    if stat.S_ISREG(mode):
        return None
    kinds = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")
