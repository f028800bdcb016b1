"""Chat completions: the format of OpenAI that most other servers speak, too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_aecbench.providers import Image, Message, ModelReply, Text, ToolResult, Usage
from pytest_aecbench.providers.replies import (
    as_object,
    count,
    identifier,
    listed,
    mapping,
    string,
    thoughts,
    tool_call,
    why_stopped,
)
from pytest_aecbench.text import shortened

if TYPE_CHECKING:
    from pytest_aecbench.providers import ModelRequest, Part, Stop, ToolCall, ToolSpec

__all__ = ["described", "parameters", "picture", "reply", "token_usage"]

_MAX_DESCRIPTION = 1024
_STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refusal"}


def parameters(model: str, request: ModelRequest) -> dict[str, Any]:
    """Return the request, but for its limit of tokens, which has two names."""
    messages = [item for message in request.messages for item in _messages(message)]
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    optional: dict[str, Any] = {
        "temperature": request.temperature,
        "reasoning_effort": request.reasoning_effort,
    }
    if request.tools:
        optional["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": described(tool),
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in request.tools
        ]
    given = {name: value for name, value in optional.items() if value is not None}
    return {"model": model, "messages": messages, **given}


def described(tool: ToolSpec) -> str:
    """Return a tool's description at the length that OpenAI takes; longer ones are refused."""
    return shortened(tool.description, _MAX_DESCRIPTION)


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "assistant":
        native = message.native if isinstance(message.native, dict) else {}
        yield _sent_back(native) if native else _assistant(message)
        return
    rest: list[Text | Image] = []
    for part in message.content:
        if isinstance(part, ToolResult):
            text = "".join(piece.text for piece in part.content if isinstance(piece, Text))
            yield {"role": "tool", "tool_call_id": part.call_id, "content": text}
            rest += _pictures(part)
        elif isinstance(part, (Text, Image)):
            rest.append(part)
    if rest:
        yield {"role": "user", "content": _content(rest)}


def _pictures(result: ToolResult) -> list[Text | Image]:
    """Return the pictures of a result for the user's message, because tools can send only text."""
    pictures = [piece for piece in result.content if isinstance(piece, Image)]
    return [Text(f"Pictures of the result of {result.call_id}:"), *pictures] if pictures else []


def _content(parts: list[Text | Image]) -> str | list[dict[str, Any]]:
    if all(isinstance(part, Text) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, Text))
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": picture(part)}}
        for part in parts
    ]


def picture(image: Image) -> str:
    """Return a picture as a URL."""
    return f"data:{image.media_type};base64,{image.data}"


def _assistant(message: Message) -> dict[str, Any]:
    calls = [_call(call) for call in message.tool_calls]
    said = {"role": "assistant", "content": message.text}
    return {**said, "tool_calls": calls} if calls else said


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(as_object(call))}
    return {"id": call.call_id, "type": "function", "function": function}


def _sent_back(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply as servers take it back.

    Strict ones refuse empty keys of others, and many fail on arguments that are not an object.
    """
    message = {key: value for key, value in native.items() if value not in (None, [], "")}
    calls = [_call(_tool_call(call)) for call in native.get("tool_calls") or ()]
    message["content"] = native.get("content") or (None if calls else "")
    if calls:
        message["tool_calls"] = calls
    return message


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = mapping(call["function"])
    return tool_call(call["id"], function["name"], function["arguments"])


def reply(data: Any, request_id: Any) -> ModelReply:
    """Return the reply that an answer holds."""
    choice = listed(data["choices"])[0]
    native = mapping(choice["message"])
    parts: list[Part] = [Text(text) for text in _texts(native) if text]
    parts += [_tool_call(call) for call in listed(native.get("tool_calls") or [])]
    stop = why_stopped(choice.get("finish_reason") or "stop", _STOPS, parts)
    return ModelReply(
        message=Message("assistant", tuple(parts), native),
        stop="refusal" if native.get("refusal") else stop,
        usage=_usage(data.get("usage")),
        model=identifier(data.get("model")),
        request_id=identifier(request_id),
        # As servers with open models call it, of which some use the second name.
        reasoning=thoughts(native.get(name) for name in ("reasoning_content", "reasoning")),
    )


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, list):  # as Mistral's models answer
        yield from (string(part["text"]) for part in listed(content) if part.get("type") == "text")
    elif content is not None:
        yield string(content)
    if message.get("refusal"):
        yield string(message["refusal"])


def _usage(usage: Any) -> Usage:
    return token_usage(usage, ("prompt_tokens", "completion_tokens"), ("prompt", "completion"))


def token_usage(usage: Any, totals: tuple[str, str], details: tuple[str, str]) -> Usage:
    """Return tokens as OpenAI counts them: the input's total includes those of the cache."""
    given, out = (count(usage, name) for name in totals)
    details_in, details_out = (f"{name}_tokens_details" for name in details)
    read = count(usage, details_in, "cached_tokens")
    written = count(usage, details_in, "cache_write_tokens")
    return Usage(
        tokens_in=None if given is None else max(0, given - (read or 0) - (written or 0)),
        tokens_out=out,
        tokens_cache_read=read,
        tokens_cache_write=written,
        tokens_reasoning=count(usage, details_out, "reasoning_tokens"),
    )
