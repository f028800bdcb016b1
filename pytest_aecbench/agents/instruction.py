"""The instruction as a file in the sandbox, for programs that read it from there or from stdin.

A file has no limit on its length, and no shell reads its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.tasks.task import Task

__all__ = ["INSTRUCTION_FILE", "instruction_uploads"]

INSTRUCTION_FILE = "/logs/agent/instruction.md"


def instruction_uploads(task: Task, staging: Path) -> dict[str, Path]:
    """Return the uploads that put the instruction and the path of the output into the sandbox.

    The file is written to the directory ``staging``.
    """
    path = staging / "instruction.md"
    path.write_text(
        f"{task.instruction.rstrip()}\n\nWrite your result to `{task.output_path}`.\n",
        encoding="utf-8",
    )
    return {INSTRUCTION_FILE: path}
