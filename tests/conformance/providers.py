"""The ways to models that tests take: each provider, and each form of its API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_aecbench.providers import (
    Image,
    Message,
    Model,
    ModelReply,
    ModelRequest,
    Text,
    ToolResult,
    ToolSpec,
)
from pytest_aecbench.providers.routing import PROVIDERS, check_route, find_route, make_model
from tests.standins.models import ACCESS_KEY_ID, KEY, ModelServer

SECRET_ACCESS_KEY = "standinSecretAccessKey/0123456789abcdefgh"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS = (ToolSpec("bash", "Run a command", SCHEMA), ToolSpec("look", "See a picture", SCHEMA))
SYSTEM = "You are an engineer."
CLAUDE_AT_BEDROCK = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


@dataclass(frozen=True)
class Way:
    """A way to a model; ``{url}`` in variables and settings is the server's address."""

    name: str
    model: str
    path: str
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = 1000

    @property
    def provider(self) -> str:
        return self.name.partition("-")[0]

    def fault(self, name: str) -> str:
        """Return the name of a model that has this fault."""
        return f"{self.model}-fault-{name}"


BEDROCK = {"AWS_REGION": "eu-north-1", "AWS_BEDROCK_ENDPOINT": "{url}"}
AZURE = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "{url}"}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY}
ANTHROPIC = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"}
OPENAI = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1"}

WAYS = {
    way.name: way
    for way in (
        Way("anthropic", "claude-sonnet-4-5", "/v1/messages", ANTHROPIC),
        Way("anthropic-streamed", "claude-opus-5", "/v1/messages", ANTHROPIC, {}, 30_000),
        Way("openai-chat", "gpt-4o", "/v1/chat/completions", OPENAI),
        Way("openai-responses", "gpt-5", "/v1/responses", OPENAI),
        Way(
            "together",
            "meta-llama/Llama-4",
            "/v1/chat/completions",
            {"TOGETHER_API_KEY": KEY},
            {"base_url": "{url}/v1"},
        ),
        Way("azure-deployment", "gpt-4o", "/openai/deployments/gpt-4o/chat/completions", AZURE),
        Way(
            "azure-v1",
            "gpt-5",
            "/openai/v1/responses",
            {**AZURE, "AZURE_OPENAI_ENDPOINT": "{url}/openai/v1/"},
        ),
        Way(
            "bedrock-token",
            CLAUDE_AT_BEDROCK,
            f"/model/{CLAUDE_AT_BEDROCK.replace(':', '%3A')}/converse",
            {**BEDROCK, "AWS_BEARER_TOKEN": KEY},
        ),
        Way(
            "bedrock-credentials",
            CLAUDE_AT_BEDROCK,
            f"/model/{CLAUDE_AT_BEDROCK.replace(':', '%3A')}/converse",
            {**BEDROCK, **CREDENTIALS},
        ),
    )
}


def forget_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what leads to the providers of the person who runs the tests out of them."""
    rows = PROVIDERS.values()
    others = {"ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"}
    for name in others | {name for row in rows for name in (*row.variables, *row.optional)}:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)


def at(url: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables or settings that lead to this address."""
    return {name: value.replace("{url}", url) for name, value in values.items()}


def model_at(server: ModelServer, way: Way, model: str | None = None, **settings: Any) -> Model:
    """Return a model at the end of the way, after the checks that precede a run."""
    client = {"kind": way.provider, "settings": {**at(server.url, way.settings), **settings}}
    route = find_route(model or way.model, client, "agents.0")
    check_route(route, "agents.0")
    return make_model(route)


def opening(way: Way, **parameters: Any) -> ModelRequest:
    """Return the first request of a conversation."""
    messages = (Message("user", (Text("What is in the directory?"),)),)
    return ModelRequest(messages, SYSTEM, TOOLS, **{"max_tokens": way.max_tokens, **parameters})


def continued(request: ModelRequest, reply: ModelReply, *results: ToolResult) -> ModelRequest:
    """Return the request that follows a reply; by default each call is answered with its name."""
    calls = reply.message.tool_calls
    answers = results or tuple(ToolResult(call.call_id, (Text(call.name),)) for call in calls)
    said = answers or (Text("Go on."),)
    return ModelRequest(
        (*request.messages, reply.message, Message("user", said)),
        request.system,
        request.tools,
        max_tokens=request.max_tokens,
    )


def picture_of(call_id: str) -> ToolResult:
    return ToolResult(call_id, (Text("a pixel"), Image("image/png", PIXEL)))
