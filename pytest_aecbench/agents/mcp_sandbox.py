"""The MCP servers of a task: in the sandbox, spoken to through ``mcp_bridge``."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents import mcp_bridge
from pytest_aecbench.agents.exchange import GRACE_SEC, Exchange, NoAnswerError
from pytest_aecbench.agents.mcp_results import failure, offered_tools, output_from
from pytest_aecbench.errors import BackendError, LaunchError, TaskError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_aecbench.agents.mcp_results import OfferedTool
    from pytest_aecbench.agents.tools import ToolOutput
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.schema import McpServerConfig

__all__ = ["START_SEC", "sandbox_server"]

START_SEC = 60.0
_NO_PYTHON = 97
_DIRECTORY = re.compile(r"/tmp/aecbench-mcp-\w+")  # noqa: S108  (made by mktemp in the sandbox)
# Secrets are in a variable, because every process in the sandbox can read a command line.
_START = """
command -v python3 >/dev/null || exit {no_python}
directory=$(umask 077 && mktemp -d /tmp/aecbench-mcp-XXXXXXXX) || exit 1
cat > "$directory/bridge.py" <<'AECBENCH_BRIDGE'
{bridge}
AECBENCH_BRIDGE
python3 "$directory/bridge.py" serve "$directory" <<'AECBENCH_SERVER' && echo "$directory"
{server}
AECBENCH_SERVER
"""


@contextmanager
def sandbox_server(server: McpServerConfig, sandbox: Sandbox) -> Iterator[list[OfferedTool]]:
    """Start a server in the sandbox, or reach it from there, and yield its tools.

    Raises:
        TaskError: the image has no Python.
        LaunchError: the server did not start.

    """
    bridge = _start(server, sandbox)
    try:
        yield _tools(server, bridge)
    finally:
        bridge.stop()


def _start(server: McpServerConfig, sandbox: Sandbox) -> _Bridge:
    config = {**server.to_json(), "start_sec": START_SEC}
    secret = {name: config.pop(name, {}) for name in ("env", "headers")}
    bridge = Path(mcp_bridge.__file__).read_text("utf-8")
    command = _START.format(no_python=_NO_PYTHON, bridge=bridge, server=json.dumps(config))
    env = {mcp_bridge.VARIABLE: json.dumps(secret)}
    done = sandbox.execute(command, env=env, timeout_sec=START_SEC)
    if done.returncode == _NO_PYTHON:
        raise TaskError(
            "environment.mcp_servers: the image has no python3, by which the servers are reached; "
            "install it in the image"
        )
    directory = done.stdout.strip()
    if done.returncode != 0 or not _DIRECTORY.fullmatch(directory):
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise LaunchError(f"mcp server {server.name!r}: cannot be started; {said[:500]}")
    return _Bridge(sandbox, directory)


def _tools(server: McpServerConfig, bridge: _Bridge) -> list[OfferedTool]:
    try:
        answer = bridge.ask({"do": "list"}, START_SEC)
        if isinstance(tools := answer.get("tools"), list):
            return offered_tools(server.name, tools, bridge.call)
        why = str(answer.get("error"))
    except (NoAnswerError, RecursionError) as error:
        why = str(error)
    said = " ".join(why.split())[:1000]
    raise LaunchError(f"mcp server {server.name!r}: did not start; {said}")


class _Bridge(Exchange):
    """The bridge in the sandbox."""

    def __init__(self, sandbox: Sandbox, directory: str) -> None:
        command = f"python3 {directory}/bridge.py ask {directory}"
        super().__init__(sandbox, command, "server", mcp_bridge.PIECE, mcp_bridge.MAX_MESSAGE)

    def call(self, name: str, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Call a tool; everything that goes wrong in the sandbox is an error for the model."""
        request = {"do": "call", "name": name, "arguments": arguments, "timeout": timeout_sec}
        try:
            answer = self.ask(request, timeout_sec)
        except NoAnswerError as error:
            return failure(error)
        return output_from(answer["result"]) if "result" in answer else failure(answer.get("error"))

    def stop(self) -> None:
        """Let the server end and remove the bridge; processes that remain die with the sandbox."""
        with suppress(BackendError, NoAnswerError):
            self.ask({"do": "stop"}, GRACE_SEC)
