"""Foreign text as a page shows it: without terminal codes, and with every hidden character seen."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

__all__ = ["shown", "shown_in"]

# Commands of terminals: CSI, OSC with its text, and two-character sequences.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_KEPT = {"\n", "\t"}


def shown(text: str) -> str:
    r"""Return the text without terminal codes; other hidden characters are shown as ``\u202e``."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    return "".join(char if _is_plain(char) else _escaped(char) for char in text)


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in _KEPT or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown_in(value: Any) -> Any:
    """Return JSON-like data whose texts, keys included, are as ``shown`` returns them."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {shown(str(key)): shown_in(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown_in(item) for item in value]
    return value
