"""The tests of images: how they are named, and which cannot be built or launched."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import BuildError, LaunchError
from pytest_aecbench.testing.sandbox import write

if TYPE_CHECKING:
    from pytest_aecbench.backends import ComputeBackend

__all__ = ["ImageConformance"]


class ImageConformance:
    """An image is its content, and errors name what is missing."""

    def test_an_image_is_named_by_its_content(
        self, backend: ComputeBackend, image_ref: str, task_dir: Path, tmp_path: Path
    ) -> None:
        assert backend.build_environment(task_dir=task_dir) == image_ref
        dockerfile = (task_dir / "environment/Dockerfile").read_text()
        write(tmp_path / "environment/Dockerfile", f"{dockerfile}ENV OTHER=1\n")
        assert backend.build_environment(task_dir=tmp_path) != image_ref

    def test_a_malformed_dockerfile_is_a_build_error(
        self, backend: ComputeBackend, tmp_path: Path
    ) -> None:
        write(tmp_path / "environment/Dockerfile", "FROM scratch\nCOPIE a b\n")
        with pytest.raises(BuildError, match="Dockerfile"):
            backend.build_environment(task_dir=tmp_path)

    def test_an_unknown_image_is_a_launch_error(
        self, backend: ComputeBackend, tmp_path: Path
    ) -> None:
        with pytest.raises(LaunchError, match="no-such-image"):
            backend.launch_trial(image_ref="no-such-image", workspace_dir=tmp_path)

    def test_a_missing_workspace_is_a_launch_error(
        self, backend: ComputeBackend, image_ref: str, tmp_path: Path
    ) -> None:
        with pytest.raises(LaunchError, match="none"):
            backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path / "none")
