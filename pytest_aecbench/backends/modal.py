"""The backend ``modal``: run trials in sandboxes of Modal."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import warnings
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pytest_aecbench.backends.remote import RemoteBackend, Rented
from pytest_aecbench.backends.remote.build import BuildLog, built_once
from pytest_aecbench.backends.remote.calls import Busy, Full, Lost, says_full
from pytest_aecbench.backends.remote.options import read_options
from pytest_aecbench.backends.shared.launch import missing_image
from pytest_aecbench.backends.shared.sandboxes import Sandboxes
from pytest_aecbench.errors import BackendError, SandboxGone, SettingsError
from pytest_aecbench.tasks.digest import context_digest
from pytest_aecbench.text import one_line

# On Python 3.10, Modal warns at import that its next version drops it, which would end a run with
# ``-W error``. The filter stays, because threads that put filters back undo one another's.
warnings.filterwarnings("ignore", ".*Python 3.10 is EOL and Modal")

import modal  # noqa: E402
from modal import exception  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_aecbench.backends import Limits
    from pytest_aecbench.backends.remote import Environment

__all__ = ["ModalBackend", "ModalVendor"]

OPTIONS = {
    "app": str,
    "cloud": str,
    "environment": str,
    "gpu": str,
    "region": str,
    "secrets": list,
    "timeout_sec": int,
    "token_id": str,
    "token_secret": str,
}
_APP = "aecbench"
_CHUNK = 1024 * 1024


class ModalVendor:
    """Modal's SDK; ``options`` are those of ``compute.modal``."""

    name = "modal"
    concurrency = 32
    has_own_disk = False  # it shares its worker's

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._options = read_options(self.name, options or {}, OPTIONS)
        self._images: dict[str, str] = {}
        self._sandboxes: Sandboxes[Any] = Sandboxes(self.name)

    @cached_property
    def _client(self) -> Any:
        token_id, secret = (self._options.get(key) for key in ("token_id", "token_secret"))
        if not (token_id or secret):
            _check_credentials()
        with _translated("the account"):
            if token_id and secret:
                return modal.Client.from_credentials(token_id, secret)
            return modal.Client.from_env()

    @cached_property
    def _app(self) -> Any:
        """The app that all sandboxes belong to, by which they are found again."""
        with _translated("the account"):
            return modal.App.lookup(
                self._options.get("app", _APP),
                client=self._client,
                environment_name=self._options.get("environment"),
                create_if_missing=True,
            )

    def check(self) -> str:
        """Find or create the app; return the SDK's version."""
        environment = self._options.get("environment")
        self._app  # noqa: B018  (asks for it)
        shown = f", environment {environment}" if environment else ""
        return f"modal (SDK {version('modal')}{shown})"

    def refusal(self, limits: Limits) -> str | None:
        """Return an error for GPUs of no type, and for a lifetime over what the options allow."""
        if limits.gpus and "gpu" not in self._options:
            return "compute.modal.gpu is not set; name a type of GPU there, such as 'T4'"
        most = self._options.get("timeout_sec")
        if most is not None and (limits.lifetime_sec or 0) > most:
            return (
                f"compute.modal.timeout_sec is {most}, and the trial may need "
                f"{limits.lifetime_sec:.0f}; raise it, or lower the trial's timeouts"
            )
        return None

    def unenforced(self) -> tuple[str, ...]:
        """Return the disk's size, because a sandbox shares its worker's disk."""
        return ("storage",)

    def build(self, environment: Environment) -> str:
        """Build an image, which Modal caches by content."""
        key = environment.docker_image or context_digest(environment.context)
        key += f"\0{environment.workdir}"

        def build(log: BuildLog) -> None:
            try:
                image = (
                    modal.Image.from_registry(environment.docker_image)
                    if environment.docker_image
                    else modal.Image.from_dockerfile(
                        environment.context / "Dockerfile", context_dir=environment.context
                    )
                )
                with _translated("building an image"):
                    self._images[key] = str(image.entrypoint([]).build(self._app).object_id)
            except (exception.ImageBuildError, exception.InvalidError, OSError) as error:
                raise log.failed(str(error)) from None

        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        built_once(self.name, name, environment, lambda: key in self._images, build)
        return self._images[key]

    def create(
        self, image_ref: str, limits: Limits, labels: Mapping[str, str], lifetime_sec: int
    ) -> str:
        """Start a sandbox of an image."""
        secrets = [
            modal.Secret.from_name(name, environment_name=self._options.get("environment"))
            for name in self._options.get("secrets", ())
        ]
        chosen = {
            key: self._options[key] for key in ("cloud", "gpu", "region") if key in self._options
        }
        if limits.gpus:
            chosen["gpu"] = f"{chosen['gpu'].partition(':')[0]}:{limits.gpus}"
        with _translated(f"starting {image_ref}"):
            try:
                image = modal.Image.from_id(image_ref, client=self._client)
                sandbox = modal.Sandbox.create(
                    "sleep",
                    "infinity",
                    app=self._app,
                    client=self._client,
                    image=image,
                    # As a limit, not as a reservation, because a task states its maximum.
                    cpu=None if limits.cpus is None else (min(limits.cpus, 0.125), limits.cpus),
                    memory=None if limits.memory_mb is None else (128, limits.memory_mb),
                    block_network=not limits.network,
                    secrets=secrets,
                    tags=dict(labels),
                    timeout=lifetime_sec,
                    **chosen,
                )
            except exception.NotFoundError:
                self._images = {key: ref for key, ref in self._images.items() if ref != image_ref}
                raise missing_image(self.name, image_ref) from None
        self._sandboxes[sandbox.object_id] = sandbox
        return str(sandbox.object_id)

    @contextmanager
    def _dispatched(self, sandbox_id: str, what: str) -> Iterator[None]:
        """Raise the errors of a call to a sandbox as ours; it may have had its effect.

        The SDK reports a sandbox that does not answer as gone, so the control plane is asked.
        """
        try:
            with _translated(what, dispatched=True):
                yield
        except SandboxGone as error:
            try:
                is_running = self.is_running(sandbox_id)
            except Busy as busy:
                raise Lost(str(busy)) from None
            if is_running:
                raise Lost(str(error)) from None
            raise

    def run(self, sandbox_id: str, command: str, timeout_sec: float) -> str:
        """Run a command as root."""
        with self._dispatched(sandbox_id, "a command"):
            # Output is read as bytes, because invalid UTF-8 would end a text stream.
            process = self._sandboxes[sandbox_id].exec(
                "bash", "-c", command, timeout=int(timeout_sec), workdir="/", text=False
            )
            shown = process.stdout.read() + process.stderr.read()
            process.wait()
        return bytes(shown).decode("utf-8", "replace")

    def write(self, sandbox_id: str, path: str, file: IO[bytes]) -> None:
        """Write a file."""
        with tempfile.NamedTemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            with self._dispatched(sandbox_id, "an upload"):
                self._sandboxes[sandbox_id].filesystem.copy_from_local(copy.name, path)

    def read(self, sandbox_id: str, path: str) -> Iterable[bytes]:
        """Yield a file's content."""
        with tempfile.TemporaryDirectory() as directory:
            local = Path(directory) / "file"
            with self._dispatched(sandbox_id, "a download"):
                try:
                    self._sandboxes[sandbox_id].filesystem.copy_to_local(path, local)
                except exception.SandboxFilesystemNotFoundError:
                    raise FileNotFoundError(path) from None
            with local.open("rb") as file:
                yield from iter(lambda: file.read(_CHUNK), b"")

    def is_running(self, sandbox_id: str) -> bool:
        """Return whether the control plane has the sandbox as running."""
        with _translated("looking for a sandbox"):
            try:
                return self._sandboxes[sandbox_id].poll() is None
            except (exception.NotFoundError, SandboxGone):
                return False

    def kill(self, sandbox_id: str) -> None:
        """End a sandbox."""
        sandbox = self._sandboxes.pop(sandbox_id, None)
        with _translated("the end of a sandbox"):
            try:
                found = sandbox or modal.Sandbox.from_id(sandbox_id, client=self._client)
                found.terminate()
                found.detach()  # close its connection
            except exception.NotFoundError:
                return

    def rented(self) -> Iterable[Rented]:
        """Return the app's sandboxes, all of which are ours."""
        with _translated("listing sandboxes"):
            # The public list leaves out sandboxes of the second generation.
            found = modal.Sandbox._experimental_list(app_id=self._app.app_id, client=self._client)
            return [Rented(one.object_id, one.get_tags()) for one in found]


