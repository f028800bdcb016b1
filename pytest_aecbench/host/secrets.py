"""Secrets: find the values that are secret, and replace them in text, JSON and files."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pytest_aecbench.host.files import whole
from pytest_aecbench.text import CUT

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Scrubber", "names_credential", "secrets_from"]

_CREDENTIAL = re.compile(
    r"(?:TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?:ACCESS|API|PRIVATE)_?KEY)(?:_|$)"
    r"|_(?:KEY|PWD|PAT|AUTH|CONNECTION_STRING)$",
    re.IGNORECASE,
)
_WHEREABOUTS = re.compile(r"_(?:FILE|PATH|DIR|URL|URI|ENDPOINT)$", re.IGNORECASE)

# Shorter values and everyday words also occur where the secret is not meant.
_SHORTEST = 8
_EVERYDAY = {
    "anonymous",
    "changeme",
    "development",
    "disabled",
    "localhost",
    "password",
    "placeholder",
    "postgres",
    "production",
    "required",
    "undefined",
    "username",
}

# ``CUT`` stands for the middle of an over-long output, which may cut a secret in two. A part with
# fewer characters than this reveals nothing.
_TEXT_CUT, _BYTE_CUT = re.compile(CUT), re.compile(CUT.encode())
_SHORTEST_PART = 4

_Data = TypeVar("_Data", str, bytes)


def names_credential(name: str) -> bool:
    """Return whether a variable of this name is expected to hold a secret."""
    return bool(_CREDENTIAL.search(name)) and not _WHEREABOUTS.search(name)


def secrets_from(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the values in ``environ`` under a credential's name, and all of ``extra``.

    A URL with a password is a secret under any name, and so is its password alone, which is
    called ``<NAME>_PASSWORD``.
    """
    secrets: dict[str, str] = {}
    for name, value in environ.items():
        password = _url_password(value)
        if password or names_credential(name):
            secrets[name] = value
        if password:
            secrets[f"{name}_PASSWORD"] = password
    return {**secrets, **(extra or {})}


class Scrubber:
    """Replaces known secret values by ``<NAME>``, also where they are JSON-escaped or URL-quoted.

    Values of fewer than 8 characters, everyday words such as ``password`` and the paths of
    existing files do not count as secrets.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        labels: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value.strip()):
                labels.setdefault(form, f"<{name}>")
        self._text_labels = list(labels.items())
        self._byte_labels = [(_encode(form), _encode(label)) for form, label in labels.items()]

    def __bool__(self) -> bool:
        return bool(self._text_labels)

    def __repr__(self) -> str:
        return f"Scrubber({sorted({label for _, label in self._text_labels})})"

    def text(self, text: str) -> str:
        """Return ``text`` without secrets."""
        pieces: list[str] = []
        position = 0
        cuts = [match.span() for match in _TEXT_CUT.finditer(text)]
        parts = _find_parts(text, cuts, self._text_labels)
        for start, end, label in _find(text.find, self._text_labels, parts):
            pieces += text[position:start], label
            position = end
        return "".join((*pieces, text[position:])) if pieces else text

    def json(self, value: Any) -> Any:
        """Return JSON-like data without secrets in keys and values."""
        if not self:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.json(key): self.json(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.json(item) for item in value]
        return value

    def file(self, path: Path) -> bool:
        """Rewrite a regular file if it contains a secret; return whether it did."""
        status = path.lstat()
        if not self or not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        with data:
            cuts = [match.span() for match in _BYTE_CUT.finditer(data)]
            parts = _find_parts(data, cuts, self._byte_labels)
            found = _find(data.find, self._byte_labels, parts)
            if found:
                _rewrite(path, stat.S_IMODE(status.st_mode), data, found)
        return bool(found)

    def tree(self, directory: Path) -> list[Path]:
        """Rewrite every file below ``directory`` that contains a secret, following no links.

        Return the files that could not be read or rewritten and so may still contain one.
        """
        failed: list[Path] = []
        pending = [directory] if self else []
        while pending:
            path = pending.pop()
            try:
                if stat.S_ISDIR(path.lstat().st_mode):
                    pending += path.iterdir()
                else:
                    self.file(path)
            except OSError:
                failed.append(path)
        return sorted(failed)


def _url_password(value: str) -> str | None:
    with contextlib.suppress(ValueError):
        return unquote(urlsplit(value).password or "") if "://" in value else None
    return None


def _forms(value: str) -> Iterable[str]:
    """Return the ways to write ``value``; none if it does not count as a secret."""
    if len(value) < _SHORTEST or value.lower() in _EVERYDAY or os.path.exists(value):  # noqa: PTH110
        return ()
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote_plus(value, errors="surrogateescape"),
        # The characters that stay unquoted: in browsers, by default in Python, and none.
        *(quote(value, safe, errors="surrogateescape") for safe in ("!'()*", "/", "")),
    }


def _encode(text: str) -> bytes:
    # The values of environment variables need not be UTF-8.
    return text.encode("utf-8", "surrogateescape")


def _find_parts(
    data: Any, cuts: Iterable[tuple[int, int]], labels: Iterable[tuple[_Data, _Data]]
) -> list[tuple[int, int, _Data]]:
    """Return the places of a secret's beginning before a cut, or of its end after one."""
    found: list[tuple[int, int, _Data]] = []
    for cut_start, cut_end in cuts:
        for form, label in labels:
            longest = len(form) - 1
            before = data[max(0, cut_start - longest) : cut_start]
            after = data[cut_end : cut_end + longest]
            for size in range(longest, _SHORTEST_PART - 1, -1):
                if before.endswith(form[:size]):
                    found.append((cut_start - size, cut_start, label))
                    break
            for size in range(longest, _SHORTEST_PART - 1, -1):
                if after.startswith(form[-size:]):
                    found.append((cut_end, cut_end + size, label))
                    break
    return found


def _find(
    find: Callable[[_Data, int], int],
    labels: Iterable[tuple[_Data, _Data]],
    parts: Iterable[tuple[int, int, _Data]],
) -> list[tuple[int, int, _Data]]:
    """Return the places of secrets, in order; overlapping ones are joined under the first name."""
    found = list(parts)
    for form, label in labels:
        start = find(form, 0)
        while start >= 0:
            found.append((start, start + len(form), label))
            start = find(form, start + 1)
    found.sort(key=lambda stretch: (stretch[0], -stretch[1]))
    apart: list[tuple[int, int, _Data]] = []
    for start, end, label in found:
        if apart and start < apart[-1][1]:
            first, last, name = apart[-1]
            apart[-1] = (first, max(last, end), name)
        else:
            apart.append((start, end, label))
    return apart


def _rewrite(path: Path, mode: int, data: mmap.mmap, found: list[tuple[int, int, bytes]]) -> None:
    """Replace the file by a scrubbed copy, so that no reader finds half of it."""
    with whole(path, durable=False) as file, memoryview(data) as view:
        position = 0
        for start, end, label in found:
            file.write(view[position:start])
            file.write(label)
            position = end
        file.write(view[position:])
        os.fchmod(file.fileno(), mode)
