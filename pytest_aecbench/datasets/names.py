"""What datasets are called: a name, a semantic version, and both as ``name@version``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from pytest_aecbench.errors import SettingsError

__all__ = ["NAME", "DatasetRef", "Precedence", "check_version", "parse_ref", "precedence"]

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
    """A dataset as users name it; without a version, the highest there is."""

    name: str
    version: str | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


def parse_ref(text: str, where: str) -> DatasetRef:
    """Read ``name`` or ``name@version``."""
    name, at, version = text.partition("@")
    if not re.fullmatch(NAME, name):
        raise SettingsError(
            f"{where}: {text!r} does not name a dataset; use NAME or NAME@VERSION, where a name is "
            "1 to 128 of the characters A-Z a-z 0-9 . _ - and starts with a letter or digit"
        )
    return DatasetRef(name, check_version(version, where) if at else None)


def check_version(text: str, where: str) -> str:
    """Return ``text`` if it is a semantic version."""
    if len(text) > _MAX_VERSION_CHARS or not _VERSION.fullmatch(text):
        raise SettingsError(
            f"{where}: {text[:200]!r} is not a semantic version; use one such as '1.0.0'"
        )
    return text


def precedence(version: str) -> Precedence:
    """Return what orders versions as semver does; what it leaves open, by the text."""
    match = _VERSION.fullmatch(version)
    assert match is not None
    core = tuple(map(int, match["core"].split(".")))
    identifiers = match["pre"].split(".") if match["pre"] else ()
    parts = tuple((not i.isdigit(), int(i) if i.isdigit() else 0, i) for i in identifiers)
    return core, not identifiers, parts, version
