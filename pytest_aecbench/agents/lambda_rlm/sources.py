"""Sources: the documents of a task in its sandbox, by their labels.

They are the text files below ``documents`` in the working directory, or in that directory itself if
it has no ``documents``. A label is a file's path from there; its suffix may be left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pytest_aecbench.agents.reading import UnreadableError, read_bytes
from pytest_aecbench.errors import TaskError
from pytest_aecbench.text import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = ["SUFFIXES", "Source", "find_labels", "read_source", "resolve"]

SUFFIXES = (".csv", ".json", ".md", ".toml", ".txt")
_DIRECTORY = "documents"
_MOST_FILES = 2000
_MOST_BYTES = 50_000_000
_LISTING_SEC = 60.0
_READING_SEC = 300.0
_SHOWN = 20
_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """A source of a section; ``problem`` says why its text is missing, or not all there."""

    name: str
    text: str = ""
    problem: str | None = None


def find_labels(sandbox: Sandbox, workdir: PurePosixPath, output: PurePosixPath) -> dict[str, str]:
    """Return the path of each document by its full label; ``output`` is not one."""
    names = " -o ".join(f"-name '*{suffix}'" for suffix in SUFFIXES)
    listed = sandbox.execute(
        f"if [ -d {_DIRECTORY} ]; then cd {_DIRECTORY}; fi; pwd; "
        rf"find . -name '.?*' -prune -o -type f \( {names} \) -print",
        timeout_sec=_LISTING_SEC,
    )
    root, *paths = listed.stdout.splitlines() or [str(workdir)]
    found = {}
    for path in sorted(paths)[:_MOST_FILES]:
        whole = PurePosixPath(root, path)
        if whole != output and path.isprintable():
            found[str(PurePosixPath(path))] = str(whole)
    return found


def resolve(wanted: Iterable[str], labels: Iterable[str], where: str) -> dict[str, str]:
    """Return the full label of each source that a section names, or raise a TaskError.

    A label is never a prefix of what is meant.
    """
    known = sorted(labels)
    found = {}
    for name in wanted:
        label = name.partition(":")[0]
        matches = [one for one in known if label in (one, str(PurePosixPath(one).with_suffix("")))]
        if len(matches) > 1:
            right = f"use one of {', '.join(map(repr, matches))}"
            raise TaskError(f"{where}: {label!r} means {counted(len(matches), 'file')}; {right}")
        if not matches:
            raise TaskError(f"{where}: there is no source {label!r}; {_known(known)}")
        found[name] = matches[0]
    return found


def _known(labels: list[str]) -> str:
    if not labels:
        kinds = ", ".join(SUFFIXES)
        return f"put files ({kinds}) into 'documents' in the working directory"
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return f"use one of {', '.join(map(repr, labels[:_SHOWN]))}{more}"


def read_source(
    sandbox: Sandbox, name: str, label: str, labels: Mapping[str, str], where: str
) -> Source:
    """Return a source; of ``label:part`` only the part below the heading of that name."""
    try:
        content = read_bytes(sandbox, labels[label], _READING_SEC, _MOST_BYTES)
    except UnreadableError as error:
        return Source(name, problem=f"{name} could not be read: {error}")
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    part = name.partition(":")[2].strip()
    text = _part(text, part, name, where) if part else text
    if not text.strip():
        return Source(name, problem=f"{name} is empty")
    garbled = "\ufffd" in text and b"\xef\xbf\xbd" not in content
    return Source(name, text, f"{name} is not all UTF-8 text" if garbled else None)


def _part(text: str, part: str, name: str, where: str) -> str:
    """Return the text below a heading, up to the next one of its level."""
    headings = list(_HEADING.finditer(text))
    for number, heading in enumerate(headings):
        if heading[2].casefold() != part.casefold():
            continue
        after = (one for one in headings[number + 1 :] if len(one[1]) <= len(heading[1]))
        following = next(after, None)
        return text[heading.start() : following.start() if following else len(text)]
    titles = [repr(shortened(heading[2], 60)) for heading in headings[:_SHOWN]]
    right = f"use one of {', '.join(titles)}" if titles else "leave the part out"
    raise TaskError(f"{where}: {name!r}: there is no heading {part!r}; {right}")
