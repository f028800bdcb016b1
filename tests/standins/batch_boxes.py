"""The machines of Cloud Batch: each runnable of a task in a fresh sandbox, which sees volumes."""

from __future__ import annotations

import copy
import secrets
import shlex
import shutil
import tempfile
import time
from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from google.cloud import batch_v1

from pytest_aecbench.backends import BackendExecutionResult, Limits, Mount
from pytest_aecbench.errors import BackendError
from tests.standins.buckets import Buckets
from tests.standins.executor import Executor

__all__ = ["DOCKER_FAILED", "LOST_REPORTS", "PREEMPTED", "TIMED_OUT", "Machine", "Machines"]

PREEMPTED, LOST_REPORTS, TIMED_OUT = 50001, 50002, 50005
DOCKER_FAILED = 125  # Docker's own exit code, as for an image that cannot be pulled
_NO_LIMIT = 7 * 24 * 3600.0


@dataclass
class Machines:
    """Where tasks run: sandboxes of ``executor`` that see ``buckets`` as volumes.

    ``images`` are task directories whose Dockerfiles say what is in an image; another image is
    an empty one, or the engine's own behind a Docker box. ``missing_images`` cannot be pulled.
    """

    executor: Executor
    buckets: Buckets
    images: dict[str, Path] = field(default_factory=dict)
    missing_images: set[str] = field(default_factory=set)
    outputs: dict[tuple[str, int], str] = field(default_factory=dict)  # by job and task

    def image_ref(self, image_uri: str) -> str | None:
        """Return what the executor calls an image; None where there is none."""
        if image_uri in self.missing_images:
            return None
        if image_uri in self.images:
            return self.executor.build(self.images[image_uri])
        if self.executor.backend.name == "docker":
            return image_uri
        with tempfile.TemporaryDirectory() as empty:
            return self.executor.build(Path(empty))


@dataclass
class Machine:
    """One machine that runs one attempt of a task; its disk is shared by the task's runnables."""

    machines: Machines
    job: str
    index: int
    spec: batch_v1.TaskSpec
    env: Mapping[str, str]
    disk: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="aecbench-vm-")))
    running: str | None = None  # the sandbox of the present runnable
    lost: int | None = None  # the exit code with which the machine went

    def lose(self, code: int) -> None:
        """Take the machine away, with everything that runs on it."""
        self.lost = self.lost or code
        if self.running is not None:
            self.machines.executor.kill(self.running)

    def run(self, *, lose_after: tuple[float, int] | None = None) -> int:
        """Run all runnables; return the task's exit code.

        ``lose_after`` some seconds the machine is lost with an exit code.
        """
        limit = self.spec.max_run_duration.total_seconds() or _NO_LIMIT
        deadline, first = time.monotonic() + limit, 0
        dies = time.monotonic() + lose_after[0] if lose_after else float("inf")
        try:
            for runnable in self.spec.runnables:
                if first and not runnable.always_run:
                    continue
                own = runnable.timeout.total_seconds() or _NO_LIMIT
                until = min(deadline, time.monotonic() + own, dies)
                code = self._run(runnable, until - time.monotonic())
                if lose_after and (code is None or time.monotonic() >= dies):
                    self.lost = lose_after[1]
                if self.lost is not None:
                    return self.lost
                if code is None and time.monotonic() >= deadline:
                    return TIMED_OUT
                if code is None:
                    code = TIMED_OUT
                if not runnable.ignore_exit_status:
                    first = first or code
            if lose_after is not None:
                return lose_after[1]
            return first
        finally:
            self.machines.buckets.flush()
            shutil.rmtree(self.disk, ignore_errors=True)

    def _run(self, runnable: batch_v1.Runnable, seconds: float) -> int | None:
        """Run one container to its end; None if it took too long, or the machine was lost."""
        container = runnable.container
        image_ref = self.machines.image_ref(container.image_uri)
        if image_ref is None:
            return self._docker_fails(f"Unable to find image {container.image_uri!r}")
        try:
            options = _parse(container.options)
            mounts = tuple(self._mounts(container))
        except ValueError as error:
            return self._docker_fails(f"docker: {error}")
        argv = [part for part in (options.entrypoint, container.entrypoint) if part][-1:]
        command = shlex.join([*argv, *container.commands])
        env = {**self.env, **runnable.environment.variables, **dict(options.env)}
        network = options.network != "none" and not container.block_external_network
        try:
            with self._box(image_ref, mounts, options, Limits(network=network)) as box:
                done = box.run(
                    self.running or "",
                    command,
                    env=env,
                    cwd=options.workdir,
                    user=options.user,
                    timeout_sec=max(0.01, seconds),
                )
        except (BackendError, KeyError) as error:
            if self.lost is not None:
                return None
            return self._docker_fails(f"docker: {error}")
        self._keep_output(done)
        return done.returncode if self.lost is None else None

    @contextmanager
    def _box(
        self, image_ref: str, mounts: tuple[Mount, ...], options: Namespace, limits: Limits
    ) -> Iterator[Executor]:
        executor = self.machines.executor
        privileges = {"cap_add": options.cap_add, "security_opt": options.security_opt}
        box = replace(executor, backend=_with_mounts(executor.backend, mounts, privileges))
        sandbox_id = secrets.token_hex(8)
        try:
            box.create(sandbox_id, image_ref, limits=limits)
            self.running = sandbox_id
            if self.lost is not None:
                raise BackendError("the machine is lost")
            yield box
        finally:
            self.running = None
            executor.kill(sandbox_id)
            shutil.rmtree(executor.home / sandbox_id, ignore_errors=True)

    def _mounts(self, container: batch_v1.Runnable.Container) -> Iterator[Mount]:
        volumes = list(container.volumes) or [
            f"{volume.mount_path}:{volume.mount_path}:rw" for volume in self.spec.volumes
        ]
        for volume in volumes:
            source, _, rest = volume.partition(":")
            target, _, mode = rest.partition(":")
            if not source.startswith("/") or not target.startswith("/"):
                raise ValueError(f"invalid volume specification: {volume!r}")
            if not set(mode.split(",")) <= {"", "rw", "ro", "z", "Z"}:
                raise ValueError(f"invalid mode: {mode!r}")
            yield Mount(self._locate(source), target, "ro" not in mode.split(","))

    def _locate(self, path: str) -> Path:
        """Return the directory that a path of the machine leads to."""
        wanted = PurePosixPath(path)
        for volume in self.spec.volumes:
            mounted = PurePosixPath(volume.mount_path)
            if "gcs" in volume and wanted.is_relative_to(mounted):
                bucket, _, prefix = volume.gcs.remote_path.strip("/").partition("/")
                try:
                    root = self.machines.buckets.directory(bucket, prefix)
                except KeyError:
                    raise ValueError(f"bucket {bucket!r} does not exist") from None
                found = root / wanted.relative_to(mounted)
                break
        else:
            found = self.disk / wanted.relative_to("/")
        found.mkdir(parents=True, exist_ok=True)
        return found

    def _docker_fails(self, message: str) -> int:
        self._keep_output(BackendExecutionResult(DOCKER_FAILED, stderr=message))
        return DOCKER_FAILED

    def _keep_output(self, done: BackendExecutionResult) -> None:
        outputs, key = self.machines.outputs, (self.job, self.index)
        outputs[key] = outputs.get(key, "") + done.stdout + done.stderr


