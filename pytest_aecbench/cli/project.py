"""The project that a command works in: the current directory, with the settings that hold there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_aecbench.settings import Settings

__all__ = ["project_settings"]


def project_settings() -> Settings:
    """Return the settings that hold where no option of the command says otherwise."""
    from pytest_aecbench.settings.layers import settings_at

    return settings_at(Path.cwd())
