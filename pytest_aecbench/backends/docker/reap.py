"""Remove the containers, networks and volumes of trials, at their end or once their run died."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from pytest_aecbench.backends.docker.engine import translated
from pytest_aecbench.backends.docker.kill import insist
from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.owner import LABEL_PREFIX, is_abandoned

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "KEPT_PREFIX",
    "PROJECT_LABEL",
    "containers_of",
    "reap",
    "remove",
    "remove_project",
]

# All containers, networks and volumes of a trial of several services.
PROJECT_LABEL = f"{LABEL_PREFIX}project"
# A container that was kept for its user is renamed to this, and is never removed.
KEPT_PREFIX = "aecbench-kept-"
_RELEASE_SEC = 10.0


def reap(api: Any, impatient: Any, *, dry_run: bool) -> list[str]:
    """Remove every container, network and volume of ours whose owner is dead; return the names.

    Raises:
        BackendError: some cannot be removed; the others are.

    """
    label = f"{LABEL_PREFIX}pid"
    with translated(BackendError, "listing containers"):
        containers = api.containers(all=True, filters={"label": label})
    reaped, kept, failures = [], set(), []
    for container in containers:
        name = (container["Names"] or [container["Id"][:12]])[0].lstrip("/")
        if name.startswith(KEPT_PREFIX):
            kept.add(container["Labels"].get(PROJECT_LABEL))
        elif is_abandoned(container["Labels"]):
            try:
                if not dry_run:
                    remove(api, impatient, container["Id"])
                reaped.append(name)
            except BackendError as error:
                failures.append(str(error))
    for name, labels, drop in _networks_and_volumes(api, label):
        if not is_abandoned(labels) or labels[PROJECT_LABEL] in kept:
            continue
        # What a container uses that was made since the list was read is left to the next time.
        if dry_run or _is_dropped(name, drop):
            reaped.append(name)
    if failures:
        raise BackendError("; ".join(failures))
    return sorted(reaped)


def containers_of(api: Any, project: str) -> list[dict[str, Any]]:
    """Return the containers of a trial's services."""
    with translated(BackendError, "listing containers"):
        found = api.containers(all=True, filters={"label": f"{PROJECT_LABEL}={project}"})
    return list(found)


def remove_project(api: Any, impatient: Any, project: str) -> None:
    """Remove a trial's services with their networks and volumes."""
    for container in containers_of(api, project):
        remove(api, impatient, container["Id"])
    for name, _, drop in _networks_and_volumes(api, f"{PROJECT_LABEL}={project}"):
        if not _is_dropped(name, drop):
            raise BackendError(f"docker: removing {name}: it is still in use")


def _networks_and_volumes(
    api: Any, label: str
) -> list[tuple[str, dict[str, str], Callable[[str], None]]]:
    with translated(BackendError, "listing networks and volumes"):
        networks = api.networks(filters={"label": label})
        volumes = api.volumes(filters={"label": label})["Volumes"] or []
    return [
        *((one["Name"], one["Labels"], api.remove_network) for one in networks),
        *((one["Name"], one["Labels"], api.remove_volume) for one in volumes),
    ]


def _is_dropped(name: str, drop: Callable[[str], None]) -> bool:
    """Remove a network or volume as soon as its last container has released it.

    Return False if none has after a while.
    """
    deadline = time.monotonic() + _RELEASE_SEC
    with translated(BackendError, f"removing {name}"):
        while True:
            try:
                drop(name)
            except NotFound:
                return True
            except APIError as error:
                if "active endpoints" not in str(error) and "in use" not in str(error):
                    raise
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.1)
            else:
                return True


def remove(api: Any, impatient: Any, container: str) -> None:
    """Remove a container, even a running one; do nothing if it does not exist."""
    with translated(BackendError, f"removing {container[:12]}"):
        try:
            insist(
                api,
                container,
                lambda: impatient.remove_container(container, v=True, force=True),
                then=lambda: api.remove_container(container, v=True, force=True),
            )
        except NotFound:
            pass
        except Exception as error:
            if "is already in progress" not in str(error):
                raise
