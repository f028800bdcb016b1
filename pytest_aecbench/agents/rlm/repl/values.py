"""Values that cells see: texts without quotes, descriptions of variables, and exceptions."""

from __future__ import annotations

# So many calls may be asked for at once.
MOST_CALLS = 10_000
SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


class SubcallError(Exception):
    """A model that a cell asked gave no answer."""


class ParallelError(Exception):
    """The exception that one of the calls of ``parallel`` raised."""

    def __init__(self, index: int, error: BaseException) -> None:
        super().__init__(f"call {index}: {error!r}")
        self.index = index
        self.error = error


class Shown(str):
    """A text that a REPL shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def described(value: object) -> str:
    """Return the type of a value and, where it is cheap and safe to tell, its size."""
    name = type(value).__name__
    return f"{name}({len(value):,})" if type(value) in SIZED else name  # type: ignore[arg-type]
