"""Responses: the format of OpenAI that keeps the hidden state of reasoning models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_aecbench.providers import Image, Message, ModelReply, Text, ToolCall, ToolResult
from pytest_aecbench.providers.chat import described, picture, token_usage
from pytest_aecbench.providers.replies import (
    as_object,
    identifier,
    listed,
    mapping,
    string,
    thoughts,
    tool_call,
    why_stopped,
)

if TYPE_CHECKING:
    from pytest_aecbench.providers import ModelRequest, Part, Stop

__all__ = ["parameters", "reply"]

_ENCRYPTED = "reasoning.encrypted_content"
_STOPS: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}


def parameters(model: str, request: ModelRequest, *, reasons: bool) -> dict[str, Any]:
    """Return the request; nothing is stored at OpenAI, so hidden state travels encrypted."""
    items = [item for message in request.messages for item in _items(message)]
    effort = request.reasoning_effort
    optional = {
        "instructions": request.system or None,
        "temperature": request.temperature,
        "reasoning": {"effort": effort} if effort else None,
        "include": [_ENCRYPTED] if reasons else None,
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": described(tool),
                "parameters": dict(tool.parameters),
                "strict": False,
            }
            for tool in request.tools
        ],
    }
    given = {name: value for name, value in optional.items() if value not in (None, [])}
    limit = request.max_tokens
    return {"model": model, "input": items, "store": False, "max_output_tokens": limit, **given}


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "assistant" and isinstance(message.native, list):
        yield from _sent_back(message.native)
        return
    said: list[Text | Image] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            yield _call(part)
        elif isinstance(part, ToolResult):
            yield _result(part)
        else:
            said.append(part)
    if said:
        kind = "output_text" if message.role == "assistant" else "input_text"
        yield {"role": message.role, "content": [_part(part, kind) for part in said]}


def _sent_back(native: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a reply without reasoning that was cut off, which the API does not take back."""
    last = max((n for n, item in enumerate(native) if item.get("type") != "reasoning"), default=-1)
    return native[: last + 1]


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(as_object(call))
    return {
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": arguments,
    }


def _result(result: ToolResult) -> dict[str, Any]:
    output: Any = "".join(part.text for part in result.content if isinstance(part, Text))
    if any(isinstance(part, Image) for part in result.content):
        output = [_part(part, "input_text") for part in result.content]
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


def _part(part: Text | Image, kind: str) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": kind, "text": part.text}
    return {"type": "input_image", "image_url": picture(part), "detail": "auto"}


def reply(data: Any, request_id: Any) -> ModelReply:
    """Return the reply that an answer holds."""
    native = listed(data["output"])
    parts = [part for item in native for part in _parts(item)]
    refused = any(
        piece.get("type") == "refusal"
        for item in native
        if item.get("type") == "message"
        for piece in listed(item["content"])
    )
    return ModelReply(
        message=Message("assistant", tuple(parts), native),
        stop="refusal" if refused else why_stopped(_reason(data), _STOPS, parts),
        usage=token_usage(
            data.get("usage"), ("input_tokens", "output_tokens"), ("input", "output")
        ),
        model=identifier(data.get("model")),
        request_id=identifier(request_id),
        reasoning=thoughts(_summaries(native)),
    )


def _summaries(items: list[dict[str, Any]]) -> Iterator[Any]:
    for item in items:
        if item.get("type") == "reasoning":
            yield from (piece.get("text") for piece in listed(item.get("summary") or []))


def _reason(data: Mapping[str, Any]) -> str:
    """Return the reason why a reply is incomplete, or its state."""
    if data["status"] == "incomplete":
        return string(mapping(data["incomplete_details"])["reason"])
    if data["status"] != "completed":
        raise ValueError(f"its status is {data['status']!r}")
    return "completed"


def _parts(item: Mapping[str, Any]) -> Iterator[Part]:
    if item.get("type") == "function_call":
        yield tool_call(item["call_id"], item["name"], item["arguments"])
    elif item.get("type") == "message":
        for piece in listed(item["content"]):
            if piece.get("type") in ("output_text", "refusal"):
                yield Text(string(piece.get("text", piece.get("refusal"))))
