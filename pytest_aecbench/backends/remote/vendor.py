"""The calls of a vendor's SDK, as the shared code makes them."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_aecbench.backends import Limits
    from pytest_aecbench.backends.remote.environment import Environment

__all__ = ["Rented", "Vendor"]


class Rented(NamedTuple):
    """A sandbox in its vendor's list."""

    sandbox_id: str
    labels: Mapping[str, str]


class Vendor(Protocol):
    """The calls of a vendor's SDK that a backend needs.

    They raise our errors: ``Busy`` if the call had no effect and may be repeated, ``Lost`` if its
    effect is unknown, ``Full`` if the sandbox's disk is, SandboxGone, SettingsError for a missing
    or refused key, and the others. ``has_own_disk`` says that only what runs in a sandbox can fill
    its disk.
    """

    name: str
    concurrency: int
    has_own_disk: bool

    def check(self) -> str:
        """Return a description; raise SettingsError or LaunchError if nothing can be rented."""
        ...

    def refusal(self, limits: Limits) -> str | None:
        """Return why the vendor refuses a sandbox with these limits, or None."""
        ...

    def unenforced(self) -> tuple[str, ...]:
        """Return the names of limits that the vendor does not enforce."""
        ...

    def build(self, environment: Environment) -> str:
        """Build an image, or find it; return its reference."""
        ...

    def create(
        self, image_ref: str, limits: Limits, labels: Mapping[str, str], lifetime_sec: int
    ) -> str:
        """Start a sandbox with the labels that ends by itself; return its id."""
        ...

    def run(self, sandbox_id: str, command: str, timeout_sec: float) -> str:
        """Run a shell command as root; return its output, whatever its exit code."""
        ...

    def write(self, sandbox_id: str, path: str, file: IO[bytes]) -> None:
        """Write a file."""
        ...

    def read(self, sandbox_id: str, path: str) -> Iterable[bytes]:
        """Yield a file's content; raise FileNotFoundError if there is no such file."""
        ...

    def is_running(self, sandbox_id: str) -> bool:
        """Return whether the sandbox still runs."""
        ...

    def kill(self, sandbox_id: str) -> None:
        """End a sandbox; do nothing if it is gone."""
        ...

    def rented(self) -> Iterable[Rented]:
        """Return the sandboxes with our labels."""
        ...
