"""The files that a task gives its REPL: documents as variables, and functions of its own.

Everything that this machine can find wrong with them is a TaskError before the run.
"""

from __future__ import annotations

import ast
import builtins
import codecs
import csv
import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.harness_config import file_of_task
from pytest_aecbench.agents.rlm_config import RLM_FILE, SUBCALLS
from pytest_aecbench.documents.problems import load_toml
from pytest_aecbench.errors import TaskError
from pytest_aecbench.host.files import shown_path

if TYPE_CHECKING:
    from pytest_aecbench.agents.rlm_config import InputTable, RlmConfig
    from pytest_aecbench.tasks.task import Task

__all__ = ["RESERVED", "Staged", "staged"]

RESERVED = {
    *("llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "FINAL", "FINAL_VAR"),
    *("SHOW_VARS", "HELP", "grep", "parallel", "NOTE", "RECALL", "FILL", "STATUS", "SUBMIT"),
    *("SUBCALL_LOG", "fill_parallel"),
    *("ADVISOR", "SubcallError", "ParallelError", "answer", "context", "history"),
}
_MOST_BYTES = 512 * 1024**2
_CHUNK = 1 << 20


@dataclass(slots=True)
class Staged:
    """Inputs and functions as the REPL is told of them, and the files that go there."""

    inputs: list[dict[str, Any]] = field(default_factory=list)
    subcalls: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, Path | bytes] = field(default_factory=dict)


def staged(task: Task, config: RlmConfig) -> Staged:
    """Return what the REPL of a task starts with, or raise a TaskError."""
    made = Staged()
    file = shown_path(task.path / RLM_FILE)
    for name, table in config.inputs.items():
        where = f"{file}: inputs.{name}"
        if name in {*RESERVED, *config.subcalls, *SUBCALLS} or hasattr(builtins, name):
            raise TaskError(f"{where}: the REPL has another {name!r}; choose another name")
        made.inputs.append(_input(task, name, table, made, f"{where}.source"))
    for name, call in config.subcalls.items():
        if name in RESERVED or hasattr(builtins, name):
            right = "choose another name"
            raise TaskError(f"{file}: subcalls.{name}: the REPL has another {name!r}; {right}")
        if not call.enabled:
            continue
        made.subcalls.append({"name": name})
        if call.custom_impl:
            where = f"{file}: subcalls.{name}.custom_impl"
            source, _, function = call.custom_impl.partition(":")
            path = file_of_task(task, source, where)
            _check_function(path, function, where)
            made.files[f"functions/{name}.py"] = path
            made.subcalls[-1] |= {"file": f"functions/{name}.py", "function": function}
    return made


def _input(task: Task, name: str, table: InputTable, made: Staged, where: str) -> dict[str, Any]:
    about = {"name": name, "type": table.type, "parse": table.pre_parse, "path": table.source}
    if PurePosixPath(table.source).is_absolute():
        if PurePosixPath(table.source).parts[1:2] in (("tests",), ("solution",)) or (
            ".." in PurePosixPath(table.source).parts
        ):
            right = "name a file that the agent may read"
            raise TaskError(f"{where}: {table.source!r} is not for agents; {right}")
        return about
    path = file_of_task(task, table.source, where)
    # A file keeps its name, because code may look at its suffix.
    about["path"] = f"inputs/{name}/{path.name}"
    content: Path | bytes = path
    if path.stat().st_size > _MOST_BYTES:
        raise TaskError(f"{where}: the file has over {_MOST_BYTES >> 20} MiB; use a smaller one")
    if table.type != "path":
        _check_text(path, where)
    if table.pre_parse:
        content = _checked(path, table.type, where)
        # Python reads TOML itself only from version 3.11.
        about["type"] = "json" if table.type == "toml" else table.type
    made.files[str(about["path"])] = content
    return about


def _check_text(path: Path, where: str) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        right = "save it as UTF-8, or use type = 'path'"
        raise TaskError(f"{where}: {path.name!r} is not UTF-8; {right}") from None


def _checked(path: Path, kind: str, where: str) -> Path | bytes:
    """Return a file that can be parsed, TOML as JSON."""
    try:
        if kind == "toml":
            return json.dumps(load_toml(path.read_text("utf-8-sig")), default=str).encode()
        if kind == "json":
            json.loads(path.read_text("utf-8-sig"))
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                deque(csv.DictReader(file), maxlen=0)  # never all of it in memory
    except (ValueError, RecursionError, csv.Error) as error:
        why = " ".join(str(error).split())[:200]
        right = "correct the file, or leave pre_parse out"
        raise TaskError(f"{where}: {path.name!r} is not {kind}, {why}; {right}") from None
    return path


def _check_function(path: Path, function: str, where: str) -> None:
    try:
        body = ast.parse(path.read_bytes(), path.name).body
    except (SyntaxError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise TaskError(f"{where}: {path.name!r} is not Python, {why}; correct it") from None
    names = [one.name for one in body if isinstance(one, ast.FunctionDef)]
    if function not in names:
        known = ", ".join(sorted(map(repr, names))) or "a function there"
        raise TaskError(f"{where}: {path.name!r} has no function {function!r}; use {known}")
