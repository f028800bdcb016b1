"""The Docker engine: connect to it, check it, and raise its errors as ours."""

from __future__ import annotations

import os
import shutil
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.utils import kwargs_from_env
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ConnectTimeout, ReadTimeout, RequestException
from urllib3.exceptions import HTTPError, ReadTimeoutError

from pytest_aecbench.backends.shared.archives import FULL
from pytest_aecbench.errors import (
    BackendError,
    BackendLost,
    BuildError,
    LaunchError,
    SandboxGone,
)
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "NO_GPUS",
    "TROUBLE",
    "answers",
    "can_limit_storage",
    "check",
    "check_room",
    "connect",
    "is_gone",
    "is_late",
    "is_lost",
    "offers_gpus",
    "summary",
    "translated",
]

# Engine 20.10, the oldest that the tests run on.
NO_GPUS = "this engine has none; install the NVIDIA Container Toolkit, or use another machine"
_OLDEST_API = (1, 41)
_LEAST_FREE = 1024**3
_TIMEOUT_SEC = 120
MOUNTS = Path("/proc/self/mounts")

TROUBLE = (DockerException, RequestException, HTTPError, OSError)


_CONNECTIONS = 200


def connect(version: str | None = None, timeout_sec: int = _TIMEOUT_SEC) -> Any:
    """Return a low-level client of the engine that the environment or the CLI's context names.

    It asks for the API's ``version`` unless that is given.
    """
    try:
        # A connection for each of many threads; the client would make more and not keep them.
        return docker.APIClient(
            **_address(), version=version, timeout=timeout_sec, max_pool_size=_CONNECTIONS
        )
    except TROUBLE as error:
        raise LaunchError(f"docker: {_unreachable(str(error))}") from None


def _address() -> dict[str, Any]:
    given = dict(kwargs_from_env())
    if not given and not os.environ.get("DOCKER_HOST"):
        context = docker.context.ContextAPI.get_current_context()
        if context is not None and context.Name != "default":
            return {"base_url": context.Host, "tls": context.TLSConfig}
    return given


def _unreachable(reason: str) -> str:
    if "Permission denied" in reason or "PermissionError" in reason:
        return "the engine's socket may not be opened; add yourself to the group docker"
    where = os.environ.get("DOCKER_HOST", "its usual place")
    return f"no engine answers at {where}; start Docker, or set DOCKER_HOST"


def check(api: Any) -> None:
    """Raise LaunchError if the engine is too old or its disk is full."""
    with translated(LaunchError, "the engine"):
        version, info = api.version(), api.info()
    found = str(version["ApiVersion"])
    if tuple(map(int, found.split("."))) < _OLDEST_API:
        least = ".".join(map(str, _OLDEST_API))
        raise LaunchError(f"docker: the engine's API is {found}; {least} or newer is needed")
    check_room(api, info, _LEAST_FREE)


def check_room(api: Any, info: Mapping[str, Any], needed: int) -> None:
    """Raise LaunchError if the engine's disk has less room; an engine elsewhere is not asked."""
    root = str(info.get("DockerRootDir") or "")
    if str(api.base_url).startswith("http+docker") and os.path.isdir(root):  # noqa: PTH112
        free = shutil.disk_usage(root).free
        if free < needed:
            raise LaunchError(
                f"docker: {free >> 20} MiB are free at {root}; {needed >> 20} MiB are needed"
            )


def summary(api: Any) -> str:
    """Return the engine's version and storage driver."""
    with translated(BackendError, "the engine"):
        return f"engine {api.version()['Version']}, {api.info()['Driver']}"


def can_limit_storage(info: Mapping[str, Any]) -> bool | None:
    """Return whether the engine can limit a container's size; None if this cannot be seen."""
    driver = info["Driver"]
    backing = dict(info.get("DriverStatus") or ()).get("Backing Filesystem")
    if driver != "overlay2" or backing != "xfs":
        return driver in ("btrfs", "zfs")
    root = Path(str(info.get("DockerRootDir") or "/")).resolve()
    try:
        lines = MOUNTS.read_text().splitlines()
    except OSError:
        return None
    # The nearest mount above the engine's files; of several at one path, the last one counts.
    above = [fields for fields in map(str.split, lines) if root.is_relative_to(fields[1])]
    _, _, kind, options, *_ = max(reversed(above), key=lambda fields: len(fields[1]))
    if kind != "xfs":
        return None  # the engine's files are on another machine
    return bool({"pquota", "prjquota"} & set(options.split(",")))


def offers_gpus(info: Mapping[str, Any]) -> bool:
    """Return whether the engine knows how to give containers GPUs."""
    devices = (str(one.get("ID", "")) for one in info.get("DiscoveredDevices") or ())
    return "nvidia" in (info.get("Runtimes") or {}) or any("gpu" in device for device in devices)


@contextmanager
def translated(kind: type[BackendError], what: str) -> Iterator[None]:
    """Raise the engine's errors as ours; a container that does not exist is SandboxGone.

    An engine that cannot be reached is BackendLost. An image is not to blame for an engine that
    fails, so that is not a BuildError.
    """
    try:
        yield
    except TROUBLE as error:
        if kind is not LaunchError and is_gone(error):
            raise SandboxGone(f"docker: {what}: the container is gone") from None
        if isinstance(error, OSError) and error.errno in FULL:
            raise  # the host's own disk
        if kind is not LaunchError and is_lost(error):
            kind = BackendLost
        elif kind is BuildError and _is_internal(error):
            kind = BackendError
        raise kind(f"docker: {what}: {one_line(error)}") from None


def is_lost(error: BaseException) -> bool:
    """Return whether the connection to the engine failed.

    No answer in time is something else: a hostile container can keep the engine waiting.
    """
    connection = (RequestException, HTTPError, ConnectionError)
    is_of_connection = isinstance(error, connection) and not isinstance(error, APIError)
    return is_of_connection and not is_late(error)


def is_late(error: BaseException) -> bool:
    """Return whether the engine was reached, but has not answered in time, or not to the end."""
    if isinstance(error, (ReadTimeout, ReadTimeoutError)):
        return True
    in_mid_answer = isinstance(error, NoConnection) and not isinstance(error, ConnectTimeout)
    return in_mid_answer and "timed out" in str(error)


def _is_internal(error: BaseException) -> bool:
    return isinstance(error, APIError) and bool(error.is_server_error())


def answers() -> bool:
    """Return whether there is an engine."""
    try:
        with closing(connect()) as api:
            return bool(api.ping())
    except (LaunchError, *TROUBLE):
        return False


def is_gone(error: BaseException) -> bool:
    """Return whether the engine says that a container does not exist or does not run."""
    text = str(getattr(error, "explanation", "") or error).lower()
    if isinstance(error, NotFound):
        return "no such container" in text or "no such exec" in text
    return isinstance(error, APIError) and "is not running" in text
