"""The tools that a model agent offers: a shell, files, and the end."""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from pytest_aecbench.agents.images import BadImageError, read_image
from pytest_aecbench.providers import Image, ToolSpec
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = [
    "SUBMIT",
    "BadArgumentsError",
    "Bash",
    "ReadFile",
    "Tool",
    "ToolOutput",
    "WriteFile",
    "clipped",
]

SUBMIT = "submit"
# A model sees both ends of a longer output.
MAX_OUTPUT_CHARS = 10_000
MAX_COMMAND_BYTES = 100_000
MAX_PATH_BYTES = 4096
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# Where a file's content is uploaded, before the agent's user copies it to its place.
_UPLOADED = "/logs/agent/.aecbench-write"


class BadArgumentsError(Exception):
    """A model called a tool with arguments that the tool does not take."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool: text and images for the model, and the command's end for the record."""

    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False
    command: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None


class Tool(Protocol):
    """Something that a model can use."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is declared to the model."""
        ...

    def run(self, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Use the tool.

        Raises:
            BadArgumentsError: the arguments do not fit; the model is told.
            BackendError: the sandbox failed.

        """
        ...


def clipped(text: str, length: int = MAX_OUTPUT_CHARS) -> str:
    """Return both ends of a text that is longer than ``length``, and how much is left out."""
    return both_ends(text, length)


class Bash:
    """Runs a command in the sandbox."""

    spec = ToolSpec(
        "bash",
        "Run a command with bash in the working directory. Each call is a new shell: variables and "
        "cd do not carry over, files do. Returns the exit code, stdout and stderr.",
        {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "the command"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    )

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def run(self, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Run the command."""
        command = text_argument(arguments, "command")
        # The kernel takes neither, and what a model writes must not look like a broken sandbox.
        if "\0" in command or len(command.encode()) > MAX_COMMAND_BYTES:
            raise BadArgumentsError(
                f"'command' has to be shorter than {MAX_COMMAND_BYTES} bytes and without NUL; "
                "write a long script to a file first"
            )
        return output_of(self._sandbox.execute(command, timeout_sec=timeout_sec), command)


class ReadFile:
    """Reads a text file of the sandbox, a part of it, or an image."""

    spec = ToolSpec(
        "read_file",
        "Read a text file, or look at a PNG, JPEG, GIF or WebP image. Long texts are returned with "
        "the middle left out; use offset and limit to read a part.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "an absolute or relative path"},
                "offset": {"type": "integer", "description": "the first line, from 1"},
                "limit": {"type": "integer", "description": "how many lines"},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    )

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def run(self, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Read the file."""
        path = path_argument(arguments)
        if PurePosixPath(path).suffix.lower() in _IMAGES:
            return self._image(path, timeout_sec)
        first = _count_argument(arguments, "offset", 1)
        last = first + limit - 1 if (limit := _count_argument(arguments, "limit", 0)) else "$"
        whole = (first, last) == (1, "$")
        command = f"{'cat' if whole else f'sed -n {first},{last}p'} -- {shlex.quote(path)}"
        done = self._sandbox.execute(command, timeout_sec=timeout_sec)
        if done.returncode != 0:
            return output_of(done, command)
        return ToolOutput(clipped(done.stdout) or "(the file is empty)", exit_code=0)

    def _image(self, path: str, timeout_sec: float) -> ToolOutput:
        try:
            image = read_image(self._sandbox, path, timeout_sec)
        except BadImageError as error:
            return ToolOutput(str(error), is_error=True)
        return ToolOutput(f"{path}, {image.media_type}", (image,), exit_code=0)


class WriteFile:
    """Writes a file in the sandbox, as the agent's user."""

    spec = ToolSpec(
        "write_file",
        "Write a file; a file that exists is replaced, missing directories are made.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "an absolute or relative path"},
                "content": {"type": "string", "description": "the whole content"},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
    )

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def run(self, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Write the file."""
        path, content = path_argument(arguments), text_argument(arguments, "content")
        done = write_text(self._sandbox, path, content, timeout_sec)
        if done.returncode != 0:
            return output_of(done, None)
        return ToolOutput(f"wrote {len(content.encode('utf-8', 'replace'))} bytes", exit_code=0)


def write_text(
    sandbox: Sandbox, path: str, content: str, timeout_sec: float
) -> BackendExecutionResult:
    """Write a file of the sandbox with the permissions of the sandbox's user."""
    with tempfile.TemporaryDirectory(prefix="aecbench-write-") as directory:
        source = Path(directory, "content")
        source.write_bytes(content.encode("utf-8", "replace"))
        source.chmod(0o644)
        target, parent = shlex.quote(path), shlex.quote(str(PurePosixPath(path).parent))
        return sandbox.execute(
            f"mkdir -p -- {parent} && cat {_UPLOADED} > {target}; "
            f"code=$?; rm -f {_UPLOADED}; exit $code",
            timeout_sec=timeout_sec,
            uploads={_UPLOADED: source},
        )


def output_of(done: BackendExecutionResult, command: str | None) -> ToolOutput:
    """Return a command's end as a model gets it."""
    if done.timed_out:
        head = (
            f"timed out after {done.duration_sec:.0f} s; the command and its children were killed. "
            "Start what takes longer in the background (nohup ... &) and look at it later."
        )
    else:
        head = f"exit code {done.returncode}"
    parts = [head, clipped(done.stdout.rstrip("\n"))]
    if done.stderr.strip():
        parts += ["stderr:", clipped(done.stderr.rstrip("\n"))]
    return ToolOutput(
        "\n".join(part for part in parts if part),
        is_error=done.timed_out or done.returncode != 0,
        command=command,
        stdout=clipped(done.stdout),
        stderr=clipped(done.stderr),
        exit_code=done.returncode,
    )


def text_argument(arguments: Mapping[str, Any], name: str) -> str:
    """Return an argument that has to be a string."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise BadArgumentsError(f"{name!r} has to be a string")
    return value.encode("utf-8", "replace").decode()  # JSON can escape half a character


def path_argument(arguments: Mapping[str, Any]) -> str:
    """Return the argument ``path``, which has to be one."""
    path = text_argument(arguments, "path")
    if not path.strip() or "\0" in path or len(path.encode()) > MAX_PATH_BYTES:
        raise BadArgumentsError("'path' has to be the path of a file")
    return path if PurePosixPath(path).is_absolute() else f"./{path}"


def _count_argument(arguments: Mapping[str, Any], name: str, default: int) -> int:
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadArgumentsError(f"{name!r} has to be a whole number from 1")
    return value
