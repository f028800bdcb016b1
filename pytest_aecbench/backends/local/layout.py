"""Which directories of the host stand for which paths of a local sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_aecbench.backends.shared.paths import ROOTS, WORKSPACE, absolute
from pytest_aecbench.host.homes import make_home, remove_tree

__all__ = ["Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """One sandbox's directories; ``home`` is its own and holds all but its workspace."""

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
        """The host's directory for each path; an alias of ``/workspace`` where there is one."""
        found = {root: self.home / root.name for root in ROOTS}
        found[WORKSPACE] = self.workspace
        if not any(self.workdir.is_relative_to(root) for root in ROOTS):
            found[self.workdir] = self.workspace
        return found

    def locate(self, path: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the host's directory that holds ``path`` and the rest of the way to it."""
        target = absolute(path)
        for root, directory in self.directories.items():
            if target.is_relative_to(root):
                return directory, target.relative_to(root).parts
        return None

    def remove(self) -> None:
        """Remove the home, however it was left."""
        remove_tree(self.home)
