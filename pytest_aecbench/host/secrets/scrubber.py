"""Replace secrets in text, JSON, files and whole directories."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_aecbench.host.files import whole
from pytest_aecbench.host.secrets.search import Search, Span, replaced
from pytest_aecbench.host.secrets.tree import scrub_tree

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Scrubber"]


class Scrubber:
    """Replaces known secret values by ``<NAME>``, in every form that ``forms`` yields.

    Values that are too short, everyday words such as ``password`` and the paths of existing files
    do not count as secrets.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        values = {name: value.strip() for name, value in secrets.items()}
        self.search = Search((value, _encode(f"<{name}>")) for name, value in values.items())

    def __bool__(self) -> bool:
        return bool(self.search)

    def __repr__(self) -> str:
        return f"Scrubber({self.search.labels})"

    def text(self, text: str) -> str:
        """Return ``text`` without secrets."""
        data = _encode(text)
        found = self.search.find(data, has_dots=True)
        return _with_labels(data, found) if found else text

    def json(self, value: Any) -> Any:
        """Return JSON-like data without secrets in keys and values.

        A secret may go on from one key to the next, or from one value to the next.
        """
        if not self:
            return value
        keys, values = [*_keys(value)], [*_values(value)]
        pieces = [_encode(text) for text in (*keys, *values)]
        found = self.search.find_in_each(pieces)
        texts = map(_with_labels, pieces, found)
        clean_keys = iter([next(texts) for _ in keys])
        return _rebuilt(value, clean_keys, texts)

    def file(self, path: Path) -> bool:
        """Rewrite a regular file if it contains a secret; return whether it did.

        A file that its owner may not read is made readable first.
        """
        status = path.lstat()
        if not self or not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        mode = stat.S_IMODE(status.st_mode) | stat.S_IRUSR
        if mode != stat.S_IMODE(status.st_mode):
            path.chmod(mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        with data:
            found = self.search.find(data)
            if found:
                try:
                    # A copy takes its place, so that no reader finds half of it.
                    with whole(path, durable=False) as file:
                        file.writelines(replaced(data, found))
                        os.fchmod(file.fileno(), mode)
                except OSError:  # no space for a copy
                    _blank(path, found)
        return bool(found)

    def tree(self, directory: Path) -> list[Path]:
        """Scrub all files below ``directory``, their names, and the targets of links.

        Links are not followed. Return the paths that could not be scrubbed and so may still contain
        a secret.
        """
        return scrub_tree(directory, self.search, self.file) if self else []


def _blank(path: Path, found: list[Span]) -> None:
    """Overwrite the places in a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        for start, end, _ in found:
            os.pwrite(descriptor, b"*" * (end - start), start)
    finally:
        os.close(descriptor)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # JSON may hold halves of characters


def _with_labels(data: bytes, found: list[Span]) -> str:
    whole_characters = [
        Span(_character(data, start, -1), _character(data, end, 1), label)
        for start, end, label in found
    ]
    return b"".join(replaced(data, whole_characters)).decode("utf-8", "surrogatepass")


def _character(data: bytes, position: int, step: int) -> int:
    """Return the position, moved out of the middle of a character."""
    while 0 < position < len(data) and data[position] & 0xC0 == 0x80:
        position += step
    return position


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (key for key in value if isinstance(key, str))
        for item in value.values():
            yield from _keys(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _keys(item)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _values(item)


def _rebuilt(value: Any, keys: Iterator[str], values: Iterator[str]) -> Any:
    """Return the data with other keys and values, in the order of ``_keys`` and ``_values``."""
    if isinstance(value, str):
        return next(values)
    if isinstance(value, Mapping):
        names = [next(keys) if isinstance(key, str) else key for key in value]
        items = [_rebuilt(item, keys, values) for item in value.values()]
        rebuilt: dict[Any, Any] = {}
        for name, item in zip(names, items, strict=True):
            rebuilt[_unlike(name, rebuilt)] = item
        return rebuilt
    if isinstance(value, (list, tuple)):
        return [_rebuilt(item, keys, values) for item in value]
    return value


def _unlike(name: Any, taken: Mapping[Any, Any]) -> Any:
    """Return the name, numbered if secrets were all that told it from another."""
    number, numbered = 1, name
    while numbered in taken:
        number += 1
        numbered = f"{name}-{number}"
    return numbered
