"""The ways to write a secret: escaped, quoted, encoded, reversed, and in parts."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from pytest_aecbench.host.secrets.values import is_distinctive, is_recognisable

__all__ = ["IGNORED", "Form", "fold", "forms", "unescaped"]

# Bytes that do not count inside a secret: line breaks and indents, the zeros of UTF-16, and the
# backslashes of JSON and shells, however often they are doubled.
IGNORED = b" \t\r\n\v\f\0\\"
# Upper and lower case are the same, and so are the two alphabets of base64.
_SAME = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ-_", b"abcdefghijklmnopqrstuvwxyz+/")

# A token that is this long is also found in parts, because texts are cut and lines are numbered.
_IN_PARTS = re.compile(r"[\w+/=-]{32,}|[\w+/=.-]{64,}", re.ASCII)
_PART, _MOST_PARTS = 16, 8

# Some writers of JSON escape the characters that HTML reserves.
_MARKUP = re.compile(r"[&<>]")


class Form(NamedTuple):
    """One way to write a secret, folded.

    It is found by its ``needle``, which starts at ``offset``. ``exact`` has the only ways to write
    it if ignored bytes count after all.
    """

    whole: bytes
    needle: bytes
    offset: int = 0
    exact: frozenset[bytes] = frozenset()

    def fits(self, written: bytes) -> bool:
        """Return whether what folds to this form is written in an allowed way."""
        return not self.exact or written.translate(_SAME, b"\0") in self.exact


def fold(data: bytes) -> bytes:
    """Return the data with all that does not matter taken out."""
    return data.translate(_SAME, IGNORED)


def unescaped(data: bytes) -> bytes:
    r"""Return data of the same length with white space for ``\n``, ``\r`` and ``\t``."""
    for escaped in (rb"\n", rb"\r", rb"\t"):
        data = data.replace(escaped, b"\n\n")
    return data


def forms(value: str) -> Iterator[Form]:
    """Yield the ways to write a value; none if it does not count as a secret."""
    if not is_recognisable(value):
        return
    plain = _written(value)
    folded = _folded(plain)
    exact: frozenset[bytes] = frozenset()
    if not is_distinctive(value):
        exact = frozenset(form.translate(_SAME).strip(IGNORED) for form in plain)
    for whole in folded:
        for part in _parts(len(whole)) if _IN_PARTS.fullmatch(value) else [slice(0, None)]:
            yield Form(whole, whole[part], part.start, exact)
    yield from (Form(whole, whole) for whole in _folded(_encoded(value)) - folded)


def _folded(written: Iterable[bytes]) -> set[bytes]:
    return {fold(way) for form in written for way in (form, unescaped(form))}


def _parts(length: int) -> list[slice]:
    size = max(_PART, -(-length // _MOST_PARTS))
    starts = [*range(0, length - size, size), length - size]
    return [slice(start, start + size) for start in starts]


def _written(value: str) -> set[bytes]:
    """Return the value as it is and as formats for text write it."""
    backwards = value[::-1]
    texts = {
        value,
        backwards,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        _MARKUP.sub(lambda match: _escaped(match[0]), json.dumps(value)[1:-1]),
        html.escape(value),
        quote_plus(value, errors="surrogateescape"),
        # The characters that stay unquoted: in browsers, by default in Python, and none.
        *(quote(value, safe, errors="surrogateescape") for safe in ("!'()*", "/", "")),
    }
    return {*(data for text in texts for data in _bytes(text)), *map(_shown, _bytes(value))}


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


def _shown(data: bytes) -> bytes:
    return repr(data)[2:-1].encode()


def _encoded(value: str) -> Iterator[bytes]:
    yield _escaped(value).encode()
    for data in _bytes(value):
        yield data.hex().encode()
        yield b"".join(b"%%%02x" % byte for byte in data)
        yield b"".join(b"x%02x" % byte for byte in data)
        # Inside of longer data, the first and the last characters depend on their neighbours.
        for before, skipped in enumerate((0, 2, 3)):
            encoded = base64.b64encode(bytes(before) + data)
            yield encoded[skipped : (before + len(data)) * 8 // 6]


def _bytes(text: str) -> set[bytes]:
    """Return the text's bytes in files, in encoded strings and in the old western encoding."""
    # The values of environment variables need not be UTF-8.
    found = {text.encode("utf-8", "surrogatepass"), text.encode("utf-8", "surrogateescape")}
    try:
        return found | {text.encode("latin-1")}
    except UnicodeEncodeError:
        return found
