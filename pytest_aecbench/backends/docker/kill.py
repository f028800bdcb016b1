"""End a container's processes, also where the engine cannot.

A process that an agent stops while it enters the container leaves the engine waiting for it, and
every call about that container waits too. Only the host's view of the processes helps then.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from docker.errors import NotFound

from pytest_aecbench.backends.docker.engine import TROUBLE, is_late
from pytest_aecbench.host.owner import LABEL_PREFIX, Owner

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["IMPATIENCE_SEC", "LIFETIME_LABEL", "insist"]

IMPATIENCE_SEC = 10
# How many seconds after its creation a container is needed no longer, by the engine's clock.
LIFETIME_LABEL = f"{LABEL_PREFIX}lifetime"
_HELPER_SEC = 60
# Kills the processes whose control group is that of a container ($1); builtins only.
_SCRIPT = r"""
for round in {1..3}; do
  for entry in /proc/[0-9]*; do
    group=
    IFS= read -rd '' group <"$entry/cgroup"
    [[ $group != *"$1"* ]] || kill -KILL "${entry#/proc/}"
  done
done 2>/dev/null
"""
_Answer = TypeVar("_Answer")


def insist(
    api: Any, container: str, call: Callable[[], _Answer], *, then: Callable[[], _Answer]
) -> _Answer:
    """Make a call about a container; if it takes too long, kill from outside and call ``then``."""
    try:
        return call()
    except TROUBLE as error:
        if not is_late(error):
            raise
    _kill_from_outside(api, container)
    return then()


def _kill_from_outside(api: Any, container: str) -> None:
    """Kill all processes of a container from another one that sees the host's processes."""
    key = "id" if len(container) == 64 else "name"
    for found in api.containers(all=True, filters={key: container}):
        options = api.create_host_config(
            pid_mode="host",
            userns_mode="host",
            network_mode="none",
            cap_drop=["ALL"],
            cap_add=["KILL"],
        )
        helper = api.create_container(
            found["ImageID"],
            ["-c", _SCRIPT, "bash", found["Id"]],
            entrypoint=["bash"],
            user="0",
            labels={**Owner.current().labels(), LIFETIME_LABEL: str(10 * _HELPER_SEC)},
            host_config=options,
        )["Id"]
        try:
            api.start(helper)
            api.wait(helper, timeout=_HELPER_SEC)
        finally:
            with suppress(NotFound, *TROUBLE):
                api.remove_container(helper, force=True)
