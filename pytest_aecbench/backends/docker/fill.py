"""What a container starts with, before its first command."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from docker.errors import APIError

from pytest_aecbench.backends.docker.engine import translated
from pytest_aecbench.backends.shared.archives import ArchiveWriter
from pytest_aecbench.backends.shared.paths import WORKSPACE
from pytest_aecbench.errors import LaunchError, TransferError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fill"]
_DIRECTORIES = {"/logs": 0o755, "/logs/agent": 0o777, "/logs/verifier": 0o777, "/tests": 0o755}


def fill(
    api: Any, container_id: str, workspace_dir: Path, workdir: PurePosixPath, user: str
) -> None:
    """Make what every sandbox has and put a copy of ``workspace_dir`` in the working directory."""
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
