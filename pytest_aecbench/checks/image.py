"""The check ``image``: the task's image is pinned, contains no tests, and can be built."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_aecbench.checks import Problem
from pytest_aecbench.errors import BuildError
from pytest_aecbench.tasks.dockerfile import flags_and_words, read_instructions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.checks.rehearsal import Rehearsal

__all__ = ["image"]

_MOVING = ("edge", "latest", "nightly", "stable")
_PIN = "name a tag that does not move, such as python:3.11-slim, or a digest"


def image(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Read the Dockerfile, then let the backend build the image."""
    ready = rehearsal.task.config.environment.docker_image
    dockerfile = rehearsal.directory / "environment" / "Dockerfile"
    if ready is not None:
        if not _is_pinned(ready):
            yield Problem(f"environment.docker_image: {ready!r} may change", _PIN, key=ready)
    elif dockerfile.is_file():
        with suppress(BuildError):  # reported by the build below
            yield from _read(dockerfile)
    else:
        yield Problem(
            "no environment/Dockerfile and no environment.docker_image",
            "add one of them, so that the task runs in containers too",
            key="Dockerfile",
        )
        return
    try:
        _ = rehearsal.image
    except BuildError as error:
        yield Problem(f"the image cannot be built: {error}", "correct environment/Dockerfile")


def _read(path: Path) -> Iterator[Problem]:
    args: dict[str, str] = {}
    stages = {"scratch"}
    for _, keyword, rest in read_instructions(path):
        try:
            flags, words = flags_and_words(rest, args)
        except ValueError:
            continue  # reported by the build
        if keyword == "ARG":
            args.update(word.partition("=")[::2] for word in words)
        elif keyword == "FROM" and words:
            base, *alias = words
            if base.lower() not in stages and not _is_pinned(base):
                yield Problem(f"FROM {base}: the base image may change", _PIN, key=base)
            stages |= {name.lower() for name in alias[1:]}
        elif keyword in ("COPY", "ADD") and "from" not in flags:
            for source in filter(_is_secret, words[:-1]):
                yield Problem(
                    f"{keyword} {source}: copies secret files into the image",
                    "leave tests and solution out; they are uploaded when they are needed",
                    key=source,
                )


def _is_pinned(name: str) -> bool:
    if "@sha256:" in name:
        return True
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return bool(colon) and tag not in ("", *_MOVING)


def _is_secret(source: str) -> bool:
    parts = [part for part in PurePosixPath(source).parts if part not in ("/", ".")]
    return parts[:1] in (["tests"], ["solution"], [".."])
