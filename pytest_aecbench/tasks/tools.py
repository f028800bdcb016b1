"""The tools of a task: ``tools/*.py`` and the entries of ``[[environment.tools]]``."""

from __future__ import annotations

import ast
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_aecbench.host.files import read_text, shown_path
from pytest_aecbench.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_aecbench.tasks.schema import ToolConfig

__all__ = [
    "ANY_OBJECT",
    "BUILT_IN",
    "TOOL_NAME",
    "DeclaredTool",
    "declared_tools",
    "entry_problems",
    "file_problems",
    "tool_files",
]

# The tools that model agents have anyway, or may have.
BUILT_IN = ("ask_advisor", "bash", "read_file", "submit", "write_file")
# The names that every model provider takes.
TOOL_NAME = "[A-Za-z_][A-Za-z0-9_-]{0,63}"
# The schema of an object with any content; some providers insist on ``properties``.
ANY_OBJECT: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool as agents are told of it.

    ``command`` is run by bash in the sandbox and gets the arguments as a JSON object on standard
    input; ``parameters`` is the JSON schema of that object.
    """

    name: str
    description: str
    command: str
    parameters: Mapping[str, Any]
    timeout_sec: float | None = None


def tool_files(task_dir: Path) -> tuple[Path, ...]:
    """Return the Python files in ``tools/``, sorted."""
    directory = task_dir / "tools"
    if not os.path.isdir(directory):  # noqa: PTH112  (most tasks have none, and this is fast)
        return ()
    return tuple(sorted(file for file in directory.glob("*.py") if file.is_file()))


def declared_tools(
    files: Sequence[Path], entries: Sequence[ToolConfig], workdir: PurePosixPath
) -> tuple[DeclaredTool, ...]:
    """Return the tools of the entries, then those of the other files."""
    by_stem = {file.stem: file for file in files}
    tools = [_of_entry(entry, by_stem.get(entry.name), workdir) for entry in entries]
    for file in _undeclared(files, entries):
        command = f"python3 {workdir}/tools/{file.name}"
        tools.append(DeclaredTool(file.stem, _description(file, command), command, ANY_OBJECT))
    return tuple(tools)


def file_problems(task_dir: Path, entries: Sequence[ToolConfig]) -> Iterator[str]:
    """Yield a line for each file without an entry whose name cannot be a tool's."""
    for file in _undeclared(tool_files(task_dir), entries):
        where, name = shown_path(file), file.stem
        if name in BUILT_IN:
            yield f"{where}: {name!r} is a built-in tool; rename the file"
        elif not re.fullmatch(TOOL_NAME, name):
            yield (
                f"{where}: {name!r} is not a tool's name; rename the file, or name it in the "
                "'command' of an entry in [[environment.tools]]"
            )


def entry_problems(task_dir: Path, entries: Sequence[ToolConfig]) -> Iterator[str]:
    """Yield a line for each entry that has neither a command nor a file."""
    if all(entry.command for entry in entries):
        return
    stems = [file.stem for file in tool_files(task_dir)]
    for index, entry in enumerate(entries):
        if entry.command is None and entry.name not in stems:
            near = nearest(entry.name, stems)
            right = f"did you mean {near!r}?" if near else "add the file, or write a 'command'"
            missing = f"there is no file tools/{entry.name}.py"
            yield f"environment.tools.{index}.name: {missing}; {right}"


def _undeclared(files: Sequence[Path], entries: Sequence[ToolConfig]) -> list[Path]:
    """Return the files without an entry, except those that others import."""
    names = {entry.name for entry in entries}
    commands = [entry.command for entry in entries if entry.command]
    return [
        file
        for file in files
        if file.stem not in names
        and not file.name.startswith("_")
        and not any(f"tools/{file.name}" in command for command in commands)
    ]


def _of_entry(entry: ToolConfig, file: Path | None, workdir: PurePosixPath) -> DeclaredTool:
    command = entry.command or f"python3 {workdir}/tools/{entry.name}.py"
    description = entry.description or _description(file, command)
    given = entry.parameters
    parameters = {"type": "object", "properties": {}, **given} if given else ANY_OBJECT
    return DeclaredTool(entry.name, description, command, parameters, entry.timeout_sec)


def _description(file: Path | None, command: str) -> str:
    docstring = _docstring(file) if file else None
    return docstring or f"Run {command!r} with a JSON object on standard input."


def _docstring(file: Path) -> str | None:
    """Return the docstring of a module, which is parsed but not run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd escapes in the task's file
            return ast.get_docstring(ast.parse(read_text(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
