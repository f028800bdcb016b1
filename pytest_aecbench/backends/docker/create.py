"""Create a trial's containers: labelled, limited, and kept alive until the trial ends."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, ImageNotFound
from docker.types import DeviceRequest, LogConfig
from docker.types import Mount as Bind

from pytest_aecbench.backends.docker.compose_file import MAIN
from pytest_aecbench.backends.docker.engine import can_limit_storage, translated
from pytest_aecbench.backends.docker.kill import LIFETIME_LABEL
from pytest_aecbench.backends.docker.reap import PROJECT_LABEL, containers_of
from pytest_aecbench.backends.docker.scripts import KEEP_ALIVE
from pytest_aecbench.backends.shared.archives import ArchiveWriter
from pytest_aecbench.backends.shared.launch import missing_image
from pytest_aecbench.backends.shared.paths import WORKSPACE
from pytest_aecbench.errors import LaunchError, TransferError
from pytest_aecbench.host.owner import LABEL_PREFIX, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_aecbench.backends import Limits, Mount
    from pytest_aecbench.backends.docker.compose import ComposedImage

__all__ = ["ContainerSpec", "Starter", "fill"]

_PIDS = 2048
_LIFETIME_MARGIN_SEC = 600


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """The name, trial, working directory and limits of a container."""

    name: str
    trial: str
    workdir: PurePosixPath
    limits: Limits


class Starter:
    """Creates containers with ``labels`` and ``mounts``.

    ``limits_storage`` says whether the engine can.
    """

    def __init__(
        self,
        api: Callable[[], Any],
        labels: Mapping[str, str],
        mounts: tuple[Mount, ...] = (),
    ) -> None:
        self._api = api
        self._labels = labels
        self._mounts = mounts
        self.limits_storage = True

    @cached_property
    def info(self) -> dict[str, Any]:
        """The engine's information about itself."""
        with translated(LaunchError, "the engine"):
            return dict(self._api().info())

    def create(self, spec: ContainerSpec, image_ref: str) -> str:
        """Create a container; return its id."""
        api, limits = self._api(), spec.limits
        options: dict[str, Any] = {
            "network_mode": None if limits.network else "none",
            "pids_limit": _PIDS,
            "log_config": LogConfig(type="none"),
        }
        if limits.cpus is not None:
            options["nano_cpus"] = int(self._cpus(limits.cpus) * 1e9)
        if limits.memory_mb is not None:
            options["mem_limit"] = options["memswap_limit"] = limits.memory_mb * 1024**2
        if limits.storage_mb is not None and self.limits_storage:
            options["storage_opt"] = {"size": f"{limits.storage_mb}M"}
        if limits.gpus:
            options["device_requests"] = [DeviceRequest(count=limits.gpus, capabilities=[["gpu"]])]
        if self._mounts:
            options["mounts"] = [
                Bind(one.target, str(one.source), "bind", read_only=not one.writable)
                for one in self._mounts
            ]
        with translated(LaunchError, f"creating a container of {image_ref}"):
            try:
                created = api.create_container(
                    image_ref,
                    ["-c", KEEP_ALIVE],
                    entrypoint=["bash"],
                    name=spec.name,
                    labels=self._labels_of(spec),
                    user="0",
                    working_dir=str(spec.workdir),
                    stdin_open=True,
                    healthcheck={"test": ["NONE"]},
                    host_config=api.create_host_config(**options),
                )
            except ImageNotFound:
                raise missing_image("docker", image_ref) from None
            except APIError as error:
                if "storage_opt" not in options or "storage-opt" not in str(error.explanation):
                    raise
                self.limits_storage = False
                return self.create(spec, image_ref)
        return str(created["Id"])

    def start_services(self, spec: ContainerSpec, composed: ComposedImage, home: Path) -> str:
        """Start a task's services; return the id of the one that the agent works in."""
        limits = spec.limits
        options: dict[str, Any] = {
            "container_name": spec.name,
            "pids_limit": _PIDS,
            "working_dir": str(spec.workdir),
        }
        if limits.cpus is not None:
            options["cpus"] = self._cpus(limits.cpus)
        if limits.memory_mb is not None:
            options["mem_limit"] = options["memswap_limit"] = f"{limits.memory_mb}m"
        if limits.storage_mb is not None:
            # Not found out by trying, because a start that fails halfway takes too long.
            self.limits_storage = can_limit_storage(self.info) is True
            if self.limits_storage:
                options["storage_opt"] = {"size": f"{limits.storage_mb}M"}
        if limits.gpus:
            devices = [{"count": limits.gpus, "capabilities": ["gpu"]}]
            options["deploy"] = {"resources": {"reservations": {"devices": devices}}}
        options["volumes"] = [
            {
                "type": "bind",
                "source": str(one.source),
                "target": one.target,
                "read_only": not one.writable,
            }
            for one in self._mounts
        ]
        labels = {**self._labels_of(spec), PROJECT_LABEL: spec.name}
        composed.start(spec.name, home, labels, options, network=limits.network)
        for found in containers_of(self._api(), spec.name):
            if found["Labels"].get("com.docker.compose.service") == MAIN:
                return str(found["Id"])
        raise LaunchError(f"docker: {composed.ref}: no container of {MAIN!r} was started")

    def _cpus(self, asked: float) -> float:
        return min(asked, float(self.info["NCPU"]))

    def _labels_of(self, spec: ContainerSpec) -> dict[str, str]:
        labels = {**self._labels, **Owner.current().labels(), f"{LABEL_PREFIX}trial": spec.trial}
        if spec.limits.lifetime_sec is not None:
            labels[LIFETIME_LABEL] = str(int(spec.limits.lifetime_sec + _LIFETIME_MARGIN_SEC))
        return labels


_DIRECTORIES = {"/logs": 0o755, "/logs/agent": 0o777, "/logs/verifier": 0o777, "/tests": 0o755}


def fill(
    api: Any, container_id: str, workspace_dir: Path, workdir: PurePosixPath, user: str
) -> None:
    """Make the directories of every sandbox and copy ``workspace_dir`` to the working directory."""
    owner, _, _ = user.partition(":")
    with tempfile.TemporaryFile() as file:
        with closing(ArchiveWriter(file, int(owner) if owner.isdecimal() else 0)) as archive:
            for path, mode in _DIRECTORIES.items():
                archive.add_directory(PurePosixPath(path), mode)
            if not (WORKSPACE in (workdir, *workdir.parents) or _has_workspace(api, container_id)):
                archive.add_link(WORKSPACE, workdir)
            archive.add_contents(workdir, workspace_dir)
        file.seek(0)
        with translated(TransferError, "uploading the workspace"):
            api.put_archive(container_id, "/", file)


def _has_workspace(api: Any, container_id: str) -> bool:
    with translated(LaunchError, "looking for /workspace"):
        try:
            stream, _ = api.get_archive(container_id, str(WORKSPACE))
        except APIError as error:
            if error.status_code == 404:
                return False
            raise
        stream.close()
        return True
