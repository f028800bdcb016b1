"""The sandboxes that a process started, by their ids."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from pytest_aecbench.errors import SandboxGone

__all__ = ["Sandboxes"]

_T = TypeVar("_T")


class Sandboxes(dict[str, _T]):
    """A backend's sandboxes; an id that is missing raises SandboxGone.

    Errors show the first ``shown`` characters of an id, or all of them.
    """

    def __init__(self, backend: str, *, shown: int | None = None) -> None:
        super().__init__()
        self._backend = backend
        self._shown = shown

    def __missing__(self, sandbox_id: str) -> NoReturn:
        """Raise SandboxGone, because only a removed sandbox has no entry."""
        raise SandboxGone(f"{self._backend}: sandbox {sandbox_id[: self._shown]!r} was removed")