class ModalBackend(RemoteBackend):
    """Runs trials in sandboxes of Modal."""

    make_vendor = ModalVendor
    thread_safe = True


def _check_credentials() -> None:
    if os.environ.get("MODAL_TOKEN_ID") and not os.environ.get("MODAL_TOKEN_SECRET"):
        raise SettingsError("MODAL_TOKEN_SECRET is not set; MODAL_TOKEN_ID alone is not enough")
    from modal.config import config

    if not (config.get("token_id") and config.get("token_secret")):
        raise SettingsError(
            "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET are not set; run 'modal token new', "
            "or create a token at https://modal.com/settings/tokens and export both"
        )


@contextmanager
def _translated(what: str, *, dispatched: bool = False) -> Iterator[None]:
    """Raise Modal's errors as ours; ``dispatched`` says that the call may have had its effect."""
    try:
        yield
    except (exception.AuthError, exception.PermissionDeniedError) as error:
        raise SettingsError(
            f"MODAL_TOKEN_ID or MODAL_TOKEN_SECRET is refused; {one_line(error)}"
        ) from None
    except exception.ResourceExhaustedError as error:
        raise Busy(f"modal: {what}: {one_line(error)}") from None
    except (
        exception.NotFoundError,
        exception.SandboxTerminatedError,
        exception.SandboxTimeoutError,
    ) as error:
        raise SandboxGone(f"modal: the sandbox is gone; {one_line(error)}") from None
    except exception.ServiceError as error:
        raise (Lost if dispatched else Busy)(f"modal: {what}: {one_line(error)}") from None
    except (
        exception.ConnectionError,
        exception.InternalError,
        exception.SandboxFilesystemError,  # also raised for lost connections
        exception.TimeoutError,
        ConnectionError,
        TimeoutError,
    ) as error:
        kind = Full if says_full(str(error)) else Lost
        raise kind(f"modal: {what}: {one_line(error)}") from None
    except exception.ImageBuildError:
        raise
    except exception.Error as error:
        raise BackendError(f"modal: {what}: {one_line(error)}") from None
