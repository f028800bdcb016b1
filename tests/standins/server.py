"""A loopback server in a thread of its own, with a log of calls and faults to order."""

from __future__ import annotations

import asyncio
import json
import math
import re
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web

from tests.standins.executor import Executor

__all__ = ["DROP", "Call", "Fault", "Handler", "Server", "ServerThread", "VendorServer"]

DROP = web.RequestKey("drop", bool)
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Call:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None


@dataclass
class Fault:
    """What goes wrong with the next ``times`` calls that match ``pattern``, such as ``POST /x``.

    Instead of being done, they are answered with ``status``, or never (``hang``, with ``done`` once
    they have been done); or they are done, and then the connection is closed before the whole
    answer is there (``drop``). It ends ``until`` a moment of the monotonic clock at the latest.
    """

    pattern: str
    times: int = 1
    status: int | None = None
    message: str = "ordered by the test"
    retry_after: str | None = None
    hang: bool = False
    done: bool = False
    drop: bool = False
    until: float = math.inf

    def befalls(self, call: str) -> bool:
        """Tell whether it is about this call, which counts."""
        if self.times <= 0 or time.monotonic() > self.until or not re.search(self.pattern, call):
            return False
        self.times -= 1
        return True

    def answer(self) -> web.Response:
        headers = {"Retry-After": self.retry_after} if self.retry_after else {}
        body = {"code": self.status, "message": self.message}
        return web.json_response(body, status=self.status or 500, headers=headers)


class ServerThread(threading.Thread):
    """A thread in which ``serving`` answers calls until it is closed."""

    def __init__(self, serving: AbstractAsyncContextManager[None]) -> None:
        super().__init__(daemon=True)
        self._serving = serving
        self._ready = threading.Event()
        self.start()
        assert self._ready.wait(30)

    def run(self) -> None:
        asyncio.run(self._serve())  # which leaves neither tasks nor threads behind

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with self._serving:
            self._ready.set()
            await self._ended.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self.join(30)


@dataclass
class Server:
    """Serves ``routes`` at an address of this machine until it is closed."""

    url: str = ""
    host: str = "127.0.0.1"
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    spent_sec: float = 0.0  # in calls, all of them together
    _thread: ServerThread | None = None

    def start(self, routes: web.RouteTableDef) -> None:
        self._thread = ServerThread(self._serving(routes))

    @asynccontextmanager
    async def _serving(self, routes: web.RouteTableDef) -> AsyncIterator[None]:
        @web.middleware
        async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._watch(request, handler)

        app = web.Application(client_max_size=2**31, middlewares=[watch])
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, self.host, 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        yield
        await runner.cleanup()

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:  # a test may have closed it already
            thread.close()

    def called(self, pattern: str) -> list[Call]:
        """Return the calls that match, such as ``POST /sandboxes``."""
        return [call for call in self.calls if re.search(pattern, f"{call.method} {call.path}")]

    async def _watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.monotonic()
        try:
            return await self._answer(request, handler)
        except ConnectionError:  # the client has left, which is nothing to print a traceback for
            return web.Response()
        finally:
            self.spent_sec += time.monotonic() - started

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        body: Any = None
        if "json" in request.content_type and request.content_type == "application/json":
            text = await request.text()
            body = json.loads(text) if text else None
        self.calls.append(
            Call(request.method, request.path_qs, dict(request.headers.items()), body)
        )
        fault = self._fault(request)
        if fault is not None and fault.hang:
            if fault.done:
                await handler(request)
            await asyncio.sleep(3600)
        if fault is not None and fault.status is not None:
            return fault.answer()
        request[DROP] = fault is not None and fault.drop
        response = await handler(request)
        if request[DROP] and request.transport is not None:
            request.transport.abort()
        return response

    def _fault(self, request: web.Request) -> Fault | None:
        call = f"{request.method} {request.path}"
        return next((fault for fault in self.faults if fault.befalls(call)), None)


class VendorServer(Server):
    """Has sandboxes on ``executor``, and runs there what it is asked to run.

    ``skew`` is its clock's error, ``commands`` is what it was asked to run.
    """

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self.executor = executor
        self.skew = timedelta()
        self.sandboxes: dict[str, Any] = {}
        self.commands: list[str] = []
        self.files = Path(tempfile.mkdtemp(dir=executor.home))
        self.start(self.routes())

    def routes(self) -> web.RouteTableDef:
        """Return the vendor's interface."""
        raise NotImplementedError

    def close(self) -> None:
        for sandbox_id in list(self.sandboxes):  # or threads would wait for their commands
            self.preempt(sandbox_id)
        super().close()

    def expire_after(self, seconds: float, sandbox_id: str) -> None:
        """Let a sandbox end by itself."""
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, lambda: loop.run_in_executor(None, self.preempt, sandbox_id))

    def preempt(self, sandbox_id: str) -> None:
        """End a sandbox as its vendor would."""
        self.sandboxes.pop(sandbox_id, None)
        self.executor.kill(sandbox_id)
