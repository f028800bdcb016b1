"""A task: one directory, read and checked."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from pytest_aecbench.errors import BuildError, TaskError
from pytest_aecbench.host.files import read_text, shown_path
from pytest_aecbench.tasks.digest import entries_below, is_ignored, task_digest
from pytest_aecbench.tasks.dockerfile import WORKSPACE, read_dockerfile, working_directory
from pytest_aecbench.tasks.plain import Described, PlainTask, plain_metadata
from pytest_aecbench.tasks.supplied import supplied_files
from pytest_aecbench.tasks.tools import (
    DeclaredTool,
    declared_tools,
    entry_problems,
    file_problems,
    tool_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_aecbench.tasks.schema import McpServerConfig, MetadataConfig, TaskConfig

__all__ = ["INSTRUCTION_FILE", "TASK_FILE", "Task", "find_tasks", "is_task", "named_output"]

TASK_FILE = "task.toml"
INSTRUCTION_FILE = "instruction.md"
SYSTEM_FILE = "system.md"
_OUR_TABLES = ("metadata", "agent", "verifier", "environment")
_VERIFIERS = ("test.sh", "verify.py")
_SOLUTIONS = ("solve.sh", "solve.py")
_WORKSPACE_PATH = re.compile(r"(?<![\w./~-])/workspace/[\w./+@%=~-]*[\w/]")


def is_task(path: Path) -> bool:
    """Return whether the directory is a task of ours, not some other tool's; never raises."""
    file = path / TASK_FILE
    if not os.path.lexists(file):
        return False
    return os.path.lexists(path / INSTRUCTION_FILE) or _has_our_tables(file)


def _has_our_tables(file: Path) -> bool:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(read_text(file))
    except (ValueError, RecursionError):
        return False
    return any(isinstance(data.get(name), dict) for name in _OUR_TABLES)


