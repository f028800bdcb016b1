"""The tools of a task, as a model agent offers them."""

from __future__ import annotations

import json
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.images import (
    MAX_IMAGES,
    BadImageError,
    image_from_base64,
    read_image,
)
from pytest_aecbench.agents.tools import BadArgumentsError, ToolOutput, clipped, output_of
from pytest_aecbench.providers import ToolSpec
from pytest_aecbench.text import encodable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.providers import Image
    from pytest_aecbench.tasks.tools import DeclaredTool

__all__ = ["TaskTool", "as_line", "execute_with_input"]

# Longer arguments are uploaded, because a command line has a limit.
_LONGEST_INLINE = 64 * 1024
_UPLOADED = "/logs/agent/.aecbench-input"


class TaskTool:
    """One tool of the task; it runs in the sandbox."""

    def __init__(self, declared: DeclaredTool, sandbox: Sandbox) -> None:
        self._declared = declared
        self._sandbox = sandbox
        self.spec = ToolSpec(declared.name, declared.description, declared.parameters)

    def run(self, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Run the tool's command with the arguments on its standard input."""
        command = self._declared.command
        if self._declared.timeout_sec is not None:
            timeout_sec = min(timeout_sec, self._declared.timeout_sec)
        done = execute_with_input(self._sandbox, command, as_line(arguments), timeout_sec)
        if done.timed_out or done.returncode != 0:
            return output_of(done, command)
        return self._result(done, timeout_sec - done.duration_sec)

    def _result(self, done: BackendExecutionResult, timeout_sec: float) -> ToolOutput:
        """Return what a tool that succeeded printed, and the images that it names."""
        output = ToolOutput(
            clipped(done.stdout.rstrip("\n")) or "(no output)",
            command=self._declared.command,
            stdout=clipped(done.stdout),
            stderr=clipped(done.stderr),
            exit_code=done.returncode,
        )
        if done.truncated and '"images"' in done.stdout[:1000]:
            text = "the output is over 1 MiB; write the image to a file and print its 'image_path'"
            return replace(output, text=text, is_error=True)
        printed = _object(done.stdout)
        if printed is None or not {"images", "image_path"} & printed.keys():
            return output
        try:
            images = tuple(self._images(printed, timeout_sec))
            rest = {name: value for name, value in printed.items() if name != "images"}
            text = clipped(encodable(json.dumps(rest, ensure_ascii=False)))
        except (BadImageError, RecursionError) as error:
            return replace(output, text=f"the tool gave no usable image; {error}", is_error=True)
        return replace(output, text=text, stdout=text, images=images)

    def _images(self, printed: Mapping[str, Any], timeout_sec: float) -> Iterator[Image]:
        given = printed.get("images", [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise BadImageError("images: not a list of objects")
        if len(given) + ("image_path" in printed) > MAX_IMAGES:
            raise BadImageError(f"images: more than {MAX_IMAGES}")
        for number, one in enumerate(given):
            yield image_from_base64(one.get("data"), f"images.{number}")
        if "image_path" in printed:
            yield read_image(self._sandbox, printed["image_path"], timeout_sec)


def execute_with_input(
    sandbox: Sandbox,
    command: str,
    text: str,
    timeout_sec: float,
    env: Mapping[str, str] | None = None,
) -> BackendExecutionResult:
    """Run a command with a line of ASCII on its standard input; no shell interprets the line."""
    inner = f"bash -c {shlex.quote(command)}"
    if len(text) <= _LONGEST_INLINE:
        # JSON is one line here and begins with a bracket, so it cannot end the here-document.
        line = f"{inner} <<'AECBENCH_INPUT'\n{text}\nAECBENCH_INPUT"
        return sandbox.execute(line, timeout_sec=timeout_sec, env=env)
    with tempfile.TemporaryDirectory(prefix="aecbench-input-") as directory:
        source = Path(directory, "input")
        source.write_text(f"{text}\n", encoding="ascii")
        source.chmod(0o644)
        # Opened before it is removed, so that the tool can read it and no later one finds it.
        uploaded = f"{_UPLOADED}-{token_hex(8)}"  # an agent may run several commands at once
        opened = f"exec 3< {uploaded} && rm -f {uploaded}; {inner} <&3 3<&-"
        uploads = {uploaded: source}
        return sandbox.execute(opened, timeout_sec=timeout_sec, env=env, uploads=uploads)


def as_line(value: Mapping[str, Any]) -> str:
    """Return JSON in one line of ASCII, for ``execute_with_input``."""
    try:
        return json.dumps(value)
    except RecursionError:
        raise BadArgumentsError("they are nested too deeply") from None


def _object(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
