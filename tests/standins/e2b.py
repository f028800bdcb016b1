"""A stand-in for E2B: its control plane and the daemon in its sandboxes, on one port."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import struct
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from pytest_aecbench.errors import BackendError, SandboxGone
from tests.standins.executor import Executor
from tests.standins.server import DROP, Handler, VendorServer

__all__ = ["API_KEY", "E2BServer"]

API_KEY = "e2b_" + "0123456789abcdef" * 2 + "01234567"
_ENVELOPE = struct.Struct(">BL")
_END = 2


@dataclass
class _Template:
    template_id: str
    name: str
    cpus: int
    memory_mb: int
    directory: Path
    image_ref: str | None = None
    error: str = ""
    log: list[str] = field(default_factory=list)


@dataclass
class _Sandbox:
    template: _Template
    metadata: dict[str, str]
    started: datetime
    ends: datetime
    token: str
    request: dict[str, Any]


class E2BServer(VendorServer):
    """E2B, as its SDK sees it."""

    CREATE = r"POST /v2/sandboxes$"
    DOWNLOAD = r"GET /files$"
    EXEC = r"POST /process.Process/Start$"
    KILL = r"DELETE /sandboxes/"
    LIST = r"GET /v2/sandboxes$"
    UPLOAD = r"POST /files$"

    def __init__(self, executor: Executor) -> None:
        self.templates: dict[str, _Template] = {}
        super().__init__(executor)

    def forget_images(self) -> None:
        """Remove all images, as their owner may."""
        self.templates.clear()

    def environment(self) -> dict[str, str]:
        """Return the variables that lead the SDK here."""
        return {"E2B_API_KEY": API_KEY, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}

    def routes(self) -> web.RouteTableDef:
        routes = web.RouteTableDef()
        routes.post("/v3/templates")(self._keyed(self._request_build))
        routes.get("/templates/aliases/{name}")(self._keyed(self._find_template))
        routes.get("/templates/{id}/files/{hash}")(self._keyed(self._upload_link))
        routes.put("/upload/{hash}")(self._take_upload)
        routes.post("/v2/templates/{id}/builds/{build}")(self._keyed(self._start_build))
        routes.get("/templates/{id}/builds/{build}/status")(self._keyed(self._build_status))
        for path in ("/sandboxes", "/v2/sandboxes"):
            routes.post(path)(self._keyed(self._create))
        routes.get("/v2/sandboxes")(self._keyed(self._list))
        routes.delete("/sandboxes/{id}")(self._keyed(self._kill))
        routes.get("/health")(self._inside(self._health))
        routes.post("/files")(self._inside(self._write))
        routes.get("/files")(self._inside(self._read))
        routes.post("/process.Process/Start")(self._inside(self._start))
        return routes

    # The control plane

    def _keyed(self, handler: Handler) -> Handler:
        async def check(request: web.Request) -> web.StreamResponse:
            if request.headers.get("X-API-KEY") != API_KEY:
                return _error(401, "Invalid API key")
            return await handler(request)

        return check

    async def _request_build(self, request: web.Request) -> web.Response:
        asked = await request.json()
        template_id = secrets.token_hex(8)
        directory = self.files / template_id
        (directory / "environment").mkdir(parents=True)
        self.templates[template_id] = _Template(
            template_id,
            asked["name"],
            asked.get("cpuCount", 2),
            asked.get("memoryMB", 1024),
            directory,
        )
        answer = {"templateID": template_id, "buildID": template_id, "public": False}
        answer |= {"names": [asked["name"]], "tags": [], "aliases": [asked["name"]]}
        return web.json_response(answer, status=202)

    def _named(self, name: str) -> _Template | None:
        found = [one for one in self.templates.values() if name in (one.name, one.template_id)]
        return next((one for one in found if one.image_ref), None)

    async def _find_template(self, request: web.Request) -> web.Response:
        template = self._named(unquote(request.match_info["name"]))
        if template is None:
            return _error(404, "template alias not found")
        return web.json_response({"templateID": template.template_id, "public": False})

    async def _upload_link(self, request: web.Request) -> web.Response:
        name = request.match_info["hash"]
        present = (self.files / name).exists()
        link = {"present": present, "url": f"{self.url}/upload/{name}"}
        return web.json_response(link, status=201)

    async def _take_upload(self, request: web.Request) -> web.Response:
        (self.files / request.match_info["hash"]).write_bytes(await request.read())
        return web.Response()

    async def _start_build(self, request: web.Request) -> web.Response:
        template = self.templates[request.match_info["id"]]
        asked = await request.json()
        context = template.directory / "environment"
        lines = [f"FROM {asked['fromImage']}"]
        for number, step in enumerate(asked.get("steps", ())):
            lines.append(self._dockerfile_line(step, number, context))
        (context / "Dockerfile").write_text("\n".join(lines) + "\n")
        template.log = [f"step {number}: {line}" for number, line in enumerate(lines)]
        try:
            template.image_ref = await asyncio.to_thread(self.executor.build, template.directory)
        except BackendError as error:
            template.error = str(error)
        return web.Response(status=202)

    def _dockerfile_line(self, step: dict[str, Any], number: int, context: Path) -> str:
        kind, args = step["type"], step.get("args", [])
        if kind == "COPY":
            files = context / f"step-{number}"
            with tarfile.open(self.files / step["filesHash"]) as tar:
                tar.extractall(files, filter="data")
            source = files / args[0]
            if source.is_dir():
                return f"COPY step-{number}/{args[0]}/ {args[1].rstrip('/')}/"
            return f"COPY step-{number}/{args[0]} {args[1]}"
        if kind == "ENV":
            pairs = zip(args[::2], args[1::2], strict=True)
            return "ENV " + " ".join(f"{name}={json.dumps(value)}" for name, value in pairs)
        return f"{kind} {args[0]}"

    async def _build_status(self, request: web.Request) -> web.Response:
        template = self.templates[request.match_info["id"]]
        offset = int(request.query.get("logsOffset", 0))
        now = _shown(datetime.now(timezone.utc))
        entries = [{"timestamp": now, "level": "info", "message": line} for line in template.log]
        status = "ready" if template.image_ref else "error" if template.error else "building"
        answer: dict[str, Any] = {
            "templateID": template.template_id,
            "buildID": template.template_id,
            "status": status,
            "logs": template.log[offset:],
            "logEntries": entries[offset:],
        }
        if template.error:
            answer["reason"] = {"message": template.error, "step": "1", "logEntries": []}
        return web.json_response(answer)

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        template = self._named(asked["templateID"])
        if template is None:
            return _error(404, f"template {asked['templateID']} not found")
        if asked.get("timeout", 300) > 24 * 3600:
            return _error(400, "Timeout cannot be greater than 24 hours")
        from pytest_aecbench.backends import Limits

        sandbox_id = f"i{secrets.token_hex(9)}"
        limits = Limits(network=asked.get("allow_internet_access", True))
        try:
            await asyncio.to_thread(
                self.executor.create, sandbox_id, template.image_ref or "", limits=limits
            )
        except BackendError as error:
            return _error(500, str(error))
        now = datetime.now(timezone.utc) + self.skew
        lifetime = asked.get("timeout", 300)
        self.sandboxes[sandbox_id] = _Sandbox(
            template,
            asked.get("metadata", {}),
            now,
            now + timedelta(seconds=lifetime),
            secrets.token_hex(16),
            asked,
        )
        self.expire_after(lifetime, sandbox_id)
        answer = {"sandboxID": sandbox_id, "templateID": template.template_id, "clientID": "x"}
        answer |= {"envdVersion": "0.6.8"}
        answer |= {"envdAccessToken": self.sandboxes[sandbox_id].token}
        return web.json_response(answer, status=201)

    async def _list(self, request: web.Request) -> web.Response:
        wanted = dict(parse_qsl(unquote(request.query.get("metadata", ""))))
        listed = [
            {
                "sandboxID": sandbox_id,
                "templateID": sandbox.template.template_id,
                "clientID": "x",
                "startedAt": _shown(sandbox.started),
                "endAt": _shown(sandbox.ends),
                "cpuCount": sandbox.template.cpus,
                "memoryMB": sandbox.template.memory_mb,
                "diskSizeMB": 10240,
                "state": "running",
                "envdVersion": "0.6.8",
                "metadata": sandbox.metadata,
            }
            for sandbox_id, sandbox in self.sandboxes.items()
            if wanted.items() <= sandbox.metadata.items()
        ]
        return web.json_response(listed)

    async def _kill(self, request: web.Request) -> web.Response:
        sandbox_id = request.match_info["id"]
        if self.sandboxes.pop(sandbox_id, None) is None:
            return _error(404, f"sandbox {sandbox_id} not found")
        await asyncio.to_thread(self.executor.kill, sandbox_id)
        return web.Response(status=204)

    # The daemon in a sandbox

    def _inside(
        self, handler: Callable[[web.Request, str], Awaitable[web.StreamResponse]]
    ) -> Handler:
        async def find(request: web.Request) -> web.StreamResponse:
            sandbox_id = request.headers.get("E2b-Sandbox-Id", "")
            sandbox = self.sandboxes.get(sandbox_id)
            if sandbox is None:
                return _error(502, f"The sandbox {sandbox_id} was not found")
            if request.path != "/health" and request.headers.get("X-Access-Token") != sandbox.token:
                return _error(401, "unauthorized")
            try:
                return await handler(request, sandbox_id)
            except (SandboxGone, KeyError):
                return _error(502, f"The sandbox {sandbox_id} was not found")

        return find

    async def _health(self, request: web.Request, sandbox_id: str) -> web.Response:
        return web.Response(status=204)

    async def _write(self, request: web.Request, sandbox_id: str) -> web.Response:
        path = request.query["path"]
        with tempfile.NamedTemporaryFile(dir=self.files) as file:
            if request.content_type == "application/octet-stream":
                async for chunk in request.content.iter_any():
                    file.write(chunk)
            else:
                part = await (await request.multipart()).next()
                file.write(await part.read())  # type: ignore[union-attr]
            file.flush()
            try:
                await asyncio.to_thread(self.executor.write, sandbox_id, path, Path(file.name))
            except OSError:
                return _error(507, "not enough disk space available")
        written = [{"name": Path(path).name, "type": "file", "path": path}]
        return web.json_response(written)

    async def _read(self, request: web.Request, sandbox_id: str) -> web.StreamResponse:
        path = request.query["path"]
        try:
            pieces = await asyncio.to_thread(lambda: list(self.executor.read(sandbox_id, path)))
        except FileNotFoundError:
            return _error(404, f"path '{path}' does not exist")
        response = web.StreamResponse()
        response.content_length = sum(map(len, pieces))
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece[: len(piece) // 2] if request[DROP] else piece)
        return response

    async def _start(self, request: web.Request, sandbox_id: str) -> web.StreamResponse:
        body = BytesIO(await request.read())
        _, size = _ENVELOPE.unpack(body.read(_ENVELOPE.size))
        process = json.loads(body.read(size))["process"]
        self.commands.append(" ".join([process["cmd"], *process["args"]]))
        user = (
            base64.b64decode(request.headers.get("Authorization", "Basic cm9vdDo=").split()[1])
            .decode()
            .rstrip(":")
        )
        response = web.StreamResponse(headers={"Content-Type": "application/connect+json"})
        await response.prepare(request)
        await _send(response, {"event": {"start": {"pid": 1}}})
        assert process["cmd"] == "/bin/bash"
        command = process["args"][-1]
        done = await asyncio.to_thread(
            self.executor.run,
            sandbox_id,
            command,
            env=process.get("envs", {}),
            cwd=process.get("cwd", "/"),
            user=user if user != "root" else None,
        )
        stdout = done.stdout.encode()
        if request[DROP]:
            stdout = stdout[: len(stdout) // 2]
        for name, data in (("stdout", stdout), ("stderr", done.stderr.encode())):
            if data:
                shown = base64.b64encode(data).decode()
                await _send(response, {"event": {"data": {name: shown}}})
        if not request[DROP]:
            code = done.returncode or 0
            end = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
            await _send(response, {"event": {"end": end}})
            await _send(response, {}, _END)
        return response


async def _send(response: web.StreamResponse, message: dict[str, Any], flags: int = 0) -> None:
    data = json.dumps(message).encode()
    await response.write(_ENVELOPE.pack(flags, len(data)) + data)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"code": status, "message": message}, status=status)


def _shown(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