def _with_mounts(
    backend: Any, mounts: tuple[Mount, ...], privileges: Mapping[str, list[str]]
) -> Any:
    """Return the same backend, whose next sandboxes have these mounts.

    Only containers have the privileges, too.
    """
    changed = copy.copy(backend)
    if backend.name == "docker":
        changed._starter = copy.copy(backend._starter)
        changed._starter._mounts = mounts
        changed._starter._api = lambda: _Privileged(backend._api, privileges)
    else:
        changed._mounts = mounts
    return changed


class _Privileged:
    """The engine's client, which gives privileges to containers."""

    def __init__(self, api: Any, privileges: Mapping[str, list[str]]) -> None:
        self._client = api
        self._privileges = privileges

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_host_config(self, **options: Any) -> Any:
        return self._client.create_host_config(**options, **self._privileges)


def _parse(options: str) -> Namespace:
    """Return the options of ``docker run`` that make a difference here."""
    parser = ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--entrypoint", default="")
    parser.add_argument("--env", "-e", action="append", type=_variable, default=[])
    parser.add_argument("--network", "--net", default="bridge")
    parser.add_argument("--user", "-u")
    parser.add_argument("--workdir", "-w")
    for ignored in ("--cpus", "--memory", "-m", "--memory-swap", "--pids-limit", "--shm-size"):
        parser.add_argument(ignored, dest="ignored")
    for ignored in ("--init", "--rm", "--privileged"):
        parser.add_argument(ignored, action="store_true", dest="ignored")
    for repeated in ("--cap-add", "--security-opt"):
        parser.add_argument(repeated, action="append", default=[])
    for ignored in ("--gpus", "--ulimit", "--cap-drop", "--label"):
        parser.add_argument(ignored, action="append", dest="ignored_too")
    try:
        known, unknown = parser.parse_known_args(shlex.split(options))
    except ArgumentError as error:
        raise ValueError(str(error)) from None
    if unknown:
        raise ValueError(f"unknown flag: {unknown[0]}")
    return known


def _variable(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
