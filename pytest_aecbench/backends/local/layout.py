"""Which directories of the host stand for which paths of a local sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath

from pytest_aecbench.errors import BackendError
from pytest_aecbench.ownership import Owner

__all__ = ["ROOTS", "WORKSPACE", "Layout", "left_behind", "remove_tree"]

WORKSPACE = PurePosixPath("/workspace")
ROOTS = tuple(PurePosixPath(path) for path in ("/workspace", "/tests", "/logs", "/solution"))


_PREFIX = "aecbench-"
_OWNER = "owner.json"


@dataclass(frozen=True, slots=True)
class Layout:
    """One sandbox's directories; ``home`` is its own and holds all but its workspace."""

    home: Path
    workspace: Path
    workdir: PurePosixPath

    @classmethod
    def make(cls, workspace: Path, workdir: PurePosixPath) -> Layout:
        """Make a home in the host's temporary directory."""
        home = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (home / _OWNER).write_text(json.dumps(Owner.current().labels()))
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


def left_behind() -> list[Path]:
    """Return the homes of sandboxes whose process died before it could remove them."""
    found = []
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, ValueError):  # not ours, or going by itself
            owner = Owner.from_labels(json.loads((home / _OWNER).read_text()))
            if owner is not None and owner.is_dead():
                found.append(home)
    return sorted(found)


def absolute(path: str) -> PurePosixPath:
    """Return a sandbox path in its plainest form."""
    if not path.startswith("/"):
        raise BackendError(f"sandbox path: {path!r} is not absolute; start it with '/'")
    return PurePosixPath("/" + normpath(path).lstrip("/"))


def remove_tree(directory: Path) -> None:
    """Remove a tree, also a read-only or very deep one; one that is gone is fine."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        pass
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", directory], stderr=subprocess.DEVNULL, check=False)
