"""The check ``secrecy``: no file of ``tests/`` or ``solution/`` is in the agent's sandbox."""

from __future__ import annotations

import hashlib
import shlex
from typing import TYPE_CHECKING

from pytest_aecbench.checks import NotApplicableError, Problem
from pytest_aecbench.checks.probes import shares_host_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.checks.rehearsal import Rehearsal

__all__ = ["secrecy"]

_PROGRAMS = (".py", ".sh")
_SEARCH_SEC = 300.0
_HINT = "keep it only in tests/ or solution/; the agent gets everything in environment/"


def secrecy(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Search for the task's secrets beside the Dockerfile, then in the sandbox."""
    directory = rehearsal.directory
    secrets = _secrets(directory)
    names = {_digest(path): path.relative_to(directory).as_posix() for path in secrets}
    for path in _files(directory / "environment"):
        if (secret := names.get(_digest(path))) is not None:
            where = path.relative_to(directory).as_posix()
            yield Problem(f"{where} is a copy of {secret}", _HINT, key=where)
    rehearsal.execute()
    for found, digest in _found(rehearsal.sandbox, rehearsal, secrets):
        if found.startswith(("/tests/", "/solution/")):
            yield Problem(f"{found} exists while the agent works", _HINT, key=found)
        elif digest in names:
            yield Problem(f"{found} in the sandbox is {names[digest]}", _HINT, key=found)


def _secrets(directory: Path) -> list[Path]:
    """Return the files an agent must not see, without copies of files that it is given."""
    given = {_digest(path) for path in _files(directory / "environment")}
    found = []
    for path in (*_files(directory / "tests"), *_files(directory / "solution")):
        inside = path.relative_to(directory)
        is_data = inside.parts[0] == "tests" and path.suffix not in _PROGRAMS
        is_example = inside.parts[1] == "fixtures"
        if path.stat().st_size and (not is_data or is_example or _digest(path) not in given):
            found.append(path)
    return found


def _files(directory: Path) -> list[Path]:
    return sorted(
        path
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink() and path.parent.name != "__pycache__"
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _found(
    sandbox: Sandbox, rehearsal: Rehearsal, secrets: list[Path]
) -> Iterator[tuple[str, str]]:
    """Yield the files in the sandbox that have a secret's size, with their digests."""
    own = dict.fromkeys((str(rehearsal.task.workdir), "/workspace", "/tests", "/solution", "/logs"))
    roots = own if shares_host_files(sandbox) else ("/",)
    sizes = " -o ".join(f"-size {size}c" for size in {path.stat().st_size for path in secrets})
    result = sandbox.execute(
        "type find sha256sum >/dev/null || exit 127; "
        f"find {shlex.join(roots)} -xdev -type f \\( {sizes} -o -path '/tests/*' "
        "-o -path '/solution/*' \\) -exec sha256sum {} + 2>/dev/null; exit 0",
        timeout_sec=_SEARCH_SEC,
    )
    if result.returncode != 0:
        raise NotApplicableError("the image has no find and sha256sum to search with")
    for line in result.stdout.splitlines():
        digest, _, path = line.partition("  ")
        yield path, digest.lstrip("\\")
