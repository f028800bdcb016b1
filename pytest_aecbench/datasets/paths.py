"""Paths that a manifest or an archive may name: relative, plain, and apart on every filesystem."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["clash", "problem_with"]

_MAX_BYTES = 1024
_MAX_PART_BYTES = 255
_DRIVE = re.compile(r"[A-Za-z]:")
# What Windows takes for a device, whatever its suffix.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def problem_with(path: str) -> str | None:
    """Say what makes the path unsafe to write below a directory; None where nothing does."""
    parts = path.split("/")
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    if ".." in parts:
        return "leaves its directory"
    if "" in parts or "." in parts:
        return "has empty parts"
    if "\\" in path or not path.isprintable():
        return "has a character that no file should have in its name"
    if any(part[-1] in ". " or _DEVICE.fullmatch(part) for part in parts):
        return "is no file name everywhere"
    encoded = path.encode("utf-8", "surrogatepass")
    longest = max(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    if len(encoded) > _MAX_BYTES or longest > _MAX_PART_BYTES:
        return "is too long"
    return None


def clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Return two files that cannot be beside each other: equal but for case, or one in the other.

    On a filesystem that ignores case or composes characters, one would replace the other.
    """
    files: dict[str, str] = {}
    directories: dict[str, tuple[str, str]] = {}
    for path in paths:
        folded = _folded(path)
        if folded in files or folded in directories:
            other = files.get(folded) or directories[folded][1]
            return other, path
        files[folded] = path
        parent = path
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            spelt, first = directories.setdefault(_folded(parent), (parent, path))
            if spelt != parent or _folded(parent) in files:
                return files.get(_folded(parent), first), path
            if first != path:
                break  # whoever came first has looked further up
    return None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
