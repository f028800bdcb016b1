"""Let Daytona's SDK send a build's files without TLS, the one thing that it cannot be told.

Also a pytest plugin, for runs in other processes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["allow_http"]


def allow_http(store: Any) -> Any:
    """Return the SDK's client of an object store, for servers on this machine too."""

    def make(**options: Any) -> Any:
        options["client_options"] = {**options.get("client_options", {}), "allow_http": True}
        return store(**options)

    return make


def pytest_configure() -> None:
    import daytona._sync.object_storage

    storage: Any = daytona._sync.object_storage
    storage.S3Store = allow_http(storage.S3Store)
