"""A loopback server with the models of all providers, which say what a script has them say."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from aiohttp import web

from tests.standins.models import anthropic, bedrock, openai
from tests.standins.models.checking import Malformed
from tests.standins.models.scripts import (
    FAULTS,
    ODD_TURNS,
    Fault,
    Turn,
    fault_in,
    headers_of,
    turn_from,
)
from tests.standins.server import Handler, Server

__all__ = ["ACCESS_KEY_ID", "KEY", "ModelServer"]

KEY = "sk-standin-4242abcdefghijklmnopqrstuvwxyz0007"
ACCESS_KEY_ID = "AKIASTANDIN000000001"


class _Format(NamedTuple):
    """How a vendor says things; each function gets what it needs of a request."""

    check: Callable[[Any, web.Request, str, tuple[Turn, ...]], None]
    turns_so_far: Callable[[Any], int]
    reply: Callable[[Turn, int, str, Any], dict[str, Any]]
    error: Callable[[Fault], dict[str, Any]]
    request_id: str


MESSAGES = _Format(
    lambda body, request, _model, script: anthropic.check(body, request.headers, script),
    anthropic.turns_so_far,
    lambda turn, number, model, _: anthropic.reply(turn, number, model),
    anthropic.error,
    "request-id",
)
CHAT = _Format(
    lambda body, _request, _model, script: openai.check_chat(body, script),
    openai.chat_turns_so_far,
    lambda turn, number, model, _: openai.chat_reply(turn, number, model),
    openai.error,
    "x-request-id",
)
RESPONSES = _Format(
    lambda body, _request, _model, script: openai.check_responses(body, script),
    openai.responses_turns_so_far,
    lambda turn, number, _, body: openai.responses_reply(turn, number, body),
    openai.error,
    "x-request-id",
)
CONVERSE = _Format(
    lambda body, _request, model, script: bedrock.check(body, model, script),
    bedrock.turns_so_far,
    lambda turn, number, _model, _body: bedrock.reply(turn, number),
    bedrock.error,
    "x-amzn-RequestId",
)


class ModelServer(Server):
    """Models that follow ``scripts``, by name; a model without one says "done".

    The number of the model's turns in a request says which turn of its script comes next, and the
    last one is repeated. A model in ``policies`` does not follow a script, but says what a function
    makes of the request, after ``delay_sec``. ``queue`` names faults of the next requests, "" for
    none; a model's name may order one, too: see ``fault_in``. ``most_at_once`` counts requests.
    """

    def __init__(self, *, keyless: bool = False) -> None:
        super().__init__()
        self.scripts: dict[str, tuple[Turn, ...]] = {}
        self.policies: dict[str, Callable[[Any], Turn]] = {}
        self.delay_sec = 0.0
        self.at_once = self.most_at_once = 0
        self.queue: deque[str] = deque()
        self.keyless = keyless
        self._failed: Counter[str] = Counter()
        self.start(self.routes())

    def environment(self, *providers: str) -> dict[str, str]:
        """Return the variables that lead these providers here."""
        variables = {
            "anthropic": {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.url},
            "azure": {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": self.url},
            "bedrock": {
                "AWS_BEARER_TOKEN_BEDROCK": KEY,
                "AWS_BEDROCK_ENDPOINT": self.url,
                "AWS_REGION": "eu-north-1",
            },
            "openai": {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{self.url}/v1"},
        }
        return {name: value for wanted in providers for name, value in variables[wanted].items()}

    def routes(self) -> web.RouteTableDef:
        routes = web.RouteTableDef()
        routes.post("/v1/messages")(self._handler(MESSAGES))
        for base in ("/v1", "/openai/v1"):
            routes.post(f"{base}/chat/completions")(self._handler(CHAT))
            routes.post(f"{base}/responses")(self._handler(RESPONSES))
        routes.post("/openai/deployments/{model}/chat/completions")(self._handler(CHAT))
        routes.post("/openai/responses")(self._handler(RESPONSES))
        routes.post("/model/{model:.+}/converse")(self._handler(CONVERSE))
        routes.get("/calls")(self._show_calls)
        routes.post("/scripts")(self._take_scripts)
        return routes

    async def _show_calls(self, request: web.Request) -> web.Response:
        return web.json_response([vars(call) for call in self.calls])

    async def _take_scripts(self, request: web.Request) -> web.Response:
        self.take(await request.json())
        return web.json_response({})

    def take(self, scripts: Mapping[str, Any]) -> None:
        """Use scripts that are given as JSON: model -> list of turns."""
        for model, turns in scripts.items():
            self.scripts[model] = tuple(turn_from(turn) for turn in turns)

    def _handler(self, form: _Format) -> Handler:
        async def serve(request: web.Request) -> web.StreamResponse:
            body = await request.json()
            model = request.match_info.get("model") or body.get("model", "")
            if not self.keyless and not _has_key(request):
                return self._failure(form, FAULTS["unauthorised"], _key_of(request))
            order = self._ordered(model)
            if order in FAULTS:
                return await self._fail(request, form, FAULTS[order])
            if "deployments" in request.path and "api-version" not in request.query:
                return self._failure(form, FAULTS["missing"])
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                return await self._reply(request, form, model, order)
            finally:
                self.at_once -= 1

        return serve

    def _ordered(self, model: str) -> str | None:
        if self.queue:
            return self.queue.popleft() or None
        found = fault_in(model)
        if found is None:
            return None
        name, times = found
        self._failed[model] += 1
        return None if times is not None and self._failed[model] > times else name

    async def _reply(
        self, request: web.Request, form: _Format, model: str, order: str | None
    ) -> web.StreamResponse:
        body = await request.json()
        script = self.scripts.get(model, (Turn("done"),))
        if policy := self.policies.get(model):
            await asyncio.sleep(self.delay_sec)
            script = (policy(body),)
        if order is not None:
            script = (ODD_TURNS[order], *script)
        try:
            form.check(body, request, model, script)
        except Malformed as error:
            return self._failure(form, _malformed(error))
        number = form.turns_so_far(body)
        reply = form.reply(script[min(number, len(script) - 1)], number, model, body)
        headers = {form.request_id: f"req_{number}"}
        if not body.get("stream"):
            return web.json_response(reply, headers=headers)
        return await _stream(request, reply, headers)

    def _failure(self, form: _Format, fault: Fault, key: str = KEY) -> web.Response:
        headers = {form.request_id: "req_fault", **headers_of(fault)}
        if form is CONVERSE:
            headers["x-amzn-ErrorType"] = f"{fault.bedrock[0]}:http://internal.amazon.com/"
        text = json.dumps(form.error(fault))
        text = text.replace("{key}", key).replace("{part}", f"{key[:10]}****{key[-4:]}")
        return web.Response(
            text=text, status=fault.status, headers=headers, content_type="application/json"
        )

    async def _fail(self, request: web.Request, form: _Format, fault: Fault) -> web.StreamResponse:
        if fault.way is None:
            return self._failure(form, fault, _key_of(request))
        if fault.way == "hang":
            return await _silence(request)
        if fault.way == "inside":
            return await _inside(request, form.error(fault))
        if fault.way == "page":
            page = "<html><body>502 Bad Gateway</body></html>"
            return web.Response(text=page, status=502, content_type="text/html")
        if fault.way == "odd":
            odd = {"content": 5, "choices": {}, "output": None, "stop_reason": []}
            return web.json_response(odd)
        if fault.way == "torn":
            return web.Response(text='{"id": "msg_1", "con', content_type="application/json")
        return await _interrupted(request, for_ever=fault.way == "drip")


def _malformed(error: Malformed) -> Fault:
    message = str(error)
    invalid = "invalid_request_error"
    fault = Fault(400, (invalid, message), (invalid, error.code, message))
    return replace(fault, bedrock=("ValidationException", message))


def _key_of(request: web.Request) -> str:
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return request.headers.get("x-api-key") or request.headers.get("api-key") or bearer


def _has_key(request: web.Request) -> bool:
    signed = request.headers.get("Authorization", "")
    return _key_of(request) == KEY or (
        signed.startswith("AWS4-HMAC-SHA256") and f"Credential={ACCESS_KEY_ID}/" in signed
    )


async def _interrupted(request: web.Request, *, for_ever: bool) -> web.StreamResponse:
    """Send the beginning of an answer and then reset the connection, or send spaces for ever."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = 100_000
    await response.prepare(request)
    await response.write(b'{"id": ')
    while for_ever:
        await response.write(b" ")
        await asyncio.sleep(0.05)
    if request.transport is not None:
        request.transport.abort()
    return response


async def _silence(request: web.Request) -> web.Response:
    """Wait until the client has had enough."""
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.05)
    return web.Response()


async def _inside(request: web.Request, error: dict[str, Any]) -> web.StreamResponse:
    """Say that all is well, and then that it is not."""
    if not (await request.json()).get("stream"):
        return web.json_response(error)
    event = f"event: error\ndata: {json.dumps(error)}\n\n"
    return web.Response(text=event, content_type="text/event-stream")


async def _stream(
    request: web.Request, reply: dict[str, Any], headers: Mapping[str, str]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
    await response.prepare(request)
    for event in anthropic.events(reply):
        await response.write(event)
    return response
