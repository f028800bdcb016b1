"""The backend ``e2b``: run trials in sandboxes of E2B."""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from json import JSONDecodeError
from typing import IO, TYPE_CHECKING, Any

# The SDK reads it when it is imported; hundreds of trials may each have a connection.
os.environ.setdefault("E2B_MAX_CONNECTIONS", "1000")

import e2b
import httpx
from e2b.exceptions import (
    AuthenticationException,
    BuildException,
    NotEnoughSpaceException,
    RateLimitException,
    SandboxNotFoundException,
    SandboxNotRunningException,
    ServiceBusyException,
    TimeoutException,
)

from pytest_aecbench.backends.remote import RemoteBackend, Rented
from pytest_aecbench.backends.remote.build import BuildLog, built_once
from pytest_aecbench.backends.remote.calls import Busy, Full, Lost
from pytest_aecbench.backends.remote.options import read_options
from pytest_aecbench.backends.shared.launch import missing_image
from pytest_aecbench.backends.shared.sandboxes import Sandboxes
from pytest_aecbench.errors import BackendError, LaunchError, SandboxGone, SettingsError
from pytest_aecbench.host.owner import PID_LABEL
from pytest_aecbench.tasks.digest import context_digest
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_aecbench.backends import Limits
    from pytest_aecbench.backends.remote import Environment

__all__ = ["E2BBackend", "E2BVendor"]

OPTIONS = {
    "api_key": str,
    "api_url": str,
    "domain": str,
    "max_lifetime_sec": int,
    "sandbox_url": str,
}
_HOUR = 3600
_PAGE = 100
_CONNECTION = ("api_key", "api_url", "domain", "sandbox_url")


class E2BVendor:
    """E2B's SDK; ``options`` are those of ``compute.e2b``, before its own variables."""

    name = "e2b"
    concurrency = 20
    has_own_disk = True

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        found = read_options(self.name, options or {}, OPTIONS)
        self._max_lifetime_sec: int = found.get("max_lifetime_sec", _HOUR)
        self._has_key = bool(found.get("api_key") or os.environ.get("E2B_API_KEY"))
        # Our own retries last longer than the SDK's, and repeat only calls that are safe to repeat.
        connection: dict[str, Any] = {key: found[key] for key in _CONNECTION if key in found}
        self._client = e2b.E2B(**connection, **_no_retries())
        self._sandboxes: Sandboxes[Any] = Sandboxes(self.name)
        self._sizes: dict[str, tuple[int | None, int | None]] = {}

    def check(self) -> str:
        """Check the account by asking for one of its sandboxes; return the SDK's version."""
        self._require_key()
        with _translated("the account"):
            self._client.Sandbox.list(limit=1).next_items()
        return f"e2b (SDK {version('e2b')})"

    def _require_key(self) -> None:
        if not self._has_key:
            raise SettingsError(
                "E2B_API_KEY is not set; create a key at https://e2b.dev/dashboard and export it"
            )

    def refusal(self, limits: Limits) -> str | None:
        """Return an error for GPUs, and for a lifetime that the account's plan does not allow."""
        if limits.gpus:
            return "e2b has no GPUs; use docker or modal"
        if (limits.lifetime_sec or 0) > self._max_lifetime_sec:
            return (
                f"a sandbox lives {self._max_lifetime_sec} s at most, and the trial may need "
                f"{limits.lifetime_sec:.0f}; lower its timeouts, or set "
                "compute.e2b.max_lifetime_sec to your plan's limit (Pro: 86400)"
            )
        return None

    def unenforced(self) -> tuple[str, ...]:
        """Return the disk's size, because E2B has one size per plan."""
        return ("storage",)

    def build(self, environment: Environment) -> str:
        """Build a template, named after its content."""
        cpus = None if environment.cpus is None else math.ceil(environment.cpus)
        memory_mb = environment.memory_mb
        if memory_mb is not None:
            memory_mb += memory_mb % 2  # E2B refuses odd numbers
        source = environment.docker_image or context_digest(environment.context)
        digest = sha256(f"{source}\0{cpus}\0{memory_mb}\0{environment.workdir}".encode())
        name = f"aecbench-{digest.hexdigest()[:20]}"
        self._sizes[name] = (cpus, memory_mb)

        def exists() -> bool:
            with _translated(f"looking for the template {name}"):
                return bool(self._client.Template.exists(name))

        def build(log: BuildLog) -> None:
            template = e2b.Template(file_context_path=environment.context)
            try:
                if environment.docker_image:
                    built = template.from_image(environment.docker_image)
                else:
                    built = template.from_dockerfile(str(environment.context / "Dockerfile"))
                # Without these two, E2B's defaults differ from Docker's.
                built = built.set_user("root").set_workdir(str(environment.workdir))
                with _translated(f"building {name}"):
                    self._client.Template.build(
                        built,
                        name,
                        cpu_count=cpus,
                        memory_mb=memory_mb,
                        on_build_logs=lambda entry: log.add(entry.message),
                    )
            except (BuildException, ValueError) as error:
                raise log.failed(str(error)) from None

        return built_once(self.name, name, environment, exists, build)

    def create(
        self, image_ref: str, limits: Limits, labels: Mapping[str, str], lifetime_sec: int
    ) -> str:
        """Start a sandbox of a template."""
        built_for = self._sizes.get(image_ref, (None, None))
        requested = (None if limits.cpus is None else math.ceil(limits.cpus), limits.memory_mb)
        for what, given, asked in zip(("cpus", "memory_mb"), built_for, requested, strict=True):
            if asked is not None and given is not None and asked > given:
                raise LaunchError(
                    f"e2b: {what} belongs to the template, which has {given}; "
                    f"set it to {asked} in the task's [environment]"
                )
        with _translated(f"starting {image_ref}"):
            try:
                sandbox = self._client.Sandbox.create(
                    image_ref,
                    timeout=lifetime_sec,
                    metadata=dict(labels),
                    allow_internet_access=limits.network,
                )
            except e2b.SandboxException as error:
                if error.status_code in (400, 404) and "template" in str(error).lower():
                    raise missing_image(self.name, image_ref, "template") from None
                raise
        self._sandboxes[sandbox.sandbox_id] = sandbox
        return str(sandbox.sandbox_id)

    def run(self, sandbox_id: str, command: str, timeout_sec: float) -> str:
        """Run a command as root."""
        with _translated("a command", dispatched=True):
            try:
                done = self._sandboxes[sandbox_id].commands.run(
                    command, user="root", cwd="/", timeout=timeout_sec
                )
            except e2b.CommandExitException as error:
                return f"{error.stdout}\n{error.stderr}"
        return f"{done.stdout}\n{done.stderr}"

    def write(self, sandbox_id: str, path: str, file: IO[bytes]) -> None:
        """Write a file as root."""
        with _translated("an upload", dispatched=True):
            self._sandboxes[sandbox_id].files.write(path, file, user="root")

    def read(self, sandbox_id: str, path: str) -> Iterable[bytes]:
        """Yield a file's content, read as root."""
        with _translated("a download", dispatched=True):
            try:
                yield from self._sandboxes[sandbox_id].files.read(
                    path, format="stream", user="root"
                )
            except e2b.FileNotFoundException:
                raise FileNotFoundError(path) from None

    def is_running(self, sandbox_id: str) -> bool:
        """Return whether the sandbox itself answers."""
        with _translated("looking for a sandbox"):
            try:
                return bool(self._sandboxes[sandbox_id].is_running())
            except (SandboxNotFoundException, SandboxNotRunningException, SandboxGone):
                return False

    def kill(self, sandbox_id: str) -> None:
        """End a sandbox."""
        self._sandboxes.pop(sandbox_id, None)
        with _translated("the end of a sandbox"):
            self._client.Sandbox.kill(sandbox_id)

    def rented(self) -> Iterable[Rented]:
        """Return the account's sandboxes that have our labels."""
        self._require_key()
        found = []
        with _translated("listing sandboxes"):
            pages = self._client.Sandbox.list(limit=_PAGE)
            while pages.has_next:
                found += pages.next_items()
        return [Rented(one.sandbox_id, one.metadata) for one in found if PID_LABEL in one.metadata]


