"""The leases of viewers: which ledger each shows, where, and with which token.

A lease is readable by its user alone. One whose process is gone is stale and ignored.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.files import read_regular, shared_directory, whole
from pytest_aecbench.host.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Lease", "find_viewer", "viewers_directory"]

_MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Lease:
    """A viewer that runs: its ledger, its address without a path, and its token."""

    ledger_root: Path
    address: str
    token: str

    def write(self) -> Path:
        """Write the lease of this process and return its file."""
        path = viewers_directory() / f"{os.getpid()}.json"
        content = {
            **Owner.current().labels(),
            "ledger_root": os.path.realpath(self.ledger_root),
            "address": self.address,
            "token": self.token,
        }
        mask = os.umask(0o077)
        try:
            with whole(path, durable=False) as file:
                file.write(json.dumps(content).encode())
        except OSError as error:
            raise BackendError(f"{path}: cannot be written, {error.strerror}; set TMPDIR") from None
        finally:
            os.umask(mask)
        return path


def viewers_directory() -> Path:
    """Return the directory of leases, which only this user can enter."""
    return shared_directory("viewers")


def find_viewer(ledger_root: Path) -> Lease | None:
    """Return a viewer of this ledger whose process runs; None without one."""
    wanted = os.path.realpath(ledger_root)
    return next((one for one in _leases() if str(one.ledger_root) == wanted), None)


def _leases() -> Iterator[Lease]:
    for path in sorted(viewers_directory().glob("*.json")):
        # Gone meanwhile, torn, or not a lease at all.
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            found = json.loads(read_regular(path, _MAX_BYTES, follow=False))
            owner = Owner.from_labels(found)
            if owner is not None and owner.is_in_sight() and not owner.is_dead():
                root, address, token = (str(found[k]) for k in ("ledger_root", "address", "token"))
                yield Lease(Path(root), address, token)
