"""A task's environment directory, as backends read it."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.errors import BuildError

if TYPE_CHECKING:
    from pytest_aecbench.tasks.schema import EnvironmentConfig

__all__ = ["digest_of", "read_environment"]


def read_environment(task_dir: Path) -> EnvironmentConfig:
    """Return what the task's ``task.toml`` says of its environment."""
    from pytest_aecbench.tasks.schema import EnvironmentConfig, parse_config

    try:
        text = (task_dir / "task.toml").read_text("utf-8-sig")
    except FileNotFoundError:
        return EnvironmentConfig()
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{task_dir}/task.toml: cannot be read; {error}") from None
    config = parse_config(text).config
    return config.environment if config is not None else EnvironmentConfig()


def digest_of(directory: Path) -> str:
    """Return a digest of all that ``directory`` holds, each file framed by its name and size."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        name, info = path.relative_to(directory).as_posix(), path.stat()
        digest.update(f"{name}\0{info.st_mode:o}\0{info.st_size}\0".encode(errors="replace"))
        if path.is_file():
            with path.open("rb") as file:
                for chunk in iter(partial(file.read, 1024 * 1024), b""):
                    digest.update(chunk)
    return digest.hexdigest()
