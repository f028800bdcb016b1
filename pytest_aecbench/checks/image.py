"""The check of a task's image: pinned, free of tests, and built."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pytest_aecbench.checks import Problem
from pytest_aecbench.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.checks.rehearsal import Rehearsal

__all__ = ["image"]

_INSTRUCTION = re.compile(r"\s*(ARG|FROM|COPY|ADD)\s+(.+)", re.IGNORECASE)
_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#.*\n)*")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")
_MOVING = ("edge", "latest", "nightly", "stable")
_PIN = "name a tag that stays, such as python:3.11-slim, or a digest"


def image(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Read how the image is made, then have the backend make it."""
    ready = rehearsal.task.config.environment.docker_image
    dockerfile = rehearsal.directory / "environment" / "Dockerfile"
    if ready is not None:
        if not _is_pinned(ready):
            yield Problem(f"environment.docker_image: {ready!r} may change", _PIN, key=ready)
    elif dockerfile.is_file():
        yield from _read(dockerfile.read_text(encoding="utf-8", errors="replace"))
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


def _read(text: str) -> Iterator[Problem]:
    defaults: dict[str, str] = {}
    stages = {"scratch"}
    for line in _CONTINUED.sub(" ", text).splitlines():
        if not (match := _INSTRUCTION.fullmatch(line)):
            continue
        keyword, words = match[1].upper(), _words(match[2])
        flags = [word for word in words if word.startswith("--")]
        words = [word for word in words if word not in flags]
        if keyword == "ARG":
            defaults.update(word.partition("=")[::2] for word in words)
        elif keyword == "FROM" and words:
            base = _VARIABLE.sub(lambda m: defaults.get(m[1] or m[3], m[2] or ""), words[0])
            if base.lower() not in stages and not _is_pinned(base):
                yield Problem(f"FROM {base}: the base image may change", _PIN, key=base)
            stages |= {words[2].lower()} if len(words) > 2 else set()
        elif keyword in ("COPY", "ADD") and not any(f.startswith("--from") for f in flags):
            for source in filter(_is_secret, words[:-1]):
                yield Problem(
                    f"{keyword} {source}: puts what is secret into the image",
                    "leave tests and solution out; the harness brings them when it is time",
                    key=source,
                )


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("[", " ").replace("]", " ").replace('",', '" '))
    except ValueError:
        return text.split()


def _is_pinned(name: str) -> bool:
    if "@sha256:" in name:
        return True
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return bool(colon) and tag not in ("", *_MOVING)


def _is_secret(source: str) -> bool:
    parts = [part for part in PurePosixPath(source).parts if part not in ("/", ".")]
    return parts[:1] in (["tests"], ["solution"], [".."])
