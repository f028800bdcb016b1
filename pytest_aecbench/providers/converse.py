"""Converse: the format of Bedrock, in JSON, where bytes are base64."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import RequestRejected
from pytest_aecbench.providers import (
    Image,
    Message,
    ModelReply,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    claude,
)
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.providers import ModelRequest, Part, Stop

__all__ = ["body_of", "reply", "with_bytes", "without_bytes"]

_CACHE_POINT = {"cachePoint": {"type": "default"}}
# Claude before 3.5 and most models of others answer 400 to a cache point.
_CACHING_SINCE = (3, 7)
# JSON of any shape, in which no key has a meaning of its own.
_FREE = ("input", "json", "additionalModelRequestFields")
_EMPTY = [{"text": "(empty)"}]
_STOPS: dict[str, Stop] = {
    "content_filtered": "refusal",
    "guardrail_intervened": "refusal",
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
}


def body_of(model: str, request: ModelRequest) -> dict[str, Any]:
    """Return the body of a request."""
    cached = [_CACHE_POINT] if request.cache_prompt and _takes_cache_points(model) else []
    messages = turns((message.role, _blocks(message)) for message in request.messages)
    if messages:
        messages[-1]["content"] += cached
    limits: dict[str, Any] = {"maxTokens": request.max_tokens}
    if request.temperature is not None:
        limits["temperature"] = request.temperature
    body: dict[str, Any] = {"messages": messages, "inferenceConfig": limits}
    if request.system:
        body["system"] = [{"text": request.system}, *cached]
    if request.tools:
        body["toolConfig"] = {
            "tools": [
                {
                    "toolSpec": {
                        "name": tool.name,
                        "description": tool.description,
                        "inputSchema": {"json": dict(tool.parameters)},
                    }
                }
                for tool in request.tools
            ]
        }
    if request.reasoning_effort is not None:
        body["additionalModelRequestFields"] = _reasoning(model, request)
    return body


def _takes_cache_points(model: str) -> bool:
    known = claude.version(model)
    return known is not None and (known >= _CACHING_SINCE or "claude-3-5-haiku" in model)


def _reasoning(model: str, request: ModelRequest) -> dict[str, Any]:
    effort = request.reasoning_effort
    if "claude" in model:
        return claude.thinking(model, effort, request.max_tokens)
    if re.search(r"(?:^|\.)openai\.", model):
        return {"reasoning_effort": effort}
    raise RequestRejected(
        f"bedrock: reasoning_effort: is not known for {model!r}; use a model of Anthropic or OpenAI"
    )


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message; Bedrock takes no blank text, not even its own."""
    is_native = isinstance(message.native, list)
    blocks = map(_sent_back, message.native) if is_native else map(_block, message.content)
    return [block for block in blocks if "text" not in block or block["text"].strip()]


def _sent_back(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block of a reply as Bedrock takes it back."""
    call = block.get("toolUse")
    return block if call is None or isinstance(call["input"], dict) else _block(_call(call))


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, Image):
        kind = part.media_type.partition("/")[2].lower()
        return {"image": {"format": kind.replace("jpg", "jpeg"), "source": {"bytes": part.data}}}
    if isinstance(part, ToolCall):
        return {"toolUse": {"toolUseId": part.call_id, "name": part.name, "input": as_object(part)}}
    return _tool_result(part)


def _tool_result(result: ToolResult) -> dict[str, Any]:
    content = [
        _block(part) for part in result.content if isinstance(part, Image) or part.text.strip()
    ]
    block: dict[str, Any] = {"toolUseId": result.call_id, "content": content or _EMPTY}
    if result.is_error:
        block["status"] = "error"
    return {"toolResult": block}


def with_bytes(value: Any, key: str = "") -> Any:
    """Return a body as boto3 takes it, with bytes; arguments of tools may be called so, too."""
    if isinstance(value, dict) and key not in _FREE:
        return {name: with_bytes(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    return base64.b64decode(value) if key in ("bytes", "redactedContent") else value


def without_bytes(value: Any) -> Any:
    """Return a reply of boto3 as JSON."""
    if isinstance(value, dict):
        return {name: without_bytes(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_bytes(item) for item in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def reply(data: Any, request_id: Any) -> ModelReply:
    """Return the reply that an answer holds."""
    native = listed(data["output"]["message"]["content"])
    parts: list[Part] = []
    for block in native:
        if "text" in block:
            parts.append(Text(string(block["text"])))
        elif "toolUse" in block:
            parts.append(_call(mapping(block["toolUse"])))
    return ModelReply(
        message=Message("assistant", tuple(parts), native),
        stop=why_stopped(data["stopReason"], _STOPS, parts),
        usage=_usage(data.get("usage")),
        request_id=identifier(request_id),
        reasoning=thoughts(_reasoning_texts(native)),
    )


def _reasoning_texts(blocks: list[dict[str, Any]]) -> Iterator[Any]:
    for block in blocks:
        shown = block.get("reasoningContent", {})
        text = shown.get("reasoningText") if isinstance(shown, dict) else None
        yield text.get("text") if isinstance(text, dict) else None


def _call(call: dict[str, Any]) -> ToolCall:
    return tool_call(call["toolUseId"], call["name"], call["input"])


def _usage(usage: Any) -> Usage:
    return Usage(
        tokens_in=count(usage, "inputTokens"),
        tokens_out=count(usage, "outputTokens"),
        tokens_cache_read=count(usage, "cacheReadInputTokens"),
        tokens_cache_write=count(usage, "cacheWriteInputTokens"),
    )
