"""The instructions that agents were given, kept once per experiment beside the trials' files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_aecbench.host.files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DIRECTORY", "instruction_file", "read_instruction"]

# Not a trial: their directories are named by UUIDs.
DIRECTORY = "instructions"
_MAX_BYTES = 1 << 20


def instruction_file(jobs_root: Path, experiment_id: str, sha256: str) -> Path:
    """Return where an instruction is kept, by the digest of its text."""
    return jobs_root / experiment_id / DIRECTORY / f"{sha256}.md"


def read_instruction(jobs_root: Path, experiment_id: str, sha256: str) -> str | None:
    """Return a stored instruction; None if it is not stored."""
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        return None
    try:
        data = read_regular(
            instruction_file(jobs_root, experiment_id, sha256), _MAX_BYTES, follow=False
        )
    except OSError:
        return None
    return data.decode("utf-8", "replace")
