"""``DockerBackend``: the life of a trial's container."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from docker.errors import ImageNotFound

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    BackendExecutionResult,
    CollectedArtifacts,
    Limits,
    Mount,
    TrialHandle,
)
from pytest_aecbench.backends.docker.build import Builder
from pytest_aecbench.backends.docker.compose import (
    INSTALL,
    ComposedImage,
    compose_file,
    find_compose,
)
from pytest_aecbench.backends.docker.compose_file import MAIN
from pytest_aecbench.backends.docker.container import ROOT, Container
from pytest_aecbench.backends.docker.create import ContainerSpec, Starter, fill
from pytest_aecbench.backends.docker.engine import (
    NO_GPUS,
    can_limit_storage,
    check,
    check_room,
    connect,
    offers_gpus,
    summary,
    translated,
)
from pytest_aecbench.backends.docker.kill import IMPATIENCE_SEC
from pytest_aecbench.backends.docker.reap import (
    KEPT_PREFIX,
    containers_of,
    reap,
    remove,
    remove_project,
)
from pytest_aecbench.backends.shared.launch import check_workspace, launch_rebuilt, missing_image
from pytest_aecbench.backends.shared.paths import WORKSPACE
from pytest_aecbench.backends.shared.sandboxes import Sandboxes
from pytest_aecbench.errors import (
    BackendError,
    BackendLost,
    LaunchError,
    SandboxBroken,
    TaskError,
)
from pytest_aecbench.host.homes import abandoned_homes, make_home, remove_tree
from pytest_aecbench.host.owner import LABEL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_aecbench.settings.model import Settings

__all__ = ["DockerBackend"]

_LOGS = PurePosixPath("/logs")
_LEAST_ROOM = 128 * 1024**2  # on a disk with less, a trial's own files may be cut short
_ROOM_SEC = 60.0
_POLL_SEC = 0.5
_NO_ROOM = (
    "no space left on device",
    "available, non-overlapping IPv4 address pool",  # of engines before 27
    "predefined address pools have been fully subnetted",  # since then
)
_Made = TypeVar("_Made")


class _Sandbox(NamedTuple):
    container: Container
    name: str
    workspace_dir: Path
    home: Path
    storage_mb: int | None
    is_project: bool = False


class DockerBackend:
    """Runs trials in containers with ``labels``; ``keep_all`` leaves every container behind."""

    name = "docker"
    thread_safe = True
    takes_mounts = True
    starts_ahead = True  # an idle container costs next to nothing

    def __init__(
        self,
        *,
        labels: dict[str, str] | None = None,
        keep_all: bool = False,
        force_build: bool = False,
        run_id: str = "",
        mounts: Sequence[Mount] = (),
    ) -> None:
        all_labels = {f"{LABEL_PREFIX}run": run_id, **(labels or {})}
        self._run_id = run_id
        self.left_alone: list[str] = []  # by the last ``reap``
        self._keep_all = keep_all
        self._starter = Starter(lambda: self._api, all_labels, tuple(mounts))
        self._builder = Builder(lambda: self._api, force=force_build, run_id=run_id)
        self._images: dict[str, Any] = {}
        self._composed: dict[str, ComposedImage] = {}
        self._sources: dict[str, Path] = {}  # the tasks of images
        self._sandboxes: Sandboxes[_Sandbox] = Sandboxes(self.name, shown=12)
        self._kept: set[str] = set()
        self._unremoved: dict[str, bool] = {}  # names, and whether each is a compose project
        self._lock = threading.Lock()
        # The interpreter waits for these threads when it ends, so no removal is lost.
        self._removing = ThreadPoolExecutor(2, thread_name_prefix="aec-docker-remove")
        self._removals: set[Future[None]] = set()

    @classmethod
    def from_settings(cls, settings: Settings) -> DockerBackend:
        """Return the backend for a run's settings."""
        return cls(
            labels={f"{LABEL_PREFIX}experiment": settings.experiment_id},
            keep_all=settings.keep == "all",
            force_build=settings.force_build,
            run_id=settings.run_id,
            mounts=settings.mounts,
        )

    @cached_property
    def _api(self) -> Any:
        return connect()

    @cached_property
    def _impatient(self) -> Any:
        return connect(self._api.api_version, IMPATIENCE_SEC)

    def describe(self) -> str:
        """Return one line about the engine and the limits that it does not enforce."""
        storage = {True: "", False: "; no limit on storage", None: "; storage limited with quotas"}
        limited = can_limit_storage(self._starter.info)
        return f"docker ({summary(self._api)}{storage[limited]})"

    def preflight(self) -> None:
        """Raise LaunchError when the engine cannot be used."""
        check(self._api)

    def notes(self, image_ref: str) -> tuple[str, ...]:
        """Return the requested limits that the engine does not enforce, one line each."""
        if self._starter.limits_storage:
            return ()
        return ("storage_mb is not enforced by this engine",)

    def examine(self, task_dirs: Iterable[Path]) -> None:
        """Raise TaskError for a task that cannot be run on this machine."""
        for task_dir in task_dirs:
            if (path := compose_file(task_dir)).exists():
                if find_compose() is None:
                    raise TaskError(f"{path}: needs compose; {INSTALL}")
                return

    def refuse_gpus(self) -> str | None:
        """Return why the engine gives containers no GPUs, or None."""
        return None if offers_gpus(self._starter.info) else NO_GPUS

    def build_environment(self, *, task_dir: Path) -> str:
        """Build the image of the task's ``environment`` directory, unless it exists."""
        image_ref = self._with_room(partial(self._build, task_dir))
        self._sources[image_ref] = task_dir
        return image_ref

    def _build(self, task_dir: Path) -> str:
        if not compose_file(task_dir).exists():
            return self._builder.build_task(task_dir)
        composed = ComposedImage.make(task_dir, self._builder, self._starter.info)
        self._composed[composed.ref] = composed
        return composed.ref

    def user_of(self, image_ref: str) -> str:
        """Return the user of an image that was built here; an empty one is root."""
        composed = self._composed.get(image_ref)
        return self._image(composed.images[MAIN] if composed else image_ref)[0]

    def launch_trial(
        self, *, image_ref: str, workspace_dir: Path, limits: Limits | None = None
    ) -> TrialHandle:
        """Start a container; copy the contents of ``workspace_dir`` to its working directory."""
        check_workspace(self.name, workspace_dir)
        self._await_room()

        def launch(ref: str) -> TrialHandle:
            return self._with_room(partial(self._launch, ref, workspace_dir, limits or Limits()))

        task_dir = self._sources.get(image_ref)
        rebuild = partial(self.build_environment, task_dir=task_dir) if task_dir else None
        return launch_rebuilt(image_ref, launch, rebuild)

    def _await_room(self) -> None:
        """Wait for containers that are being removed, if the disk is full.

        Raises:
            LaunchError: it stays full.

        """
        deadline = time.monotonic() + _ROOM_SEC
        while True:
            try:
                return check_room(self._api, self._starter.info, _LEAST_ROOM)
            except LaunchError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_SEC)

    def _with_room(self, make: Callable[[], _Made]) -> _Made:
        """Call ``make``, and once more after pending removals if the engine had no room."""
        removals = list(self._removals)
        try:
            return make()
        except BackendError as error:
            if not removals or not any(message in str(error) for message in _NO_ROOM):
                raise
        wait(removals)
        return make()

    def _launch(self, image_ref: str, workspace_dir: Path, limits: Limits) -> TrialHandle:
        composed = self._composed.get(image_ref)
        user, workdir = self._composed_main(composed) if composed else self._image(image_ref)
        name = f"aecbench-{secrets.token_hex(6)}"
        # Each archive costs time; without files to send, the first command makes the directories.
        ready = bool(os.listdir(workspace_dir)) or user not in ROOT or workdir != WORKSPACE  # noqa: PTH208
        home = make_home(self.name)
        spec = ContainerSpec(name, workspace_dir.parent.name, workdir, limits)
        try:
            if composed:
                container_id = self._start_services(spec, composed, home)
            else:
                container_id = self._starter.create(spec, image_ref)
            if ready:
                fill(self._api, container_id, workspace_dir, workdir, user)
            if not composed:
                with translated(LaunchError, f"starting {image_ref}"):
                    self._api.start(container_id)
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            self._try_to_remove(name, bool(composed))
            self._unremoved[name] = bool(composed)  # the engine may still create it
            raise
        expires = None if limits.lifetime_sec is None else time.monotonic() + limits.lifetime_sec
        container = Container(
            self._api, self._impatient, container_id, workdir, user, ready, expires
        )
        sandbox = _Sandbox(container, name, workspace_dir, home, limits.storage_mb, bool(composed))
        with self._lock:
            self._sandboxes[container_id] = sandbox
        return TrialHandle(self.name, container_id)

    def _start_services(self, spec: ContainerSpec, composed: ComposedImage, home: Path) -> str:
        try:
            return self._starter.start_services(spec, composed, home)
        except LaunchError:
            for image in composed.images.values():  # the compose command says it in many ways
                self._inspect(image)
            raise

    def _composed_main(self, composed: ComposedImage) -> tuple[str, PurePosixPath]:
        """Return the user and working directory of the service that the agent works in."""
        user, workdir = self._image(composed.images[MAIN])
        given = composed.main.get("working_dir")
        return str(composed.main.get("user", user)), PurePosixPath(given) if given else workdir

    def _image(self, image_ref: str) -> tuple[str, PurePosixPath]:
        """Return the image's user and working directory."""
        if image_ref in self._builder.seen:  # saves a call to the engine
            self._images[image_ref] = self._builder.seen.pop(image_ref)
        if image_ref not in self._images:
            self._images[image_ref] = self._inspect(image_ref)["Config"] or {}
        config = self._images[image_ref]
        workdir = PurePosixPath(config.get("WorkingDir") or "/")
        return config.get("User") or "", workdir if len(workdir.parts) > 1 else WORKSPACE

    def _inspect(self, image_ref: str) -> Any:
        with translated(LaunchError, f"looking for {image_ref}"):
            try:
                return self._api.inspect_image(image_ref)
            except ImageNotFound:
                raise missing_image(self.name, image_ref) from None

    def execute_trial(
        self, *, handle: TrialHandle, request: BackendExecutionRequest
    ) -> BackendExecutionResult:
        """Run one command to completion in the container."""
        return self._sandboxes[handle.handle_id].container.execute(request)

    def stop(self, handle: TrialHandle) -> None:
        """Kill all processes of the container; its files can still be collected.

        Raises:
            BackendError: the disk is full; BackendLost if others have filled it, SandboxBroken if
                the container has stored more than its limit.

        """
        sandbox = self._sandboxes[handle.handle_id]
        sandbox.container.stop()
        try:
            check_room(self._api, self._starter.info, _LEAST_ROOM)
        except LaunchError as error:
            raise self._blame(sandbox, str(error)) from None

    def _blame(self, sandbox: _Sandbox, full: str) -> BackendError:
        stored = sandbox.container.stored()
        limit_mb = sandbox.storage_mb
        if stored < _LEAST_ROOM or (limit_mb and stored < limit_mb * 1024**2):
            return BackendLost(f"{full}; others have filled the disk")
        kind = SandboxBroken if limit_mb else BackendError
        return kind(f"{full}; the container has stored {stored >> 20} MiB")

    def collect_outputs(self, *, handle: TrialHandle) -> CollectedArtifacts:
        """Copy ``/logs`` to the host, then replace ``workspace_dir`` by the working directory."""
        container, _, workspace_dir, home, *_ = self._sandboxes[handle.handle_id]
        logs, workspace = home / "logs", workspace_dir.with_name(f"{workspace_dir.name}.new")
        for directory in (logs, workspace):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        skipped = [f"logs/{what}" for what in container.fetch(_LOGS, logs)]
        if not (logs / "verifier").exists():  # the agent's logs may have used up the size cap
            (logs / "verifier").mkdir()
            found = container.fetch(_LOGS / "verifier", logs / "verifier")
            skipped += [f"logs/verifier/{what}" for what in found]
        skipped += [f"workspace/{what}" for what in container.fetch(container.workdir, workspace)]
        shutil.rmtree(workspace_dir, ignore_errors=True)
        workspace.replace(workspace_dir)
        return CollectedArtifacts(workspace_dir, logs, tuple(skipped))

    def enter_command(self, handle: TrialHandle) -> str:
        """Return the shell command that enters the container."""
        sandbox = self._sandboxes[handle.handle_id]
        name = self._name(sandbox)
        return f"docker exec -it -w {sandbox.container.workdir} {name} bash"

    def _name(self, sandbox: _Sandbox) -> str:
        is_kept = self._keep_all or sandbox.container.container_id in self._kept
        return sandbox.name.replace("aecbench-", KEPT_PREFIX, 1) if is_kept else sandbox.name

    def stored_bytes(self, handle: TrialHandle) -> int:
        """Return how much the container has written to the engine's disk."""
        return self._sandboxes[handle.handle_id].container.stored()

    def keep(self, handle: TrialHandle) -> str:
        """Keep the container after its teardown; return the command that enters it."""
        container = self._sandboxes[handle.handle_id].container
        with suppress(SandboxBroken):  # its files can still be copied
            container.resume()
        self._kept.add(container.container_id)
        return self.enter_command(handle)

    def teardown(self, *, handle: TrialHandle) -> None:
        """Remove the container in the background, unless it is kept."""
        with self._lock:
            sandbox = self._sandboxes.pop(handle.handle_id, None)
        if sandbox is None:
            return
        shutil.rmtree(sandbox.home, ignore_errors=True)
        name = self._name(sandbox)
        if name != sandbox.name:
            self._rename(sandbox, name)
            return
        try:
            check_room(self._api, self._starter.info, _LEAST_ROOM)
            removal = self._removing.submit(self._try_to_remove, sandbox.name, sandbox.is_project)
        except (LaunchError, RuntimeError):  # the disk is full, or the interpreter is ending
            self._try_to_remove(sandbox.name, sandbox.is_project)
        else:
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)

    def _rename(self, sandbox: _Sandbox, name: str) -> None:
        """Give the container a kept one's name, and its services names derived from it."""
        names = {sandbox.container.container_id: name}
        if sandbox.is_project:
            for found in containers_of(self._api, sandbox.name):
                service = found["Labels"].get("com.docker.compose.service", "")
                if found["Id"] not in names:
                    names[found["Id"]] = f"{name}-{service}-{found['Id'][:4]}"
        for container_id, new_name in names.items():
            with translated(BackendError, f"renaming {sandbox.name}"):
                self._api.rename(container_id, new_name)

    def _try_to_remove(self, name: str, is_project: bool) -> None:
        """Remove a container or a project; ``close`` tries again if that fails."""
        self._unremoved[name] = is_project
        with suppress(BackendError):
            self._remove(name, is_project)
            self._unremoved.pop(name)

    def _remove(self, name: str, is_project: bool) -> None:
        (remove_project if is_project else remove)(self._api, self._impatient, name)

    def concurrency(self) -> int:
        """Return two trials per processor, because agents also wait for their models."""
        return 2 * int(self._starter.info["NCPU"])

    def close(self) -> None:
        """Wait until everything that was torn down is removed; raise BackendError on failure."""
        wait(self._removals)
        failures = []
        for name, is_project in list(self._unremoved.items()):
            try:
                self._remove(name, is_project)
                self._unremoved.pop(name)
            except BackendError as error:
                failures.append(str(error))
        for name in ("_api", "_impatient"):
            if name in self.__dict__:
                self.__dict__[name].close()  # it reconnects if it is used again
        if failures:
            raise BackendError("; ".join(failures))

    def reap(self, *, dry_run: bool = False) -> list[str]:
        """Remove the containers and files that dead runs left; return the containers' names."""
        for home in [] if dry_run else abandoned_homes(self.name):
            remove_tree(home)
        removed, self.left_alone = reap(
            self._api, self._impatient, dry_run=dry_run, run_id=self._run_id
        )
        return removed
