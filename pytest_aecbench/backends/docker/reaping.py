"""Remove the containers that dead runs left."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from docker.errors import NotFound

from pytest_aecbench.backends.docker.engine import translated
from pytest_aecbench.errors import BackendError
from pytest_aecbench.ownership import LABEL_PREFIX, Owner

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EXPIRES_LABEL", "KEPT_PREFIX", "reap", "remove"]

EXPIRES_LABEL = f"{LABEL_PREFIX}expires"
# A container that was kept for its user is renamed to this; it is the user's then.
KEPT_PREFIX = "aecbench-kept-"


def reap(api: Any, *, dry_run: bool) -> list[str]:
    """Remove every container of ours whose owner is dead; return their names."""
    with translated(BackendError, "listing containers"):
        found = api.containers(all=True, filters={"label": f"{LABEL_PREFIX}pid"})
    reaped = []
    for container in found:
        name = (container["Names"] or [container["Id"][:12]])[0].lstrip("/")
        if name.startswith(KEPT_PREFIX) or not _is_left(container["Labels"]):
            continue
        if not dry_run:
            remove(api, container["Id"])
        reaped.append(name)
    return sorted(reaped)


def _is_left(labels: Mapping[str, str]) -> bool:
    owner = Owner.from_labels(labels)
    if owner is None:
        return False
    if owner.host == socket.gethostname():
        return owner.is_dead()
    expires = labels.get(EXPIRES_LABEL, "")  # all that can be told from another host
    return expires.isdecimal() and int(expires) < time.time()


def remove(api: Any, container: str) -> None:
    """Remove a container at once, whatever it does; one that is no more is no error."""
    with translated(BackendError, f"removing {container[:12]}"):
        try:
            api.remove_container(container, v=True, force=True)
        except NotFound:
            pass
        except Exception as error:
            if "is already in progress" not in str(error):
                raise
