"""The rules for what a sandbox is launched from: an image and a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.errors import LaunchError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_workspace", "missing_image"]


def check_workspace(backend: str, workspace_dir: Path) -> None:
    """Raise LaunchError if there is no such directory."""
    if not workspace_dir.is_dir():
        raise LaunchError(f"{backend}: workspace_dir {str(workspace_dir)!r} is not a directory")


def missing_image(backend: str, image_ref: str, noun: str = "image") -> LaunchError:
    """Return the error for an image that was never built; ``noun`` is the vendor's word for it."""
    return LaunchError(
        f"{backend}: {noun} {image_ref!r} does not exist; "
        "use the reference that build_environment returned"
    )
