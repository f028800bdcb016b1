"""Removal of what dead runs left, in a thread beside the run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_aecbench.errors import AecBenchError
from pytest_aecbench.host.homes import abandoned_homes, remove_tree
from pytest_aecbench.host.limits import exhausted_limit
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from pytest_aecbench.backends import ComputeBackend

__all__ = ["Reaping"]

_LIMIT_SEC = 10.0
_SHOWN = 3


class Reaping:
    """One removal of what dead runs left, in a thread of its own.

    A sandbox that cannot be ended may keep an engine or a vendor waiting for minutes.
    """

    def __init__(self, backend: ComputeBackend | None, name: str) -> None:
        self._backend = backend
        self._name = name
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="aec-reap", daemon=True)

    def start(self) -> None:
        """Begin, and return at once."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._problem = exhausted_limit(error) or str(error)

    def wait(self) -> list[str]:
        """Wait for the end, but not for long; return a line for each thing that is left."""
        if self._thread.ident is not None:  # else it could not be started
            self._thread.join(_LIMIT_SEC)
        if self._thread.is_alive():
            slow = f"is not removed after {_LIMIT_SEC:.0f} s; run aec-bench reap"
            return [f"{self._name}: what dead runs left {slow}"]
        if self._problem:
            return [f"what dead runs left cannot be removed; {self._problem}"]
        left: list[str] = getattr(self._backend, "left_alone", [])
        return [f"{self._name}: {left_alone(left)}"] if left else []

    def _run(self) -> None:
        for home in abandoned_homes("check"):
            remove_tree(home)
        try:
            if reap := getattr(self._backend, "reap", None):
                reap()
        except AecBenchError as error:
            self._problem = str(error)
        except Exception as error:  # noqa: BLE001  (a backend of the project's own may raise any)
            self._problem = f"{self._name}: {one_line(error)}"


def left_alone(names: list[str]) -> str:
    """Return one line about resources whose owner cannot be proved dead."""
    shown = ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])
    return (
        f"left {len(names)} alone whose run may be alive in another container, "
        f"on another machine, or before this boot: {shown}"
    )
