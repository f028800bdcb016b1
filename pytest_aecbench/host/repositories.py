"""Git repositories: the directories in which versions of a file can be found."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["repositories"]


def repositories(path: Path) -> Iterator[Path]:
    """Yield all directories of the repositories that contain ``path``.

    These are their worktrees, also linked ones, their git directories, and the stores from which
    they borrow objects.
    """
    for top in (path, *path.parents):
        entry = top / ".git"
        git = _pointer(entry, top, "gitdir: ") or entry
        if not git.is_dir():
            continue
        common = _pointer(git / "commondir", git) or git
        yield from (top, git, common)
        if common.name == ".git":
            yield common.parent
        for linked in common.glob("worktrees/*/gitdir"):
            place = _pointer(linked, linked.parent)
            if place and place.exists():
                yield place.parent
        for line in _lines(common / "objects/info/alternates"):
            yield common / "objects" / line


def _pointer(file: Path, base: Path, prefix: str = "") -> Path | None:
    """Return the path that the file names, from ``base`` unless it is absolute."""
    for line in _lines(file):
        if line.startswith(prefix):
            return (base / line.removeprefix(prefix)).resolve()
    return None


def _lines(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text(errors="surrogateescape").splitlines()
    return []
