"""The layout of a local sandbox: which directory of the host is at which path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_aecbench.backends.shared.paths import ROOTS, WORKSPACE, absolute
from pytest_aecbench.host.homes import make_home, remove_tree

__all__ = ["Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """One sandbox's directories; ``home`` contains all of them except its workspace."""

    home: Path
    workspace: Path
    workdir: PurePosixPath

    @classmethod
    def make(cls, workspace: Path, workdir: PurePosixPath) -> Layout:
        """Make a home in the host's temporary directory."""
        home = make_home("local")
        for name in ("logs", "logs/agent", "logs/verifier", "solution", "tests"):
            (home / name).mkdir()
            (home / name).chmod(0o777)  # a command may run as any user
        return cls(home, workspace, workdir)

    @property
    def directories(self) -> dict[PurePosixPath, Path]:
        """The host's directory for each path, with an alias of ``/workspace`` if there is one."""
        found = {root: self.home / root.name for root in ROOTS}
        found[WORKSPACE] = self.workspace
        if not any(self.workdir.is_relative_to(root) for root in ROOTS):
            found[self.workdir] = self.workspace
        return found

    def locate(self, path: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the host's directory that contains ``path``, and the path's remaining parts."""
        target = absolute(path)
        for root, directory in self.directories.items():
            if target.is_relative_to(root):
                return directory, target.relative_to(root).parts
        return None

    def remove(self) -> None:
        """Remove the home, also a read-only one."""
        remove_tree(self.home)
