"""The rules for what a sandbox is launched from: an image and a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_aecbench.backends import TrialHandle

__all__ = ["MissingImage", "check_workspace", "launch_rebuilt", "missing_image"]


class MissingImage(LaunchError):  # noqa: N818  (a state)
    """There is no such image: it was never built, or was removed since."""


def check_workspace(backend: str, workspace_dir: Path) -> None:
    """Raise LaunchError if there is no such directory."""
    if not workspace_dir.is_dir():
        raise LaunchError(f"{backend}: workspace_dir {str(workspace_dir)!r} is not a directory")


def missing_image(backend: str, image_ref: str, noun: str = "image") -> MissingImage:
    """Return the error for an image that was never built; ``noun`` is the vendor's word for it."""
    return MissingImage(
        f"{backend}: {noun} {image_ref!r} does not exist; "
        "use the reference that build_environment returned"
    )


def launch_rebuilt(
    image_ref: str,
    launch: Callable[[str], TrialHandle],
    rebuild: Callable[[], str] | None,
) -> TrialHandle:
    """Launch from an image, which is built again if it was removed in mid-run.

    Without ``rebuild`` it was never built.
    """
    try:
        return launch(image_ref)
    except MissingImage:
        if rebuild is None:
            raise
    return launch(rebuild())
