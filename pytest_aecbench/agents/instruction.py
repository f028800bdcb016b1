"""The instruction as a file in the sandbox, for programs that read it from there or from stdin.

A file has no limit on its length, and no shell reads its text.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.tasks.task import Task

__all__ = ["INSTRUCTION_FILE", "instruction_uploads"]

INSTRUCTION_FILE = "/logs/agent/instruction.md"


@contextmanager
def instruction_uploads(task: Task) -> Iterator[dict[str, Path]]:
    """Yield the uploads that put the instruction and the path of the output into the sandbox."""
    with tempfile.TemporaryDirectory(prefix="aecbench-instruction-") as directory:
        path = Path(directory, "instruction.md")
        path.write_text(
            f"{task.instruction.rstrip()}\n\nWrite your result to `{task.output_path}`.\n",
            encoding="utf-8",
        )
        yield {INSTRUCTION_FILE: path}
