"""Tasks as files: how they are written, and the least that is one."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path


def write_tree(directory: Path, files: Mapping[str, str | bytes | None]) -> Path:
    """Write files below a directory as they are; None leaves one out."""
    for name, content in files.items():
        if content is not None:
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def write_indented(directory: Path, files: Mapping[str, str | None]) -> Path:
    """Write files whose texts are indented as the code around them."""
    texts = {name: text and textwrap.dedent(text) for name, text in files.items()}
    return write_tree(directory, texts)


def write_least(
    directory: Path, toml: str | bytes = "", instruction: str | bytes = "Do it."
) -> Path:
    """Write the least that is a task."""
    files = {"task.toml": toml, "instruction.md": instruction, "tests/test.sh": "true"}
    return write_tree(directory, files)
