"""Let Daytona's SDK send a build's files without TLS, the one thing that it cannot be told.

Also a pytest plugin, for runs in other processes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

__all__ = ["PROGRAM", "create_snapshot"]

ROOT = str(Path(__file__).parents[2])
# The program of pytest_aecbench.backends.daytona.snapshots, for servers on this machine too.
PROGRAM = [
    sys.executable,
    "-c",
    f"import sys; sys.path.append({ROOT!r}); import {__name__} as this; this.create_snapshot()",
]


def allow_http(store: Any) -> Any:
    """Return the SDK's client of an object store, for servers on this machine too."""

    def make(**options: Any) -> Any:
        options["client_options"] = {**options.get("client_options", {}), "allow_http": True}
        return store(**options)

    return make


def create_snapshot() -> None:
    """Do what the program does."""
    import daytona._sync.object_storage

    from pytest_aecbench.backends.daytona.snapshots import main

    storage: Any = daytona._sync.object_storage
    storage.S3Store = allow_http(storage.S3Store)
    main()


def pytest_configure() -> None:
    from pytest_aecbench.backends.daytona import snapshots

    snapshots.PROGRAM = PROGRAM
