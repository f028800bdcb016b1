"""A task's environment, as vendors' images need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.backends.shared.environment import read_environment
from pytest_aecbench.errors import BuildError
from pytest_aecbench.tasks.dockerfile import read_dockerfile, working_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path, PurePosixPath

__all__ = ["Environment"]


@dataclass(frozen=True, slots=True)
class Environment:
    """A task's image and resources, read from its ``task.toml`` and Dockerfile."""

    task_dir: Path
    docker_image: str | None
    build_timeout_sec: float
    cpus: float | None
    memory_mb: int | None
    storage_mb: int | None
    workdir: PurePosixPath
    user: str
    env: Mapping[str, str]

    @property
    def context(self) -> Path:
        """The build context of images."""
        return self.task_dir / "environment"

    @classmethod
    def read(cls, task_dir: Path) -> Environment:
        """Read both; raise BuildError if there is nothing to build."""
        config = read_environment(task_dir)
        path = task_dir / "environment/Dockerfile"
        if (task_dir / "environment/docker-compose.yaml").exists():
            raise BuildError(f"{task_dir}: has services of its own; use --aec-backend=docker")
        if not config.docker_image and not path.is_file():
            raise BuildError(
                f"{task_dir}: nothing to build; add environment/Dockerfile, "
                "or set docker_image in [environment] of task.toml"
            )
        found = None if config.docker_image else read_dockerfile(path)
        return cls(
            task_dir=task_dir,
            docker_image=config.docker_image,
            build_timeout_sec=config.build_timeout_sec,
            cpus=config.cpus,
            memory_mb=config.memory_mb,
            storage_mb=config.storage_mb,
            workdir=working_directory(config, found),
            user="" if found is None else found.user,
            env={} if found is None else found.env,
        )
