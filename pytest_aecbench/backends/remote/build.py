"""Images at a vendor: built once for each content, with the output of a failed build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filelock import FileLock

from pytest_aecbench.backends.remote.calls import bounded, retry
from pytest_aecbench.errors import BuildError
from pytest_aecbench.host.files import shared_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_aecbench.backends.remote.environment import Environment

__all__ = ["BuildLog", "built_once"]

_SHOWN_LINES = 12


class BuildLog:
    """The output of one build."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._lines: list[str] = []

    def add(self, text: str) -> None:
        """Add output of the builder."""
        self._lines += text.splitlines()

    def failed(self, reason: str) -> BuildError:
        """Return the error: one line, then the last lines of the build's output."""
        shown = "".join(f"\n  {line}" for line in self._lines[-_SHOWN_LINES:])
        return BuildError(f"{self._where}: the build failed; {' '.join(reason.split())}{shown}")


def built_once(
    vendor: str,
    name: str,
    environment: Environment,
    exists: Callable[[], bool],
    build: Callable[[BuildLog], None],
) -> str:
    """Build the image ``name`` unless it exists; only one process of this machine does so."""
    if retry(exists, on_lost=True):
        return name
    log = BuildLog(environment.context / "Dockerfile")
    with FileLock(shared_directory() / f"build-{vendor}-{name}.lock"):
        if not retry(exists, on_lost=True):
            retry(
                lambda: bounded(
                    lambda: build(log), environment.build_timeout_sec, f"{vendor}: building {name}"
                )
            )
    return name
