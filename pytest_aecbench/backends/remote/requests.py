"""Requests as the scripts inside a sandbox read them: files, and an archive of uploads."""

from __future__ import annotations

import os
import tarfile
from contextlib import closing
from io import BytesIO
from typing import IO, TYPE_CHECKING

from pytest_aecbench.backends.remote.scripts import RUN
from pytest_aecbench.backends.shared.archives import ArchiveWriter, sandbox_path
from pytest_aecbench.backends.shared.output import OUTPUT_CAP
from pytest_aecbench.backends.shared.shell import check_request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path, PurePosixPath

    from pytest_aecbench.backends import BackendExecutionRequest

__all__ = ["add_parts", "fields", "pack_uploads", "request_parts"]

_RUN = RUN.replace("KEPT", str(OUTPUT_CAP)).replace("HALF", str(OUTPUT_CAP // 2)).encode()


def request_parts(
    request: BackendExecutionRequest,
    nonce: str,
    *,
    workdir: PurePosixPath,
    env: Mapping[str, str],
    user: str,
    is_first: bool,
    since: str = "",
) -> dict[str, bytes]:
    """Return the files of a request: the script that runs it, its fields, command and variables.

    ``env`` and ``workdir`` are the image's. ``is_first`` says that the sandbox is not prepared yet,
    ``since`` is the time from which its processes are ours.
    """
    env = {"LANG": "C.UTF-8", **env, **request.env}
    check_request(request, env)
    steps = [
        *(["kill"] if request.exclusive else []),
        *([] if request.cwd else ["make"]),
        *(["first"] if is_first else []),
    ]
    seconds = "" if request.timeout_sec is None else f"{request.timeout_sec:g}"
    targets = [str(sandbox_path(target)) for target in request.uploads]
    cwd = request.cwd or str(workdir)
    told = [nonce, " ".join(steps), since, seconds, user, str(workdir), cwd]
    return {
        "run": _RUN,
        "request": fields(*told, *targets, ""),
        "command": os.fsencode(request.command),
        "env": fields(*(f"{name}={value}" for name, value in env.items())),
    }


def pack_uploads(
    archive: IO[bytes],
    uploads: Mapping[str, Path],
    contents: tuple[PurePosixPath, Path] | None = None,
) -> None:
    """Write an archive of uploads; ``contents`` are those of a directory, and where they go."""
    with closing(ArchiveWriter(archive)) as writer:
        if contents is not None:
            writer.add_contents(*contents)
        for target, source in uploads.items():
            writer.add(sandbox_path(target), source)


def add_parts(
    tar: tarfile.TarFile,
    parts: Mapping[str, bytes],
    archive: IO[bytes] | None = None,
    below: str = "",
) -> None:
    """Add the files of a request to an archive, ``below`` a directory such as ``agent/``."""
    for name, data in parts.items():
        _add(tar, f"{below}{name}", len(data), BytesIO(data))
    if archive is not None:
        size = archive.seek(0, os.SEEK_END)
        archive.seek(0)
        _add(tar, f"{below}archive", size, archive)


def _add(tar: tarfile.TarFile, name: str, size: int, data: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    tar.addfile(info, data)


def fields(*texts: str) -> bytes:
    """Return texts as fields that end with NUL."""
    return os.fsencode("".join(f"{text}\0" for text in texts))