@dataclass(frozen=True, slots=True)
class Task(Described):
    """A task directory; ``warnings`` lists parts that work but are probably not meant."""

    path: Path
    task_id: str
    config: TaskConfig = field(compare=False)
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: Path, *, task_id: str | None = None) -> Task:
        """Return the checked task, or raise a TaskError with a line for each problem."""
        # Imported here, because pydantic is slow to import and most pytest runs have no tasks.
        from pytest_aecbench.tasks.schema import ParsedConfig, parse_config

        parsed = ParsedConfig(None)
        problems = []
        try:
            parsed = parse_config(read_text(path / TASK_FILE))
        except ValueError as error:
            problems.append(str(error))
        problems += _located(path, parsed.problems)
        if parsed.config is not None:
            tools = parsed.config.environment.tools
            problems += [*_located(path, entry_problems(path, tools)), *file_problems(path, tools)]
        try:
            _read_instruction(path)
        except TaskError as error:
            problems.append(str(error))
        if not _first_file(path / "tests", _VERIFIERS):
            problems.append(f"{shown_path(path / 'tests')}: no verifier; add test.sh or verify.py")
        if problems or parsed.config is None:
            raise TaskError("\n".join(problems))
        return cls(path, task_id or path.name, parsed.config, _located(path, parsed.warnings))

    @staticmethod
    def glance(root: str, task_id: str) -> PlainTask | None:
        """Return what is known of a task without its schema; None if only ``load`` can tell.

        A task with problems or warnings is never found right here.
        """
        # Names are joined as strings, because ten thousand tasks are looked at.
        try:
            metadata = plain_metadata(read_text(f"{root}/{TASK_FILE}"))
            is_told = bool(read_text(f"{root}/{INSTRUCTION_FILE}").strip())
        except ValueError:
            return None
        is_verified = any(os.path.isfile(f"{root}/tests/{name}") for name in _VERIFIERS)  # noqa: PTH113
        if metadata is None or not is_told or not is_verified:
            return None
        if os.path.isdir(f"{root}/tools") and any(file_problems(Path(root), ())):  # noqa: PTH112
            return None
        return PlainTask(task_id, metadata)

    @property
    def instruction(self) -> str:
        """The prompt."""
        return _read_instruction(self.path)

    @property
    def instruction_sha256(self) -> str:
        """The digest of the prompt."""
        return hashlib.sha256(self.instruction.encode()).hexdigest()

    @property
    def system_prompt(self) -> str | None:
        """The task's part of a model's system prompt: its ``system.md``, if it has one."""
        path = self.path / SYSTEM_FILE
        if not os.path.lexists(path):
            return None
        try:
            return read_text(path)
        except ValueError as error:
            raise TaskError(str(error)) from None

    @property
    def metadata(self) -> MetadataConfig:
        """The task's metadata."""
        return self.config.metadata

    @property
    def workdir(self) -> PurePosixPath:
        """The sandbox's working directory."""
        environment = self.config.environment
        path = self.path / "environment" / "Dockerfile"
        dockerfile = None
        if not environment.docker_image and path.exists():
            with suppress(BuildError):  # reported when the image is built
                dockerfile = read_dockerfile(path)
        return working_directory(environment, dockerfile)

    @property
    def verifier_mode(self) -> Literal["shared", "separate"]:
        """The place of the verifier: the agent's sandbox, or one of its own.

        Unless the task says so, it has its own. Tasks of several services, and tasks that do not
        work in ``/workspace``, as most of Harbor's, keep their results anywhere: they share one.
        """
        if self.config.verifier.environment_mode is not None:
            return self.config.verifier.environment_mode
        environment = self.config.environment
        is_known = environment.workdir is not None or environment.docker_image is None
        is_ours = is_known and self.workdir == WORKSPACE and self.config.schema_version is None
        has_services = (self.path / "environment" / "docker-compose.yaml").exists()
        return "separate" if is_ours and not has_services else "shared"

    @property
    def output_path(self) -> PurePosixPath:
        """The file the agent writes: the last one below ``/workspace`` that the prompt names."""
        return named_output(self.instruction)

    def output_below_workdir(self) -> PurePosixPath | None:
        """Return the output file's path in the collected workspace; None if it is elsewhere."""
        output, workdir = self.output_path, self.workdir
        return output.relative_to(workdir) if output.is_relative_to(workdir) else None

    @property
    def tests_dir(self) -> Path:
        """The directory that becomes ``/tests``."""
        return self.path / "tests"

    def verifier_uploads(self) -> dict[str, Path]:
        """Return what is uploaded for the verifier: ``/tests``, then what it lacks."""
        supplied = {f"/{name}": file for name, file in supplied_files(self.path).items()}
        return {"/tests": self.tests_dir, **supplied}

    @property
    def verifier_command(self) -> str:
        """The command that runs the verifier in the sandbox."""
        script = _first_file(self.tests_dir, _VERIFIERS)
        is_python = script and script.suffix == ".py"
        return "python3 /tests/verify.py" if is_python else "bash /tests/test.sh"

    @property
    def solution_dir(self) -> Path:
        """The directory that becomes ``/solution``, for the oracle only."""
        return self.path / "solution"

    @property
    def solution_script(self) -> Path | None:
        """The reference solution, if there is one."""
        return _first_file(self.solution_dir, _SOLUTIONS)

    @property
    def tools(self) -> tuple[Path, ...]:
        """The Python files that the agent gets in ``tools/``."""
        return tool_files(self.path)

    @property
    def declared_tools(self) -> tuple[DeclaredTool, ...]:
        """The tools that agents are told of."""
        return declared_tools(self.tools, self.config.environment.tools, self.workdir)

    def mcp_servers(self, environ: Mapping[str, str] = os.environ) -> tuple[McpServerConfig, ...]:
        """Return the servers for the agent, with the host's variables in them replaced."""
        return tuple(
            server.model_copy(
                update={
                    name: self._expanded(f"environment.mcp_servers.{i}", name, given, environ)
                    for name, given in (("env", server.env), ("headers", server.headers))
                }
            )
            for i, server in enumerate(self.config.environment.mcp_servers)
        )

    def environment_env(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the variables of every command in the sandbox."""
        return self._expanded("environment", "env", self.config.environment.env, environ)

    def verifier_env(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the variables of only the verifier."""
        return self._expanded("verifier", "env", self.config.verifier.env, environ)

    def solution_env(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the variables of only the reference solution."""
        return self._expanded("solution", "env", self.config.solution.env, environ)

    def _expanded(
        self, table: str, key: str, given: Mapping[str, str], environ: Mapping[str, str]
    ) -> dict[str, str]:
        from pytest_aecbench.documents.variables import expand

        expanded = {}
        for name, value in given.items():
            try:
                expanded[name] = expand(value, environ)
            except ValueError as error:
                where = shown_path(self.path / TASK_FILE)
                raise TaskError(f"{where}: {table}.{key}.{name}: {error}") from None
        return expanded

    @property
    def variables(self) -> set[str]:
        """The names of the host's variables that the task hands over."""
        from pytest_aecbench.documents.variables import variables_in

        config = self.config
        servers = [(server.env, server.headers) for server in config.environment.mcp_servers]
        return variables_in(
            [config.environment.env, config.verifier.env, config.solution.env, servers]
        )

    @property
    def digest(self) -> str:
        """The digest of the task's files, independent of their location.

        Each file adds its kind, the length of its path, its path, the length of its content and
        its content, so that no two different trees have the same digest. Links count by their
        target and are not followed; empty directories do not count.
        """
        return task_digest(self.path)

    def changed_since(self, timestamp: float) -> list[str]:
        """Return the files and directories that were changed after a time."""
        return sorted(
            name
            for name, entry in entries_below(self.path)
            if entry.stat(follow_symlinks=False).st_ctime > timestamp
        )


def named_output(instruction: str) -> PurePosixPath:
    """Return the last file below ``/workspace`` that a prompt names."""
    files = [
        PurePosixPath(name)
        for name in _WORKSPACE_PATH.findall(instruction)
        if not name.endswith("/") and "/.." not in name
    ]
    return files[-1] if files else WORKSPACE / "output.jsonl"


def find_tasks(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the id and the directory of every task below ``root``, sorted; links are not followed.

    Hidden directories and the caches of tools are skipped.
    """
    yield from _find_tasks(root, "")


def _find_tasks(directory: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    with os.scandir(directory) as entries:
        names = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    for name in names:
        path = directory / name
        if is_ignored(name) or name.startswith("."):
            continue
        if is_task(path):
            yield f"{prefix}{name}", path
        else:
            yield from _find_tasks(path, f"{prefix}{name}/")


def _located(path: Path, messages: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{shown_path(path / TASK_FILE)}: {message}" for message in messages)


def _read_instruction(path: Path) -> str:
    try:
        text = read_text(path / INSTRUCTION_FILE)
    except ValueError as error:
        raise TaskError(str(error)) from None
    if not text.strip():
        raise TaskError(f"{shown_path(path / INSTRUCTION_FILE)}: empty; write the prompt there")
    return text


def _first_file(directory: Path, names: tuple[str, ...]) -> Path | None:
    # Not Path.is_file, which raises in directories that this user cannot search.
    files = (directory / name for name in names)
    return next((file for file in files if os.path.isfile(file)), None)  # noqa: PTH113
