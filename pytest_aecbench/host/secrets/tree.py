"""Replace secrets below a directory: in files, in names, and in the targets of links."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pytest_aecbench.host.secrets.search import Search, Span, replaced

__all__ = ["scrub_tree"]

_LONGEST_NAME = 240  # bytes, of 255, because a number may be added


def scrub_tree(directory: Path, search: Search, scrub_file: Callable[[Path], object]) -> list[Path]:
    """Scrub everything below ``directory``; return the paths where that failed."""
    failed: list[Path] = []
    paths = [*_paths(directory, failed)]
    for path in paths:
        try:
            if path.is_symlink():
                _scrub_target(path, search)
            else:
                scrub_file(path)
        except OSError:
            failed.append(path)
    below = [os.fsencode(path.relative_to(directory)) for path in paths]
    names = _new_names(below, search)
    # The contents of a directory are renamed before the directory.
    for old in sorted(names, key=lambda name: -name.count(b"/")):
        path = directory / os.fsdecode(old)
        try:
            path.rename(_free(path.with_name(os.fsdecode(names[old]))))
        except OSError:
            failed.append(path)
    return sorted(failed)


def _paths(directory: Path, failed: list[Path]) -> Iterator[Path]:
    """Yield everything below ``directory``, sorted; a directory is made accessible first."""
    try:
        mode = directory.lstat().st_mode
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        failed.append(directory)
        return
    for entry in entries:
        yield Path(entry)
        if entry.is_dir(follow_symlinks=False):
            yield from _paths(Path(entry), failed)


def _scrub_target(link: Path, search: Search) -> None:
    target = os.fsencode(link.readlink())
    found = search.find(target)
    if found:
        link.unlink()
        link.symlink_to(os.fsdecode(b"".join(replaced(target, found))))


def _new_names(paths: list[bytes], search: Search) -> dict[bytes, bytes]:
    """Return the last parts of the paths that need another, by the path as it is now.

    A secret with a slash in it is spread over several parts of a path.
    """
    marks: dict[bytes, set[Span]] = defaultdict(set)
    for path, found in zip(paths, search.find_in_each(paths), strict=True):
        for span in found:
            begin = 0
            for part in path.split(b"/"):
                end = begin + len(part)
                first, last = max(span.start, begin), min(span.end, end)
                if first < last:
                    marks[path[:end]].add(Span(first - begin, last - begin, span.label))
                begin = end + 1
    return {path: _new_name(path.rpartition(b"/")[2], sorted(marks[path])) for path in marks}


def _new_name(name: bytes, found: list[Span]) -> bytes:
    new = b"".join(replaced(name, found))
    if len(new) <= _LONGEST_NAME:
        return new
    return new[:_LONGEST_NAME].decode("utf-8", "ignore").encode()


def _free(path: Path) -> Path:
    """Return the path, numbered if it is taken."""
    number, free = 1, path
    with suppress(FileNotFoundError):
        while free.lstat():
            number += 1
            free = path.with_name(f"{path.name}-{number}")
    return free
