"""The ``[environment]`` table of a task, as backends read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.errors import BuildError

if TYPE_CHECKING:
    from pytest_aecbench.tasks.schema import EnvironmentConfig

__all__ = ["read_environment"]


def read_environment(task_dir: Path) -> EnvironmentConfig:
    """Return the ``[environment]`` table of the task's ``task.toml``."""
    from pytest_aecbench.tasks.schema import EnvironmentConfig, parse_config

    try:
        text = (task_dir / "task.toml").read_text("utf-8-sig")
    except FileNotFoundError:
        return EnvironmentConfig()
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{task_dir}/task.toml: cannot be read; {error}") from None
    config = parse_config(text).config
    return config.environment if config is not None else EnvironmentConfig()
