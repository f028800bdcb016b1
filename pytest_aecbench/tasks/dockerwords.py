"""Words and variables as Dockerfile instructions write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["expand", "split_words"]

_VARIABLE = r"\$(?:(?P<bare>\w+)|\{(?P<name>\w+)(?::?(?P<sign>[-+])(?P<word>[^}]*))?\})"
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | \\(?P<escaped>.)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:\\.|[^"\\])*)"
    | (?P<open>['"])
    | (?P<plain>(?:\$\{[^}]*\}|[^\s\\'"])+|\\)""",
    re.VERBOSE | re.DOTALL,
)


def split_words(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the words of ``text``, unquoted and with ``variables`` put in.

    A quote that is not closed is a ValueError.
    """
    return [word for word in _lex(text, variables) if word is not None]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return ``text`` as one word, its spaces kept."""
    return "".join(word for word in _lex(text, variables, splitting=False) if word is not None)


def _lex(text: str, variables: Mapping[str, str], *, splitting: bool = True) -> list[str | None]:
    words: list[str | None] = [None]
    for token in _TOKEN.finditer(text):
        kind, piece = token.lastgroup, token[token.lastgroup or 0]
        if kind == "open":
            raise ValueError(f"a quote is not closed in {text!r}")
        if kind == "space" and splitting:
            words.append(None)
            continue
        if kind == "double":
            piece = _substitute(piece, variables, escapes=r'\\(?P<escaped>["\\$])|')
        elif kind == "plain":
            piece = _substitute(piece, variables)
        words[-1] = (words[-1] or "") + piece
    return words


def _substitute(text: str, variables: Mapping[str, str], escapes: str = "") -> str:
    def value(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("escaped"):
            return str(groups["escaped"])
        found = variables.get(groups["bare"] or groups["name"], "")
        if groups["sign"] == "+":
            return _substitute(groups["word"], variables) if found else ""
        return found or _substitute(groups["word"] or "", variables)

    return re.sub(escapes + _VARIABLE, value, text)
