"""A stand-in for Daytona: its control plane, its object storage and its toolbox, on one port."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import tarfile
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from pytest_aecbench.backends import Limits
from pytest_aecbench.errors import BackendError, SandboxGone
from tests.standins.executor import Executor
from tests.standins.server import DROP, Handler, VendorServer

__all__ = ["API_KEY", "DaytonaServer"]

API_KEY = "dtn_" + "0123456789abcdef" * 4
_ORGANISATION = "org-1"


@dataclass
class _Snapshot:
    name: str
    request: dict[str, Any]
    snapshot_id: str = field(default_factory=lambda: secrets.token_hex(8))
    image_ref: str | None = None
    error: str | None = None


@dataclass
class _Sandbox:
    snapshot: _Snapshot
    request: dict[str, Any]
    created: datetime


class DaytonaServer(VendorServer):
    """Daytona, as its SDK sees it."""

    CREATE = r"POST /sandbox$"
    DOWNLOAD = r"POST .*/files/bulk-download$"
    EXEC = r"POST .*/process/execute$"
    KILL = r"DELETE /sandbox/"
    LIST = r"GET /sandbox$"
    UPLOAD = r"POST .*/files/bulk-upload$"

    def __init__(self, executor: Executor) -> None:
        self.snapshots: dict[str, _Snapshot] = {}
        super().__init__(executor)

    def forget_images(self) -> None:
        """Remove all images, as their owner may."""
        self.snapshots.clear()

    def environment(self) -> dict[str, str]:
        """Return the variables that lead the SDK here."""
        return {"DAYTONA_API_KEY": API_KEY, "DAYTONA_API_URL": self.url}

    def routes(self) -> web.RouteTableDef:
        routes = web.RouteTableDef()
        routes.get("/object-storage/push-access")(self._keyed(self._push_access))
        routes.route("*", "/bucket/{key:.*}")(self._store)
        routes.post("/snapshots")(self._keyed(self._create_snapshot))
        routes.get("/snapshots/{id}")(self._keyed(self._find_snapshot))
        routes.get("/snapshots/{id}/build-logs-url")(self._keyed(self._logs_url))
        routes.get("/snapshots/{id}/logs")(self._keyed(self._logs))
        routes.post("/sandbox")(self._keyed(self._create))
        routes.get("/sandbox")(self._keyed(self._list))
        routes.get("/sandbox/{id}")(self._keyed(self._get))
        routes.delete("/sandbox/{id}")(self._keyed(self._delete))
        toolbox = "/toolbox/{id}"
        routes.post(f"{toolbox}/process/execute")(self._keyed(self._execute))
        routes.post(f"{toolbox}/files/bulk-upload")(self._keyed(self._upload))
        routes.post(f"{toolbox}/files/bulk-download")(self._keyed(self._download))
        return routes

    def _keyed(self, handler: Handler) -> Handler:
        async def check(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Authorization") != f"Bearer {API_KEY}":
                return _error(401, "Unauthorized")
            try:
                return await handler(request)
            except (KeyError, SandboxGone) as error:
                return _error(404, f"{error} not found")

        return check

    # Object storage

    async def _push_access(self, request: web.Request) -> web.Response:
        access = {"accessKey": "a", "secret": "s", "sessionToken": "t", "region": "us-east-1"}
        access |= {"storageUrl": self.url, "organizationId": _ORGANISATION, "bucket": "bucket"}
        return web.json_response(access)

    async def _store(self, request: web.Request) -> web.Response:
        """Do what an S3 client asks for: one object at once, or in parts."""
        key = request.match_info["key"].replace("/", "_")
        path = self.files / key
        if request.method == "HEAD":
            if not path.exists():
                return web.Response(status=404)
            size = str(path.stat().st_size)
            now = datetime.now(timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
            return web.Response(
                headers={"Content-Length": size, "ETag": '"e"', "Last-Modified": now}
            )
        if request.method == "PUT":
            part = request.query.get("partNumber")
            target = path if part is None else path.with_name(f"{key}.part{int(part):04}")
            target.write_bytes(await request.read())
            return web.Response(headers={"ETag": '"e"'})
        if "uploads" in request.query:
            return _xml("<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                        "</InitiateMultipartUploadResult>")  # fmt: skip
        parts = sorted(self.files.glob(f"{key}.part*"))
        path.write_bytes(b"".join(part.read_bytes() for part in parts))
        return _xml("<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")

    # Snapshots

    async def _create_snapshot(self, request: web.Request) -> web.Response:
        asked = await request.json()
        snapshot = _Snapshot(asked["name"], asked)
        self.snapshots[snapshot.name] = snapshot
        directory = self.files / snapshot.snapshot_id
        context = directory / "environment"
        context.mkdir(parents=True)
        build = asked.get("buildInfo") or {"dockerfileContent": f"FROM {asked.get('imageName')}\n"}
        for name in build.get("contextHashes") or ():
            stored = self.files / f"{_ORGANISATION}_{name}_context.tar"
            with tarfile.open(stored) as tar:
                tar.extractall(context, filter="data")
        dockerfile = re.sub(r"(?m)^(USER|ENTRYPOINT) .*$", "", build["dockerfileContent"])
        (context / "Dockerfile").write_text(dockerfile)
        try:
            snapshot.image_ref = await asyncio.to_thread(self.executor.build, directory)
        except BackendError as error:
            snapshot.error = str(error)
        return web.json_response(self._shown_snapshot(snapshot))

    def _shown_snapshot(self, snapshot: _Snapshot) -> dict[str, Any]:
        now = _shown(datetime.now(timezone.utc))
        asked = snapshot.request
        return {
            "id": snapshot.snapshot_id,
            "general": False,
            "name": snapshot.name,
            "state": "active" if snapshot.image_ref else "build_failed",
            "size": 1,
            "entrypoint": None,
            "cpu": asked.get("cpu") or 1,
            "gpu": 0,
            "mem": asked.get("memory") or 1,
            "disk": asked.get("disk") or 3,
            "errorReason": snapshot.error,
            "createdAt": now,
            "updatedAt": now,
            "lastUsedAt": None,
            "sourceSandboxId": None,
        }

    def _snapshot(self, name: str) -> _Snapshot:
        for snapshot in self.snapshots.values():
            if name in (snapshot.name, snapshot.snapshot_id):
                return snapshot
        raise KeyError(name)

    async def _find_snapshot(self, request: web.Request) -> web.Response:
        found = self._snapshot(unquote(request.match_info["id"]))
        return web.json_response(self._shown_snapshot(found))

    async def _logs_url(self, request: web.Request) -> web.Response:
        return web.json_response({"url": f"{self.url}/snapshots/{request.match_info['id']}/logs"})

    async def _logs(self, request: web.Request) -> web.Response:
        snapshot = self._snapshot(request.match_info["id"])
        return web.Response(text=snapshot.error or "built")

    # Sandboxes

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        snapshot = self._snapshot(asked["snapshot"])
        sandbox_id = secrets.token_hex(8)
        limits = Limits(network=not asked.get("networkBlockAll"))
        await asyncio.to_thread(
            self.executor.create, sandbox_id, snapshot.image_ref or "", limits=limits
        )
        created = datetime.now(timezone.utc) + self.skew
        self.sandboxes[sandbox_id] = _Sandbox(snapshot, asked, created)
        if asked.get("ttlMinutes"):
            self.expire_after(asked["ttlMinutes"] * 60, sandbox_id)
        return web.json_response(self._shown_sandbox(sandbox_id))

    def _shown_sandbox(self, sandbox_id: str) -> dict[str, Any]:
        sandbox = self.sandboxes[sandbox_id]
        snapshot = self._shown_snapshot(sandbox.snapshot)
        return {
            "id": sandbox_id,
            "organizationId": _ORGANISATION,
            "name": sandbox_id,
            "snapshot": sandbox.snapshot.name,
            "user": sandbox.request.get("user", "daytona"),
            "env": sandbox.request.get("env", {}),
            "labels": sandbox.request.get("labels", {}),
            "public": False,
            "networkBlockAll": bool(sandbox.request.get("networkBlockAll")),
            "kvm": False,
            "target": "us",
            "cpu": snapshot["cpu"],
            "gpu": 0,
            "memory": snapshot["mem"],
            "disk": snapshot["disk"],
            "state": "started",
            "createdAt": _shown(sandbox.created),
            "toolboxProxyUrl": f"{self.url}/toolbox",
        }

    async def _list(self, request: web.Request) -> web.Response:
        items = [self._shown_sandbox(sandbox_id) for sandbox_id in self.sandboxes]
        return web.json_response({"items": items, "nextCursor": None})

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._shown_sandbox(request.match_info["id"]))

    async def _delete(self, request: web.Request) -> web.Response:
        sandbox_id = request.match_info["id"]
        shown = self._shown_sandbox(sandbox_id) | {"state": "destroying"}
        self.sandboxes.pop(sandbox_id)
        await asyncio.to_thread(self.executor.kill, sandbox_id)
        return web.json_response(shown)

    # The toolbox in a sandbox

    async def _execute(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.commands.append(asked["command"])
        done = await asyncio.to_thread(
            self.executor.run,
            request.match_info["id"],
            asked["command"],
            env=asked.get("envs") or {},
            cwd=asked.get("cwd"),
            timeout_sec=asked.get("timeout"),
        )
        if done.timed_out:
            return _error(408, "command execution timeout")
        answer = json.dumps({"exitCode": done.returncode, "result": done.stdout + done.stderr})
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(answer.encode())
        await response.prepare(request)
        await response.write(answer.encode()[: len(answer) // 2 if request[DROP] else None])
        return response

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.multipart()
        target = ""
        while (part := await form.next()) is not None:
            if part.name == "files[0].path":  # type: ignore[union-attr]
                target = await part.text()  # type: ignore[union-attr]
                continue
            with tempfile.NamedTemporaryFile(dir=self.files) as file:
                while chunk := await part.read_chunk(1 << 20):  # type: ignore[union-attr]
                    file.write(chunk)
                file.flush()
                try:
                    await asyncio.to_thread(
                        self.executor.write, request.match_info["id"], target, Path(file.name)
                    )
                except OSError:
                    reason = f"{target}: write: write {target}: no space left on device"
                    return web.json_response({"errors": [reason], "files": None}, status=400)
        return web.json_response({})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        (path,) = (await request.json())["paths"]
        sandbox_id = request.match_info["id"]
        if sandbox_id not in self.sandboxes:
            raise KeyError(sandbox_id)
        try:
            pieces = await asyncio.to_thread(lambda: list(self.executor.read(sandbox_id, path)))
            name, kind, data = "file", "application/octet-stream", b"".join(pieces)
        except FileNotFoundError:
            name, kind = "error", "application/json"
            missing = {"message": "file not found", "statusCode": 404, "code": "FILE_NOT_FOUND"}
            data = json.dumps(missing).encode()
        body = BytesIO()
        body.write(b"--boundary\r\n")
        body.write(f'Content-Disposition: form-data; name="{name}"; filename="{path}"\r\n'.encode())
        body.write(f"Content-Type: {kind}\r\n\r\n".encode() + data + b"\r\n--boundary--\r\n")
        answer = body.getvalue()
        response = web.StreamResponse(
            headers={"Content-Type": "multipart/form-data; boundary=boundary"}
        )
        response.content_length = len(answer)
        await response.prepare(request)
        await response.write(answer[: len(answer) // 2 if request[DROP] else None])
        return response


def _error(status: int, message: str) -> web.Response:
    body = {"statusCode": status, "message": message, "source": "DAYTONA_API", "code": "X"}
    return web.json_response(body, status=status)


def _xml(text: str) -> web.Response:
    return web.Response(text=f'<?xml version="1.0"?>{text}', content_type="application/xml")


def _shown(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
