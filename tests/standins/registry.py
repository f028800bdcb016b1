"""A stand-in for a registry of images: an engine of this machine can push to it and pull."""

from __future__ import annotations

import base64
import hashlib
import secrets
from urllib.parse import urlsplit

from aiohttp import web

from tests.standins.server import Handler, Server

__all__ = ["FullRegistry", "RegistryServer"]


class RegistryServer(Server):
    """Keeps blobs and manifests in memory; ``password`` is that of anyone who may use it.

    An engine needs no encryption for an address of its own machine.
    """

    PUSH = r"PUT .*/manifests/"
    PULL = r"GET .*/manifests/"

    def __init__(self, password: str | None = None) -> None:
        super().__init__()
        self.password = password
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}  # by name and reference
        self._uploads: dict[str, bytearray] = {}
        self.start(self.routes())

    def reference(self, name: str) -> str:
        """Return how an engine names an image of this registry."""
        return f"{urlsplit(self.url).netloc}/{name}"

    def routes(self) -> web.RouteTableDef:
        routes = web.RouteTableDef()
        routes.get("/v2/")(self._allowed(self._version))
        blobs, manifests = "/v2/{name:.+}/blobs", "/v2/{name:.+}/manifests/{reference}"
        routes.post(f"{blobs}/uploads/")(self._allowed(self._begin))
        routes.patch(f"{blobs}/uploads/{{upload}}")(self._allowed(self._append))
        routes.put(f"{blobs}/uploads/{{upload}}")(self._allowed(self._finish))
        routes.get(f"{blobs}/{{digest}}")(self._allowed(self._blob))
        routes.put(manifests)(self._allowed(self._put_manifest))
        routes.get(manifests)(self._allowed(self._manifest))
        return routes

    def _allowed(self, handler: Handler) -> Handler:
        async def check(request: web.Request) -> web.StreamResponse:
            kind, _, given = request.headers.get("Authorization", "").partition(" ")
            if self.password is not None:
                password = given  # of a bearer
                if kind == "Basic":
                    password = base64.b64decode(given).decode().partition(":")[2]
                if password != self.password:
                    asks = {"WWW-Authenticate": 'Basic realm="stand-in"'}
                    return _error(401, "UNAUTHORIZED", asks)
            try:
                return await handler(request)
            except KeyError:
                return _error(404, "NOT_FOUND")

        return check

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({}, headers={"Docker-Distribution-Api-Version": "registry/2.0"})

    async def _begin(self, request: web.Request) -> web.Response:
        upload = secrets.token_hex(8)
        self._uploads[upload] = bytearray()
        return self._accepted(request, upload)

    async def _append(self, request: web.Request) -> web.Response:
        upload = request.match_info["upload"]
        async for chunk in request.content.iter_any():
            self._uploads[upload] += chunk
        return self._accepted(request, upload)

    def _accepted(self, request: web.Request, upload: str) -> web.Response:
        name, size = request.match_info["name"], len(self._uploads[upload])
        headers = {
            "Location": f"/v2/{name}/blobs/uploads/{upload}",
            "Docker-Upload-UUID": upload,
            "Range": f"0-{max(0, size - 1)}",
        }
        return web.Response(status=202, headers=headers)

    async def _finish(self, request: web.Request) -> web.Response:
        content = bytes(self._uploads.pop(request.match_info["upload"]) + await request.read())
        digest = _digest(content)
        if digest != request.query["digest"]:
            return _error(400, "DIGEST_INVALID")
        self.blobs[digest] = content
        name = request.match_info["name"]
        headers = {"Location": f"/v2/{name}/blobs/{digest}", "Docker-Content-Digest": digest}
        return web.Response(status=201, headers=headers)

    async def _blob(self, request: web.Request) -> web.Response:
        digest = request.match_info["digest"]
        kind = "application/octet-stream"
        return web.Response(body=self.blobs[digest], content_type=kind)

    async def _put_manifest(self, request: web.Request) -> web.Response:
        content, name = await request.read(), request.match_info["name"]
        digest = _digest(content)
        for reference in (request.match_info["reference"], digest):
            self.manifests[name, reference] = (request.content_type, content)
        return web.Response(status=201, headers={"Docker-Content-Digest": digest})

    async def _manifest(self, request: web.Request) -> web.Response:
        key = (request.match_info["name"], request.match_info["reference"])
        kind, content = self.manifests[key]
        headers = {"Docker-Content-Digest": _digest(content)}
        return web.Response(body=content, content_type=kind, headers=headers)


class FullRegistry(RegistryServer):
    """Has every image that it is asked for, so that none has to be built."""

    async def _manifest(self, request: web.Request) -> web.Response:
        return web.json_response({})


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _error(status: int, code: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}
    return web.json_response(body, status=status, headers=headers)
