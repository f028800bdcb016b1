"""The layout of a local sandbox: which directory of the host is at which path."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_aecbench.backends.shared.paths import ROOTS, WORKSPACE, absolute
from pytest_aecbench.host.homes import make_home, remove_tree
from pytest_aecbench.host.limits import check_open_files

__all__ = ["HeldDirectories", "Layout"]

_FILES = 16  # more than are open at once while a sandbox is started or removed


class HeldDirectories:
    """Directories held open, so that one that replaces them does not get their number."""

    def __init__(self, *paths: Path) -> None:
        self._held: dict[Path, int] = {}
        with ExitStack() as undo:
            undo.callback(self.release)
            for path in paths:
                self._held[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            undo.pop_all()

    def removed(self) -> list[Path]:
        """Return those that are not there any more, also if others are in their place."""
        return [path for path, held in self._held.items() if not _is_at(path, held)]

    def release(self) -> None:
        """Hold them no longer."""
        while self._held:
            os.close(self._held.popitem()[1])


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Layout:
    """One sandbox's directories; ``home`` contains all of them except its workspace."""

    home: Path
    workspace: Path
    workdir: PurePosixPath
    held: HeldDirectories

    @classmethod
    def make(cls, workspace: Path, workdir: PurePosixPath) -> Layout:
        """Make a home in the host's temporary directory."""
        check_open_files(_FILES)  # before there is a home, which could not be removed either
        with ExitStack() as undo:
            home = make_home("local")
            undo.callback(remove_tree, home)
            for name in ("logs", "logs/agent", "logs/verifier", "solution", "tests"):
                (home / name).mkdir()
                (home / name).chmod(0o777)  # a command may run as any user
            made = cls(home, workspace, workdir, HeldDirectories(workspace, home / "logs"))
            undo.pop_all()
        return made

    @property
    def directories(self) -> dict[PurePosixPath, Path]:
        """The host's directory for each path, with an alias of ``/workspace`` if there is one."""
        found = {root: self.home / root.name for root in ROOTS}
        found[WORKSPACE] = self.workspace
        if not any(self.workdir.is_relative_to(root) for root in ROOTS):
            found[self.workdir] = self.workspace
        return found

    @property
    def logs(self) -> Path:
        """The host's directory for ``/logs``."""
        return self.home / "logs"

    def locate(self, path: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the host's directory that contains ``path``, and the path's remaining parts."""
        target = absolute(path)
        for root, directory in self.directories.items():
            if target.is_relative_to(root):
                return directory, target.relative_to(root).parts
        return None

    def remove(self) -> None:
        """Remove the home, also a read-only one."""
        self.held.release()
        remove_tree(self.home)
