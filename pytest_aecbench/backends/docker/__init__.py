"""Run trials in containers of a Docker engine."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from docker.errors import APIError, ImageNotFound
from docker.types import LogConfig

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    BackendExecutionResult,
    CollectedArtifacts,
    Limits,
    TrialHandle,
)
from pytest_aecbench.backends.archives import ArchiveWriter
from pytest_aecbench.backends.docker.building import Builder
from pytest_aecbench.backends.docker.container import ROOT, Container
from pytest_aecbench.backends.docker.engine import check, connect, summary, translated
from pytest_aecbench.backends.docker.reaping import EXPIRES_LABEL, KEPT_PREFIX, reap, remove
from pytest_aecbench.backends.docker.scripts import KEEP_ALIVE
from pytest_aecbench.errors import BackendError, LaunchError, SandboxGone, TransferError
from pytest_aecbench.ownership import LABEL_PREFIX, Owner

if TYPE_CHECKING:
    from pytest_aecbench.settings import Settings

__all__ = ["DockerBackend"]

_WORKSPACE = PurePosixPath("/workspace")
_LOGS = PurePosixPath("/logs")
_DIRECTORIES = {"/logs": 0o755, "/logs/agent": 0o777, "/logs/verifier": 0o777, "/tests": 0o755}
_PIDS = 2048
_EXPIRY_MARGIN_SEC = 600


class _Sandbox(NamedTuple):
    container: Container
    name: str
    workspace_dir: Path
    home: Path


class DockerBackend:
    """Trials in containers; ``labels`` go on each of them, ``keep_all`` leaves each behind."""

    name = "docker"

    def __init__(
        self,
        *,
        labels: dict[str, str] | None = None,
        keep_all: bool = False,
        force_build: bool = False,
        run_id: str = "",
    ) -> None:
        self._labels = {f"{LABEL_PREFIX}run": run_id, **(labels or {})}
        self._keep_all = keep_all
        self._builder = Builder(lambda: self._api, force=force_build, run_id=run_id)
        self._images: dict[str, Any] = {}
        self._sandboxes: dict[str, _Sandbox] = {}
        self._kept: set[str] = set()
        self._limits_storage = True
        self._lock = threading.Lock()
        # The interpreter waits for these threads when it ends, so no removal is lost.
        self._removing = ThreadPoolExecutor(2, thread_name_prefix="aec-docker-remove")
        self._removals: set[Future[None]] = set()

    @classmethod
    def from_settings(cls, settings: Settings) -> DockerBackend:
        """Make the backend that a run asked for."""
        return cls(
            labels={f"{LABEL_PREFIX}experiment": settings.experiment_id},
            keep_all=settings.keep == "all",
            force_build=settings.force_build,
            run_id=settings.run_id,
        )

    @cached_property
    def _api(self) -> Any:
        return connect()

    def describe(self) -> str:
        """Return one line on the engine and on what it does not limit."""
        storage = "" if self._can_limit_storage() else "; no limit on storage"
        return f"docker ({summary(self._api)}{storage})"

    def _can_limit_storage(self) -> bool:
        with translated(BackendError, "the engine"):
            info = self._api.info()
        backing = dict(info.get("DriverStatus") or ()).get("Backing Filesystem")
        driver = info["Driver"]
        return driver in ("btrfs", "zfs") or (driver == "overlay2" and backing == "xfs")

    def preflight(self) -> None:
        """Raise LaunchError when the engine cannot be used."""
        check(self._api)

    def notes(self, image_ref: str) -> tuple[str, ...]:
        """Return what was asked of the engine and is not done, one line each."""
        return () if self._limits_storage else ("storage_mb is not enforced by this engine",)

    def build_environment(self, *, task_dir: Path) -> str:
        """Build the image of the task's ``environment`` directory, unless it is there."""
        return self._builder.build(task_dir)

    def launch_trial(
        self, *, image_ref: str, workspace_dir: Path, limits: Limits | None = None
    ) -> TrialHandle:
        """Start a container; its working directory gets a copy of what ``workspace_dir`` holds."""
        if not workspace_dir.is_dir():
            raise LaunchError(f"docker: workspace_dir {str(workspace_dir)!r} is not a directory")
        limits = limits or Limits()
        user, workdir = self._image(image_ref)
        name = f"aecbench-{secrets.token_hex(6)}"
        try:
            container_id = self._create(name, image_ref, workspace_dir, workdir, limits)
            # Each archive costs time; where there is none to send, the first command does the rest.
            ready = bool(os.listdir(workspace_dir)) or user not in ROOT or workdir != _WORKSPACE  # noqa: PTH208
            if ready:
                self._fill(container_id, workspace_dir, workdir, user)
            with translated(LaunchError, f"starting {image_ref}"):
                self._api.start(container_id)
        except BaseException:
            with suppress(BackendError):
                remove(self._api, name)
            raise
        expires = None if limits.lifetime_sec is None else time.monotonic() + limits.lifetime_sec
        container = Container(self._api, container_id, workdir, user, ready, expires)
        home = Path(tempfile.mkdtemp(prefix="aecbench-docker-"))
        with self._lock:
            self._sandboxes[container_id] = _Sandbox(container, name, workspace_dir, home)
        return TrialHandle(self.name, container_id)

    def _image(self, image_ref: str) -> tuple[str, PurePosixPath]:
        """Return the image's user and working directory."""
        if image_ref not in self._images:
            with translated(LaunchError, f"looking for {image_ref}"):
                try:
                    self._images[image_ref] = self._api.inspect_image(image_ref)["Config"] or {}
                except ImageNotFound:
                    raise LaunchError(
                        f"docker: image {image_ref!r} is not there; "
                        "use what build_environment returned"
                    ) from None
        config = self._images[image_ref]
        workdir = PurePosixPath(config.get("WorkingDir") or "/")
        return config.get("User") or "", workdir if len(workdir.parts) > 1 else _WORKSPACE

    def _create(
        self,
        name: str,
        image_ref: str,
        workspace_dir: Path,
        workdir: PurePosixPath,
        limits: Limits,
    ) -> str:
        options: dict[str, Any] = {
            "network_mode": None if limits.network else "none",
            "pids_limit": _PIDS,
            "log_config": LogConfig(type="none"),
        }
        if limits.cpus is not None:
            options["nano_cpus"] = int(min(limits.cpus, self._cpus) * 1e9)
        if limits.memory_mb is not None:
            options["mem_limit"] = options["memswap_limit"] = limits.memory_mb * 1024**2
        if limits.storage_mb is not None and self._limits_storage:
            options["storage_opt"] = {"size": f"{limits.storage_mb}M"}
        labels = {**self._labels, **Owner.current().labels()}
        labels[f"{LABEL_PREFIX}trial"] = workspace_dir.parent.name
        if limits.lifetime_sec is not None:
            labels[EXPIRES_LABEL] = str(int(time.time() + limits.lifetime_sec + _EXPIRY_MARGIN_SEC))
        with translated(LaunchError, f"creating a container of {image_ref}"):
            try:
                created = self._api.create_container(
                    image_ref,
                    ["-c", KEEP_ALIVE],
                    entrypoint=["bash"],
                    name=name,
                    labels=labels,
                    user="0",
                    working_dir=str(workdir),
                    stdin_open=True,
                    healthcheck={"test": ["NONE"]},
                    host_config=self._api.create_host_config(**options),
                )
            except APIError as error:
                if "storage_opt" not in options or "storage-opt" not in str(error.explanation):
                    raise
                self._limits_storage = False
                return self._create(name, image_ref, workspace_dir, workdir, limits)
        return str(created["Id"])

    @cached_property
    def _cpus(self) -> float:
        with translated(LaunchError, "the engine"):
            return float(self._api.info()["NCPU"])

    def _fill(
        self, container_id: str, workspace_dir: Path, workdir: PurePosixPath, user: str
    ) -> None:
        """Put what a sandbox starts with into a container that has not been started yet."""
        owner, _, _ = user.partition(":")
        with tempfile.TemporaryFile() as file:
            with closing(ArchiveWriter(file, int(owner) if owner.isdecimal() else 0)) as archive:
                for path, mode in _DIRECTORIES.items():
                    archive.add_directory(PurePosixPath(path), mode)
                if not (
                    _WORKSPACE in (workdir, *workdir.parents) or self._has_workspace(container_id)
                ):
                    archive.add_link(_WORKSPACE, workdir)
                archive.add_contents(workdir, workspace_dir)
            file.seek(0)
            with translated(TransferError, "uploading the workspace"):
                self._api.put_archive(container_id, "/", file)

    def _has_workspace(self, container_id: str) -> bool:
        with translated(LaunchError, "looking for /workspace"):
            try:
                stream, _ = self._api.get_archive(container_id, str(_WORKSPACE))
            except APIError as error:
                if error.status_code == 404:
                    return False
                raise
            stream.close()
            return True

    def execute_trial(
        self, *, handle: TrialHandle, request: BackendExecutionRequest
    ) -> BackendExecutionResult:
        """Run one command to completion in the container."""
        return self._find(handle).container.execute(request)

    def _find(self, handle: TrialHandle) -> _Sandbox:
        try:
            return self._sandboxes[handle.handle_id]
        except KeyError:
            raise SandboxGone(f"docker: sandbox {handle.handle_id[:12]!r} was removed") from None

    def collect_outputs(self, *, handle: TrialHandle) -> CollectedArtifacts:
        """Bring ``/logs`` and then the working directory home, in place of ``workspace_dir``."""
        container, _, workspace_dir, home = self._find(handle)
        logs, workspace = home / "logs", workspace_dir.with_name(f"{workspace_dir.name}.new")
        for directory in (logs, workspace):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        skipped = [f"logs/{what}" for what in container.fetch(_LOGS, logs)]
        if not (logs / "verifier").exists():  # the agent's logs may be too big for all to come
            (logs / "verifier").mkdir()
            found = container.fetch(_LOGS / "verifier", logs / "verifier")
            skipped += [f"logs/verifier/{what}" for what in found]
        skipped += [f"workspace/{what}" for what in container.fetch(container.workdir, workspace)]
        shutil.rmtree(workspace_dir, ignore_errors=True)
        workspace.replace(workspace_dir)
        return CollectedArtifacts(workspace_dir, logs, tuple(skipped))

    def enter_command(self, handle: TrialHandle) -> str:
        """Return the shell command that enters the container."""
        sandbox = self._find(handle)
        name = self._name(sandbox)
        return f"docker exec -it -w {sandbox.container.workdir} {name} bash"

    def _name(self, sandbox: _Sandbox) -> str:
        is_kept = self._keep_all or sandbox.container.container_id in self._kept
        return sandbox.name.replace("aecbench-", KEPT_PREFIX, 1) if is_kept else sandbox.name

    def keep(self, handle: TrialHandle) -> str:
        """Let the container outlive its teardown; return the command that enters it."""
        self._kept.add(self._find(handle).container.container_id)
        return self.enter_command(handle)

    def teardown(self, *, handle: TrialHandle) -> None:
        """Remove the container, unless it is kept; the caller does not wait for that."""
        with self._lock:
            sandbox = self._sandboxes.pop(handle.handle_id, None)
        if sandbox is None:
            return
        shutil.rmtree(sandbox.home, ignore_errors=True)
        name = self._name(sandbox)
        if name != sandbox.name:
            with translated(BackendError, f"renaming {sandbox.name}"):
                self._api.rename(handle.handle_id, name)
            return
        try:
            self._removals.add(self._removing.submit(remove, self._api, handle.handle_id))
        except RuntimeError:  # the interpreter is ending
            remove(self._api, handle.handle_id)
        self._settle(wait=False)

    def _settle(self, *, wait: bool) -> None:
        """Raise what went wrong with removals that are done, or with all of them."""
        for removal in list(self._removals):
            if wait or removal.done():
                self._removals.discard(removal)
                removal.result()

    def close(self) -> None:
        """Wait until everything that was torn down is gone."""
        self._settle(wait=True)

    def reap(self, *, dry_run: bool = False) -> list[str]:
        """Remove the containers that dead runs left; return their names."""
        return reap(self._api, dry_run=dry_run)