class E2BBackend(RemoteBackend):
    """Runs trials in sandboxes of E2B."""

    make_vendor = E2BVendor
    thread_safe = True


def _no_retries() -> dict[str, Any]:
    """Return the option that turns off retries; older versions of the SDK have none."""
    return {"retries": 0} if "retries" in e2b.ApiParams.__annotations__ else {}


@contextmanager
def _translated(what: str, *, dispatched: bool = False) -> Iterator[None]:
    """Raise E2B's errors as ours; ``dispatched`` says that the call may have had its effect."""
    try:
        yield
    except AuthenticationException as error:
        raise SettingsError(f"E2B_API_KEY is refused; {one_line(error)}") from None
    except (RateLimitException, ServiceBusyException) as error:
        raise Busy(f"e2b: {what}: {one_line(error)}") from None
    except (SandboxNotFoundException, SandboxNotRunningException) as error:
        raise SandboxGone(f"e2b: the sandbox is gone; {one_line(error)}") from None
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise Busy(f"e2b cannot be reached; {one_line(error)}") from None
    except (httpx.TransportError, TimeoutException) as error:
        raise Lost(f"e2b: {what}: {one_line(error)}") from None
    except NotEnoughSpaceException as error:
        raise Full(f"e2b: {what}: {one_line(error)}") from None
    except e2b.InvalidArgumentException as error:  # a repeated call would be refused as well
        raise BackendError(f"e2b: {what}: {one_line(error)}") from None
    except e2b.SandboxException as error:
        kind = Lost if (error.status_code or 0) >= 500 or dispatched else BackendError
        raise kind(f"e2b: {what}: {one_line(error)}") from None
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError, JSONDecodeError) as error:  # transport errors, HTML pages
        raise Lost(f"e2b: {what}: {one_line(error)}") from None
