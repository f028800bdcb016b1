"""The provider ``anthropic``: the Messages API."""

from __future__ import annotations

import json
import time
import warnings
from typing import TYPE_CHECKING, Any

from pytest_aecbench.providers import (
    Image,
    Message,
    ModelReply,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    faults,
)
from pytest_aecbench.providers.claude import thinking
from pytest_aecbench.providers.events import assembled
from pytest_aecbench.providers.replies import (
    as_object,
    count,
    identifier,
    listed,
    mapping,
    string,
    thoughts,
    tool_call,
    turns,
    why_stopped,
)
from pytest_aecbench.providers.sdks import ask, body_of, headers_of, reading, shared, timeout

if TYPE_CHECKING:
    from pytest_aecbench.providers import ModelRequest, Part, Stop
    from pytest_aecbench.providers.routing import Route

__all__ = ["AnthropicModel"]

# A longer answer may take more than ten minutes, and idle connections do not live that long.
_LONGEST_UNSTREAMED = 21_333
# The first version of the API has a temperature, the one that newer SDKs ask for has not.
_WITH_TEMPERATURE = {"anthropic-version": "2023-06-01"}
_NEAR_THE_END = "The model '.*' is deprecated"
_CACHED = {"cache_control": {"type": "ephemeral"}}
_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "refusal",
}


class AnthropicModel:
    """A model at Anthropic, or at a server that speaks its Messages API."""

    def __init__(self, route: Route) -> None:
        self.route = route

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        """Ask once and return the answer."""
        import anthropic

        _allow_models_near_their_end()
        client = self._client()
        parameters = _parameters(self.route.model, request)
        parameters["timeout"] = timeout(anthropic, timeout_sec)
        deadline = time.monotonic() + timeout_sec

        def send() -> tuple[bytes, Any]:
            with client.messages.with_streaming_response.create(**parameters) as response:
                return body_of(response, deadline), response.headers.get("request-id")

        body, request_id = ask(anthropic, self.route, timeout_sec, send)
        decode = assembled if "stream" in parameters else json.loads
        data = reading(self.route, lambda: mapping(decode(body)))
        if data.get("type") == "error":
            raise faults.from_answer(self.route, faults.Answer.read(None, data, {}))
        return reading(self.route, lambda: _reply(data, request_id))

    def _client(self) -> Any:
        key = self.route.variable("ANTHROPIC_API_KEY", "api_key")
        if key is None:
            raise faults.keyless(self.route, "ANTHROPIC_API_KEY")
        base_url = self.route.variable("ANTHROPIC_BASE_URL", "base_url")
        return shared(_make_client, key, base_url, headers_of(self.route))


def _make_client(key: str, base_url: str | None, headers: tuple[tuple[str, str], ...]) -> Any:
    import anthropic

    return anthropic.Anthropic(
        api_key=key, base_url=base_url, default_headers=dict(headers), max_retries=0
    )


def _allow_models_near_their_end() -> None:
    """Keep the SDK's warning from ending a trial where warnings are errors.

    The filter stays, because threads that put filters back undo one another's.
    """
    if not any(
        message is not None and getattr(message, "pattern", message) == _NEAR_THE_END
        for _, message, *_ in warnings.filters
    ):
        warnings.filterwarnings("ignore", _NEAR_THE_END, DeprecationWarning)


def _parameters(model: str, request: ModelRequest) -> dict[str, Any]:
    cached = _CACHED if request.cache_prompt else {}
    messages = turns((message.role, _blocks(message)) for message in request.messages)
    if messages:
        messages[-1]["content"][-1] = {**messages[-1]["content"][-1], **cached}
    parameters: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": messages,
        **thinking(model, request.reasoning_effort, request.max_tokens),
    }
    if request.max_tokens > _LONGEST_UNSTREAMED:
        parameters["stream"] = True
    if request.system:
        parameters["system"] = [{"type": "text", "text": request.system, **cached}]
    if request.tools:
        parameters["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
    if request.temperature is not None:
        parameters["extra_body"] = {"temperature": request.temperature}
        parameters["extra_headers"] = _WITH_TEMPERATURE
    return parameters


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message; the API takes no blank text, not even its own."""
    is_native = isinstance(message.native, list)
    blocks = map(_sent_back, message.native) if is_native else map(_block, message.content)
    return [block for block in blocks if block.get("type") != "text" or block["text"].strip()]


def _sent_back(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block of a reply as the API takes it back."""
    if block.get("type") != "tool_use" or isinstance(block["input"], dict):
        return block
    return _block(tool_call(block["id"], block["name"], block["input"]))


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}
    if isinstance(part, ToolCall):
        return {
            "type": "tool_use",
            "id": part.call_id,
            "name": part.name,
            "input": as_object(part),
        }
    return _tool_result(part)


def _tool_result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    content = [
        _block(part) for part in result.content if isinstance(part, Image) or part.text.strip()
    ]
    if content:
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block


def _reply(data: dict[str, Any], request_id: Any) -> ModelReply:
    native = listed(data["content"])
    parts: list[Part] = []
    for block in native:
        if block.get("type") == "text":
            parts.append(Text(string(block["text"])))
        elif block.get("type") == "tool_use":
            parts.append(tool_call(block["id"], block["name"], block["input"]))
    return ModelReply(
        message=Message("assistant", tuple(parts), native),
        stop=why_stopped(data["stop_reason"], _STOPS, parts),
        usage=_usage(data.get("usage")),
        model=identifier(data.get("model")),
        request_id=identifier(request_id),
        reasoning=thoughts(block.get("thinking") for block in native),
    )


def _usage(usage: Any) -> Usage:
    return Usage(
        tokens_in=count(usage, "input_tokens"),
        tokens_out=count(usage, "output_tokens"),
        tokens_cache_read=count(usage, "cache_read_input_tokens"),
        tokens_cache_write=count(usage, "cache_creation_input_tokens"),
        tokens_reasoning=count(usage, "output_tokens_details", "thinking_tokens"),
    )
