"""The files that a Dockerfile may copy: its directory, less what .dockerignore names."""

from __future__ import annotations

import os
import re
from posixpath import normpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["BuildContext"]


class BuildContext:
    """One build context."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rules = list(_rules(root / ".dockerignore"))

    def find(self, source: str) -> list[Path]:
        """Return the files and directories that ``source``, perhaps a glob, stands for, sorted.

        One that leaves the context or matches nothing is a ValueError.
        """
        relative = normpath(source.lstrip("/") or ".")
        if relative.split("/")[0] == "..":
            raise ValueError("leaves the build context")
        if re.search(r"[*?\[]", relative):
            found = sorted(self.root.glob(relative))
        else:
            found = [path for path in [self.root / relative] if os.path.lexists(path)]
        found = [path for path in found if self._holds(path)]
        if not found:
            raise ValueError("matches nothing in the build context")
        home = self.root.resolve()
        if not all(path.resolve().is_relative_to(home) for path in found):
            raise ValueError("leaves the build context")
        return found

    def below(self, directory: Path) -> Iterator[Path]:
        """Yield everything below ``directory``, each directory before what it holds."""
        for path in sorted(directory.iterdir()):
            if self._holds(path):
                yield path
                if path.is_dir() and not path.is_symlink():
                    yield from self.below(path)

    def _holds(self, path: Path) -> bool:
        """Say whether ``path`` is in the context, itself or for what a later rule brings back."""
        if not self.ignores(path):
            return True
        return path.is_dir() and not path.is_symlink() and any(True for _ in self.below(path))

    def ignores(self, path: Path) -> bool:
        """Say whether .dockerignore leaves ``path`` out; its last rule that matches decides."""
        name = path.relative_to(self.root).as_posix()
        verdicts = [ignored for pattern, ignored in self._rules if pattern.fullmatch(name)]
        return name != "." and verdicts[-1:] == [True]


def _rules(path: Path) -> Iterator[tuple[re.Pattern[str], bool]]:
    """Yield each rule as a pattern for paths and whether these are ignored."""
    for line in path.read_text("utf-8", "replace").splitlines() if path.is_file() else ():
        rule = line.strip()
        if rule and not rule.startswith("#"):
            glob = normpath(rule.removeprefix("!").strip().strip("/") or ".")
            yield _compile(glob), not rule.startswith("!")


_GLOB = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _compile(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", glob)
    regex = "".join(
        _GLOB.get(part, part if part.startswith("[") else re.escape(part)) for part in parts
    )
    return re.compile(f"{regex}(?:/.*)?")  # what lies below a match is matched too
