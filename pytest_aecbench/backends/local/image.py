"""The local image: the effect of a Dockerfile without building an image from it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_aecbench.backends.shared.paths import ROOTS, WORKSPACE
from pytest_aecbench.backends.shared.placing import place
from pytest_aecbench.tasks.dockerfile import Dockerfile, read_dockerfile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_aecbench.backends.local.layout import Layout
    from pytest_aecbench.tasks.dockerfile import Copy

__all__ = ["UnbuiltImage"]


# Directories that programs need unchanged, and trees that they need with everything in them.
_SYSTEM = {"/", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/usr", "/var"}
_SYSTEM |= {"/tmp", "/usr/local", "/usr/share", "/usr/src", "/var/lib", "/var/log"}  # noqa: S108
_SYSTEM_TREES = ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys"]
_SYSTEM_TREES += ["/usr/bin", "/usr/lib", "/usr/local/bin", "/usr/local/lib", "/usr/sbin"]


@dataclass(frozen=True, slots=True)
class UnbuiltImage:
    """A sandbox's initial state; ``notes`` lists the parts of the Dockerfile without effect.

    ``private`` are the directories of tasks with this same environment.
    """

    workdir: PurePosixPath
    env: Mapping[str, str]
    copies: tuple[Copy, ...]
    notes: tuple[str, ...]
    private: set[Path] = field(default_factory=set)

    @classmethod
    def read(
        cls, context: Path, base_env: Mapping[str, str], workdir: str | None = None
    ) -> UnbuiltImage:
        """Read the Dockerfile in ``context``, if there is one; ``workdir`` overrides its own."""
        path = context / "Dockerfile"
        dockerfile = read_dockerfile(path, base_env) if path.exists() else Dockerfile()
        notes = list(dockerfile.notes)
        work = PurePosixPath(workdir or dockerfile.workdir or WORKSPACE)
        if _is_system_directory(work):
            notes.append(f"WORKDIR {work}: {WORKSPACE} is used instead")
            work = WORKSPACE
        within = sorted({*ROOTS, work})
        copies = {}
        for copy in dockerfile.copies:
            if any(copy.target.is_relative_to(root) for root in within):
                copies[copy.target] = copy
            else:
                roots = ", ".join(map(str, within))
                notes.append(f"{copy.instruction}: left out (not below {roots})")
        unique_notes = tuple(dict.fromkeys(notes))
        return cls(work, dockerfile.env, tuple(copies.values()), unique_notes)

    def stage(self, layout: Layout, rewrite: Callable[[str], str] | None = None) -> None:
        """Copy its files to paths that do not exist yet in the sandbox's directories."""
        for copy in self.copies:
            located = layout.locate(str(copy.target))
            assert located is not None
            directory, parts = located
            on_the_way = (directory.joinpath(*parts[:count]) for count in range(1, len(parts)))
            path = directory.joinpath(*parts)
            if os.path.lexists(path) or any(_blocks(parent) for parent in on_the_way):
                continue
            if copy.source.is_dir():
                path.mkdir(parents=True)
            else:
                place(directory, parts, copy.source, mode=copy.mode, rewrite=rewrite)
        directory, parts = layout.locate(str(layout.workdir)) or (layout.workspace, ())
        directory.joinpath(*parts).mkdir(parents=True, exist_ok=True)


def _is_system_directory(workdir: PurePosixPath) -> bool:
    """Return whether the host's own directory of that name has to stay visible."""
    in_tree = any(workdir.is_relative_to(tree) for tree in _SYSTEM_TREES)
    has_python = any(Path(p).is_relative_to(workdir) for p in (sys.prefix, sys.base_prefix))
    return str(workdir) in _SYSTEM or in_tree or has_python


def _blocks(path: Path) -> bool:
    return os.path.lexists(path) and (path.is_symlink() or not path.is_dir())
