"""MCP servers of a task and of an agent, whose tools a model agent offers."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_aecbench.agents.mcp_results import tools_from
from pytest_aecbench.agents.mcp_sandbox import sandbox_server
from pytest_aecbench.documents.variables import expand_in
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.tools import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_aecbench.agents.mcp_results import OfferedTool
    from pytest_aecbench.agents.tools import Tool
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.schema import McpServerConfig
    from pytest_aecbench.tasks.task import Task

__all__ = ["check_servers", "open_servers"]

_KEY = "parameters.mcp_servers"


def check_servers(servers: Sequence[McpServerConfig], where: str) -> None:
    """Raise SettingsError unless an agent's servers can be started, as far as can be told now."""
    if servers and find_spec("mcp") is None:
        raise SettingsError(
            f"{where}: {_KEY}: mcp is not installed; pip install 'pytest-aecbench[mcp]'"
        )
    for index, server in enumerate(_expanded(servers, f"{where}: {_KEY}", os.environ)):
        search_path = server.env.get("PATH", os.environ.get("PATH"))
        if server.command and not shutil.which(server.command, path=search_path):
            raise SettingsError(
                f"{where}: {_KEY}.{index}.command: {server.command!r} is not a program on this "
                "machine; install it or write its path"
            )


@contextmanager
def open_servers(
    servers_of_agent: Sequence[McpServerConfig], task: Task, sandbox: Sandbox
) -> Iterator[list[Tool]]:
    """Yield the tools of the task's servers in the sandbox and of the agent's on this machine.

    Raises:
        TaskError, LaunchError: a server of the task cannot be started.
        SettingsError, ConnectionFailed: a server of the agent cannot be started.
        BackendError: the sandbox failed.

    """
    taken = [*BUILT_IN, *(tool.name for tool in task.declared_tools)]
    with ExitStack() as stack:
        offers: list[OfferedTool] = []
        for server in task.mcp_servers():
            offers += stack.enter_context(sandbox_server(server, sandbox))
        if servers_of_agent:
            from pytest_aecbench.agents.mcp_host import host_server, open_portal

            portal = stack.enter_context(open_portal())
            for server in _expanded(servers_of_agent, _KEY, os.environ):
                offers += stack.enter_context(host_server(server, portal))
        yield [*tools_from(offers, taken)]


def _expanded(
    servers: Sequence[McpServerConfig], where: str, environ: Mapping[str, str]
) -> list[McpServerConfig]:
    """Return the servers with the variables of this machine in them replaced."""
    return [
        server.model_copy(
            update={
                "env": expand_in(server.env, f"{where}.{index}.env", environ),
                "headers": expand_in(server.headers, f"{where}.{index}.headers", environ),
            }
        )
        for index, server in enumerate(servers)
    ]
