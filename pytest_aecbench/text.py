"""Text for people: the nearest name, printable and shortened text, cut output, durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CUT",
    "both_ends",
    "counted",
    "did_you_mean",
    "duration_text",
    "encodable",
    "is_utf8",
    "joined_ends",
    "nearest",
    "one_line",
    "printable",
    "shortened",
]

# A regular expression for what ``both_ends`` and ``joined_ends`` put between head and tail.
CUT = r"\n\[\d+ (?:bytes|characters) left out\]\n"


def counted(n: int, noun: str, of: int | None = None) -> str:
    """Return a number of things, and of how many if it is not all of them."""
    total = n if of is None else of
    part = f"{n} of " if total != n else ""
    plural = f"{noun}es" if noun.endswith("x") else f"{noun}s"
    return f"{part}{total} {noun if total == 1 else plural}"


def is_utf8(name: str) -> bool:
    """Return whether a file's name can be part of an id."""
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


def nearest(name: str, valid: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the valid name that is probably meant."""
    import difflib  # slow to import, and needed only for mistakes

    near = difflib.get_close_matches(name, sorted(valid), n=1, cutoff=cutoff)
    return near[0] if near else None


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest valid one, or all of them."""
    valid = sorted(valid)
    near = nearest(name, valid)
    return f"did you mean {near!r}?" if near else f"use one of {', '.join(map(repr, valid))}"


def printable(value: object) -> str:
    """Return text that a terminal shows unchanged and on one line, whatever is in it."""
    return "".join(char if char.isprintable() else "\ufffd" for char in str(value))


def encodable(text: str) -> str:
    """Return text that UTF-8 can carry: JSON may hold halves of characters, which it cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def shortened(text: str, length: int) -> str:
    """Return at most ``length`` characters of the text, with dots for what is left out."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, or its class where it has none."""
    # docker-py keeps the engine's own words apart from those of the request.
    message = getattr(error, "explanation", None) or error
    return shortened(" ".join(str(message).split()), 1000) or type(error).__name__


def both_ends(text: str, length: int) -> str:
    """Return the two ends of a text that has more characters than ``length``."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def joined_ends(head: bytes | bytearray, tail: bytes | bytearray, left_out: int) -> str:
    """Return the two ends of an output, with how many bytes between them are left out."""
    first, last = (part.decode("utf-8", "replace") for part in (head, tail))
    return f"{first}\n[{left_out} bytes left out]\n{last}"


def duration_text(seconds: float) -> str:
    """Return a duration as it is shown: ``4.2 s``, ``3 min 05 s``, ``2 h 07 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
