"""Names of datasets: a name, a semantic version, both as ``name@version``; and safe file names."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "NAME",
    "DatasetRef",
    "Precedence",
    "check_version",
    "clash",
    "parse_ref",
    "precedence",
    "problem_with",
]

NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_MAX_VERSION_CHARS = 128
_NUMBER = "(?:0|[1-9][0-9]*)"
_IDENTIFIER = f"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"(?P<core>{_NUMBER}\.{_NUMBER}\.{_NUMBER})"
    rf"(?:-(?P<pre>{_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)

Precedence: TypeAlias = "tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], str]"


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """A dataset as users write it; without a version, its highest one."""

    name: str
    version: str | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


def parse_ref(text: str, where: str) -> DatasetRef:
    """Return the reference that ``name`` or ``name@version`` means."""
    name, at, version = text.partition("@")
    if not re.fullmatch(NAME, name):
        raise SettingsError(
            f"{where}: {text!r} does not name a dataset; use NAME or NAME@VERSION, where a name is "
            "1 to 128 of the characters A-Z a-z 0-9 . _ - and starts with a letter or digit"
        )
    return DatasetRef(name, check_version(version, where) if at else None)


def check_version(text: str, where: str) -> str:
    """Return ``text`` if it is a semantic version, else raise SettingsError."""
    if len(text) > _MAX_VERSION_CHARS or not _VERSION.fullmatch(text):
        raise SettingsError(
            f"{where}: {text[:200]!r} is not a semantic version; use one such as '1.0.0'"
        )
    return text


def precedence(version: str) -> Precedence:
    """Return a sort key that orders versions as semver does, and equal ones by their text."""
    match = _VERSION.fullmatch(version)
    assert match is not None
    core = tuple(map(int, match["core"].split(".")))
    identifiers = match["pre"].split(".") if match["pre"] else ()
    parts = tuple((not i.isdigit(), int(i) if i.isdigit() else 0, i) for i in identifiers)
    return core, not identifiers, parts, version


_MAX_BYTES = 1024
_MAX_PART_BYTES = 255
_DRIVE = re.compile(r"[A-Za-z]:")
# Names that are devices on Windows, with any suffix.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def problem_with(path: str) -> str | None:
    """Return why the path is unsafe to write below a directory, or None."""
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
        return "is not a valid file name on every system"
    encoded = path.encode("utf-8", "surrogatepass")
    longest = max(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    if len(encoded) > _MAX_BYTES or longest > _MAX_PART_BYTES:
        return "is too long"
    return None


def clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Return two files that conflict: equal except for case, or one inside the other.

    On a file system that ignores case or composes characters, one would replace the other.
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
                break  # its parents were checked before
    return None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
