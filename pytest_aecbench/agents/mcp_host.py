"""The MCP servers of an agent: on this machine, through the client of the package ``mcp``."""

from __future__ import annotations

import math
import tempfile
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from pytest_aecbench.agents.mcp_results import failure, offered_tools, output_from
from pytest_aecbench.errors import ConnectionFailed, SettingsError
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from anyio import Event
    from anyio.abc import TaskStatus
    from anyio.from_thread import BlockingPortal
    from mcp import Client

    from pytest_aecbench.agents.mcp_results import OfferedTool
    from pytest_aecbench.agents.tools import ToolOutput
    from pytest_aecbench.tasks.schema import McpServerConfig

__all__ = ["START_SEC", "host_server", "open_portal"]

START_SEC = 60.0
_GRACE_SEC = 10.0
_MAX_PAGES = 100
_MAX_MESSAGE = 16 * 1024 * 1024


@contextmanager
def open_portal() -> Iterator[BlockingPortal]:
    """Run an event loop in a thread of its own; all servers of a trial share it."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal(name="aecbench-mcp") as portal:
        yield portal


@contextmanager
def host_server(server: McpServerConfig, portal: BlockingPortal) -> Iterator[list[OfferedTool]]:
    """Start or reach a server and yield its tools.

    Raises:
        ConnectionFailed: nothing speaks MCP at its URL.
        SettingsError: its command does not start a server.

    """
    from anyio import Event

    stop = portal.call(Event)
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        said = cast("TextIO", file)
        held, started = _start(portal, server, stop, said)
        client, tools = started

        def call(name: str, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
            return _call(portal, client, name, arguments, timeout_sec)

        try:
            yield offered_tools(server.name, tools, call)
        finally:
            _end(portal, stop, held)


def _start(
    portal: BlockingPortal,
    server: McpServerConfig,
    stop: Event,
    said: TextIO,
) -> tuple[Future[None], tuple[Client, list[dict[str, Any]]]]:
    try:
        return portal.start_task(_hold, server, stop, said)
    except Exception as error:  # noqa: BLE001  (any failure of the library or the server)
        raise _not_started(server, error, said) from None


def _not_started(server: McpServerConfig, error: Exception, said: TextIO) -> Exception:
    why = f"no answer in {START_SEC:g} s" if isinstance(error, TimeoutError) else _reason(error)
    said.seek(0)
    if words := " ".join(said.read()[-1000:].split()):
        why = f"{why}, {words}"
    message = f"mcp server {server.name!r}: did not start; {why}"
    return ConnectionFailed(message) if server.url else SettingsError(message)


def _reason(error: BaseException) -> str:
    """Return the first cause in a group of errors, on one line."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return one_line(error)


async def _hold(
    server: McpServerConfig,
    stop: Event,
    said: TextIO,
    *,
    task_status: TaskStatus[tuple[Client, list[dict[str, Any]]]],
) -> None:
    """Stay connected until told to stop; all in one task, as the library demands."""
    import anyio

    with anyio.CancelScope(deadline=anyio.current_time() + START_SEC) as scope:
        async with _connected(server, said) as client:
            tools = await _tools(client)
            scope.deadline = math.inf
            task_status.started((client, tools))
            await stop.wait()
    if scope.cancelled_caught:
        raise TimeoutError


@asynccontextmanager
async def _connected(server: McpServerConfig, said: TextIO) -> AsyncIterator[Client]:
    from mcp import Client, StdioServerParameters
    from mcp.client.sse import sse_client
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    headers = dict(server.headers)
    if server.kind == "stdio":
        assert server.command
        parameters = StdioServerParameters(
            command=server.command,
            args=list(server.args),
            env=dict(server.env),
            encoding_error_handler="replace",
        )
        async with Client(stdio_client(parameters, said)) as client:
            yield client
    elif server.kind == "sse":
        async with Client(sse_client(str(server.url), headers)) as client:
            yield client
    else:
        from httpx2 import AsyncClient, Timeout

        # A server may take long to answer; a call has a limit of its own.
        async with (
            AsyncClient(headers=headers, timeout=Timeout(30, read=None)) as http,
            Client(
                streamable_http_client(
                    str(server.url), http_client=http, max_sse_event_size=_MAX_MESSAGE
                )
            ) as client,
        ):
            yield client


async def _tools(client: Client) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += (tool.model_dump(mode="json", by_alias=True) for tool in page.tools)
        if not (cursor := page.next_cursor):
            break
    return tools


def _call(
    portal: BlockingPortal,
    client: Client,
    name: str,
    arguments: Mapping[str, Any],
    timeout_sec: float,
) -> ToolOutput:
    """Call a tool; everything that goes wrong is an error for the model."""
    future = portal.start_task_soon(client.call_tool, name, dict(arguments), timeout_sec)
    try:
        result = future.result(timeout_sec + _GRACE_SEC)
    except (TimeoutError, FutureTimeoutError):
        future.cancel()
        return failure("the server did not answer in time")
    except Exception as error:  # noqa: BLE001  (any failure of the library or the server)
        return failure(f"the server gave no result: {_reason(error)}")
    return output_from(result.model_dump(mode="json", by_alias=True))


def _end(portal: BlockingPortal, stop: Event, held: Future[None]) -> None:
    """Close the connection, which ends a server that we started."""
    portal.call(stop.set)
    try:
        held.result(_GRACE_SEC)
    except (TimeoutError, FutureTimeoutError):
        held.cancel()
    except Exception:  # noqa: BLE001, S110  (a server that has died is closed)
        pass
