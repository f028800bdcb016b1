"""The providers ``openai`` and ``together``, and other servers that speak OpenAI's formats."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from pytest_aecbench.errors import RequestRejected, SettingsError
from pytest_aecbench.providers import chat, faults, responses
from pytest_aecbench.providers.sdks import ask, body_of, headers_of, reading, shared, timeout
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from pytest_aecbench.providers import ModelReply, ModelRequest
    from pytest_aecbench.providers.routing import Route

__all__ = ["OpenAIModel", "Server", "TogetherModel", "make_client"]

_APIS = ("chat", "responses")
_REASONING = re.compile(r"(?:o\d|gpt-(?:[5-9]|\d\d)(?![\w.-]*-chat)|codex-)")
_TOGETHER = "https://api.together.xyz/v1"
# Servers that need no key are sent this, because the SDK wants one.
_NO_KEY = "none"
_NEW_LIMIT, _OLD_LIMIT = "max_completion_tokens", "max_tokens"


class Server(NamedTuple):
    """A server and the key for it; ``is_openai`` where it is OpenAI's own."""

    key: str
    base_url: str | None
    is_openai: bool
    headers: tuple[tuple[str, str], ...] = ()


class OpenAIModel:
    """A model at OpenAI, or at a server that speaks its formats."""

    def __init__(self, route: Route) -> None:
        self.route = route

    @staticmethod
    def check(route: Route, where: str) -> None:
        """Raise SettingsError where the settings name an API that does not exist."""
        api = route.settings.get("api")
        if api is not None and api not in _APIS:
            right = did_you_mean(str(api), _APIS)
            raise SettingsError(f"{where}: client.settings.api: {api!r} is not known; {right}")

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        """Ask once and return the answer."""
        client = self._client()
        if self._api() == "responses":
            parameters = responses.parameters(
                self.route.model, request, reasons=self._is_reasoning()
            )
            return self._ask(client.responses, parameters, timeout_sec)
        parameters = chat.parameters(self.route.model, request)
        limit = self._limit()
        try:
            return self._ask(
                client.chat.completions, {**parameters, limit: request.max_tokens}, timeout_sec
            )
        except RequestRejected as error:
            if limit == _NEW_LIMIT or _NEW_LIMIT not in str(error):
                raise
        # A name, such as that of a deployment, does not always tell which model answers to it.
        parameters[_NEW_LIMIT] = request.max_tokens
        return self._ask(client.chat.completions, parameters, timeout_sec)

    def _ask(self, resource: Any, parameters: dict[str, Any], timeout_sec: float) -> ModelReply:
        import openai

        deadline = time.monotonic() + timeout_sec
        parameters = {**parameters, "timeout": timeout(openai, timeout_sec)}

        def send() -> tuple[bytes, Any]:
            with resource.with_streaming_response.create(**parameters) as response:
                return body_of(response, deadline), response.headers.get("x-request-id")

        body, request_id = ask(openai, self.route, timeout_sec, send)
        data = reading(self.route, lambda: json.loads(body))
        if isinstance(data, dict) and data.get("error"):
            raise faults.from_answer(self.route, faults.Answer.read(None, data, {}))
        read = responses.reply if self._api() == "responses" else chat.reply
        return reading(self.route, lambda: read(data, request_id))

    def _is_reasoning(self) -> bool:
        return _REASONING.match(self.route.model) is not None

    def _api(self) -> str:
        """Return the API; chat completions lose the hidden state of reasoning models."""
        return self.route.settings.get("api") or ("responses" if self._is_reasoning() else "chat")

    def _limit(self) -> str:
        """Return the name of the limit of tokens, of which other servers may know only the old."""
        is_new = self._is_reasoning() or self._server().is_openai
        return _NEW_LIMIT if is_new else _OLD_LIMIT

    def _client(self) -> Any:
        return shared(make_client, self._server())

    def _server(self) -> Server:
        """Return the server; one that the settings name gets no key but theirs."""
        given = self.route.settings.get("base_url")
        key = self.route.settings.get("api_key")
        headers = headers_of(self.route)
        if given and not _is_openai(given):
            return Server(str(key or _NO_KEY), str(given), False, headers)
        key = self.route.variable("OPENAI_API_KEY", "api_key")
        if key is None:
            raise faults.keyless(self.route, "OPENAI_API_KEY")
        base_url = self.route.variable("OPENAI_BASE_URL", "base_url")
        return Server(key, base_url, base_url is None or _is_openai(base_url), headers)


class TogetherModel(OpenAIModel):
    """A model at Together."""

    def _api(self) -> str:
        return self.route.settings.get("api") or "chat"

    def _server(self) -> Server:
        key = self.route.variable("TOGETHER_API_KEY", "api_key")
        if key is None:
            raise faults.keyless(self.route, "TOGETHER_API_KEY")
        base_url = self.route.settings.get("base_url") or _TOGETHER
        return Server(key, str(base_url), False, headers_of(self.route))


def _is_openai(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def make_client(server: Server) -> Any:
    """Make the SDK's client for a server."""
    import openai

    base_url: dict[str, Any] = {"base_url": server.base_url} if server.base_url else {}
    headers = dict(server.headers)
    client = openai.OpenAI(api_key=server.key, default_headers=headers, max_retries=0, **base_url)
    if not server.is_openai:
        # The SDK reads these from the environment. Other servers have no use for them.
        client.organization = client.project = client.admin_api_key = None
    return client
