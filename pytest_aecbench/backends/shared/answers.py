"""Numbers in the answers of a sandbox's programs, which an agent may have replaced."""

from __future__ import annotations

from pytest_aecbench.errors import SandboxBroken

__all__ = ["EXIT_CODES", "check_number", "read_number"]

EXIT_CODES = 255
_MOST = 2**63 - 1  # of the kernel's sizes and times
_DIGITS = len(str(_MOST))


def read_number(word: str, backend: str, most: int = _MOST) -> int:
    """Return the number that ``word`` is; raise SandboxBroken if it is none up to ``most``."""
    if word.isascii() and word.isdecimal() and len(word) <= _DIGITS and int(word) <= most:
        return int(word)
    raise SandboxBroken(f"{backend}: the command's result is unreadable")


def check_number(word: str, backend: str) -> str:
    """Return ``word``, which scripts calculate with; raise SandboxBroken if it is not a number."""
    read_number(word, backend)
    return word
