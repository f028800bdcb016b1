"""An MCP server of the package ``mcp``."""

from __future__ import annotations

import base64
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import TextContent

# Without other modules of ours, because this one is also run in sandboxes.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def make() -> MCPServer:
    server = MCPServer("sdk")

    @server.tool()
    def add(a: float, b: float = 0) -> str:
        """Add two numbers."""
        return str(a + b)

    @server.tool()
    def variable(name: str) -> str:
        return os.environ.get(name, "unset")

    @server.tool(structured_output=False)
    def picture() -> list[object]:
        return [TextContent(type="text", text="a plot"), Image(data=PNG, format="png")]

    @server.tool()
    def structured() -> dict[str, int]:
        return {"x": 1}

    @server.tool()
    def long(size: int) -> str:
        return "x" * size

    @server.tool()
    def broken() -> str:
        raise ToolError("no such beam")

    @server.tool()
    async def hang() -> str:
        import anyio

        await anyio.sleep_forever()
        raise AssertionError

    @server.tool()
    def die() -> str:
        os._exit(3)

    return server


@contextmanager
def served(
    transport: Literal["streamable-http", "sse"], token: str | None = None, **options: Any
) -> Iterator[str]:
    """Serve on the loopback interface; yield the URL. With a token, others are turned away."""
    import uvicorn

    path = "sse" if transport == "sse" else "mcp"
    app = make().sse_app() if transport == "sse" else make().streamable_http_app(**options)
    guarded = guard(app, token) if token else app
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(guarded, log_level="error", timeout_graceful_shutdown=1, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/{path}"
        finally:
            server.should_exit = True
            thread.join()


def guard(app: Any, token: str) -> Any:
    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != (
            f"Bearer {token}".encode()
        ):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
        else:
            await app(scope, receive, send)

    return guarded


if __name__ == "__main__":
    print("started", file=sys.stderr)
    make().run("stdio")
