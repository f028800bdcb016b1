"""Remove the containers, networks and volumes of trials, at their end or once their run died."""

from __future__ import annotations

import re
import time
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from docker.errors import APIError, NotFound

from pytest_aecbench.backends.docker.engine import translated
from pytest_aecbench.backends.docker.kill import LIFETIME_LABEL, insist
from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.owner import LABEL_PREFIX, PID_LABEL, is_abandoned, is_out_of_sight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "KEPT_PREFIX",
    "PROJECT_LABEL",
    "Reaped",
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


class Reaped(NamedTuple):
    """The names of what was removed, and of what has an owner that cannot be proved dead."""

    removed: list[str]
    left_alone: list[str]


def reap(api: Any, impatient: Any, *, dry_run: bool, run_id: str = "") -> Reaped:
    """Remove every container, network and volume of ours whose owner is dead, this run's first.

    Raises:
        BackendError: some cannot be removed; the others are.

    """
    with translated(BackendError, "listing containers"):
        containers = api.containers(all=True, filters={"label": PID_LABEL})
    found, kept, failures, clock = Reaped([], []), set(), [], _Clock(api)
    containers.sort(key=lambda one: one["Labels"].get(f"{LABEL_PREFIX}run") != run_id)
    for container in containers:
        name = (container["Names"] or [container["Id"][:12]])[0].lstrip("/")
        labels = container["Labels"]
        if name.startswith(KEPT_PREFIX):
            kept.add(labels.get(PROJECT_LABEL))
        elif clock.is_abandoned(labels, container["Created"]):
            try:
                if not dry_run:
                    remove(api, impatient, container["Id"])
                found.removed.append(name)
            except BackendError as error:
                failures.append(str(error))
        elif is_out_of_sight(labels):
            found.left_alone.append(name)
    for one, drop in _networks_and_volumes(api, PID_LABEL):
        name, labels = one["Name"], one["Labels"]
        created = _seconds(one.get("Created") or one.get("CreatedAt"))
        if not clock.is_abandoned(labels, created) or labels[PROJECT_LABEL] in kept:
            continue
        # A resource that a container made since then uses stays until the next time.
        if dry_run or _is_dropped(name, drop):
            found.removed.append(name)
    if failures:
        raise BackendError("; ".join(failures))
    return Reaped(sorted(found.removed), sorted(found.left_alone))


class _Clock:
    """The engine's clock, by which resources grow old; those of its clients may differ."""

    def __init__(self, api: Any) -> None:
        self._api = api

    @cached_property
    def _now(self) -> float | None:
        with translated(BackendError, "the engine"):
            return _seconds(self._api.info().get("SystemTime"))

    def is_abandoned(self, labels: Mapping[str, str], created: float | None) -> bool:
        """Return whether the owner of a resource is known dead, or its lifetime is over."""
        lifetime = labels.get(LIFETIME_LABEL, "")
        if not is_out_of_sight(labels) or created is None or not lifetime.isdecimal():
            return is_abandoned(labels)
        is_overdue = self._now is not None and self._now - created > int(lifetime)
        return is_abandoned(labels, is_overdue=is_overdue)


def _seconds(moment: str | None) -> float | None:
    """Return the seconds since 1970 of a moment as the engine writes it, if it can be read."""
    # Nanoseconds are more than Python reads; whole seconds are enough here.
    text = re.sub(r"\.[0-9]+", "", moment or "").replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def containers_of(api: Any, project: str) -> list[dict[str, Any]]:
    """Return the containers of a trial's services."""
    with translated(BackendError, "listing containers"):
        found = api.containers(all=True, filters={"label": f"{PROJECT_LABEL}={project}"})
    return list(found)


def remove_project(api: Any, impatient: Any, project: str) -> None:
    """Remove a trial's services with their networks and volumes."""
    for container in containers_of(api, project):
        remove(api, impatient, container["Id"])
    for one, drop in _networks_and_volumes(api, f"{PROJECT_LABEL}={project}"):
        if not _is_dropped(one["Name"], drop):
            raise BackendError(f"docker: removing {one['Name']}: it is still in use")


def _networks_and_volumes(
    api: Any, label: str
) -> list[tuple[dict[str, Any], Callable[[str], None]]]:
    with translated(BackendError, "listing networks and volumes"):
        networks = api.networks(filters={"label": label})
        volumes = api.volumes(filters={"label": label})["Volumes"] or []
    return [
        *((one, api.remove_network) for one in networks),
        *((one, api.remove_volume) for one in volumes),
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
