"""Anthropic's Messages API, as a stand-in speaks it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.standins.models.checking import Malformed, answered, check_schema, keys, require, sealed
from tests.standins.models.scripts import Fault, Turn

__all__ = ["check", "error", "events", "reply", "turns_so_far"]

_TOP = ("system", "tools", "tool_choice", "stream", "thinking", "output_config", "temperature")
_STOPS = {
    "length": "max_tokens",
    "refusal": "refusal",
    "filter": "refusal",
    "context": "model_context_window_exceeded",
    "pause": "pause_turn",
}


def turns_so_far(body: Mapping[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


def check(body: Any, headers: Mapping[str, str], script: tuple[Turn, ...]) -> None:
    """Raise Malformed for a request that the API would not take."""
    keys(body, "body", ("model", "max_tokens", "messages"), _TOP)
    version = headers.get("anthropic-version")
    require(version, "anthropic-version: header is required")
    if "temperature" in body:
        require(version == "2023-06-01", "temperature: Extra inputs are not permitted")
    _check_thinking(body)
    for tool in body.get("tools", ()):
        keys(tool, "tools", ("name", "input_schema"), ("description", "cache_control"))
        check_schema(tool["name"], tool["input_schema"])
    for block in body.get("system", ()):
        keys(block, "system", ("type", "text"), ("cache_control",))
    require(json.dumps(body).count('"cache_control"') <= 4, "at most 4 blocks with cache_control")
    _check_messages(body["messages"], script)


def _check_thinking(body: Mapping[str, Any]) -> None:
    kind = body.get("thinking", {}).get("type")
    is_new = re.match(r"claude-[a-z]+-(?:4-[6-9]|[5-9])\b", body["model"]) is not None
    if kind == "enabled":
        require(not is_new, '"thinking.type.enabled" is not supported for this model')
        budget = body["thinking"]["budget_tokens"]
        require(1024 <= budget < body["max_tokens"], "budget_tokens: out of range")
    if kind == "adaptive" or "output_config" in body:
        require(is_new, "adaptive thinking is not supported on this model")
        efforts = ("low", "medium", "high", "xhigh", "max")
        require(body["output_config"]["effort"] in efforts, "effort: not one of them")


def _check_messages(messages: Any, script: tuple[Turn, ...]) -> None:
    require(messages and messages[0].get("role") == "user", "first message must use role user")
    require(messages[-1].get("role") == "user", "this model does not support prefill")
    asked: list[str] = []
    spoken = 0
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        keys(message, where, ("role", "content"))
        role = message["role"]
        require(role == ("user", "assistant")[number % 2], f"{where}: roles must alternate")
        blocks = message["content"]
        require(isinstance(blocks, list) and blocks, f"{where}: content must be non-empty")
        for block in blocks:
            _check_block(block, role, where)
        answered(asked, _ids(blocks, "tool_result", "tool_use_id"))
        asked = _ids(blocks, "tool_use", "id")
        if role == "assistant":
            _check_state(blocks, script[min(spoken, len(script) - 1)], where)
            spoken += 1


def _ids(blocks: list[Any], kind: str, key: str) -> list[str]:
    return [block[key] for block in blocks if block["type"] == kind]


def _check_block(block: Any, role: str, where: str) -> None:
    kind = block.get("type")
    if kind == "text":
        keys(block, where, ("type", "text"), ("cache_control", "citations"))
        require(block["text"].strip(), "text content blocks must contain non-whitespace text")
    elif kind == "image":
        keys(block, where, ("type", "source"), ("cache_control",))
        keys(block["source"], where, ("type", "media_type", "data"))
    elif kind == "tool_use" and role == "assistant":
        keys(block, where, ("type", "id", "name", "input"), ("cache_control", "caller"))
        require(isinstance(block["input"], dict), f"{where}.input: Input should be an object")
    elif kind == "tool_result" and role == "user":
        optional = ("content", "is_error", "cache_control")
        keys(block, where, ("type", "tool_use_id"), optional)
        for inner in block.get("content", ()):
            _check_block(inner, "tool", where)
    elif kind == "thinking" and role == "assistant":
        keys(block, where, ("type", "thinking", "signature"))
        require(block["signature"] == sealed(block["thinking"]), "Invalid signature in thinking")
    else:
        raise Malformed(f"{where}: {kind!r} is not allowed here")


def _check_state(blocks: list[Any], turn: Turn, where: str) -> None:
    if turn.thinking and any(block["type"] == "tool_use" for block in blocks):
        thought = blocks[0].get("thinking")
        require(thought == turn.thinking, f"{where}: Expected `thinking`, but found another block")


def reply(turn: Turn, number: int, model: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if turn.thinking:
        signature = sealed(turn.thinking)
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": signature})
    if turn.text:
        content.append({"type": "text", "text": turn.text, "citations": None})
    content += [
        {
            "type": "tool_use",
            "id": f"toolu_{number}_{n}",
            "name": wish.name,
            "input": wish.arguments,
        }
        for n, wish in enumerate(turn.calls)
    ]
    tokens = turn.tokens
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": f"{model}-20991231",
        "content": content,
        "stop_reason": _STOPS.get(turn.stop or "", "tool_use" if turn.calls else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens.fresh,
            "cache_creation_input_tokens": tokens.written,
            "cache_read_input_tokens": tokens.read,
            "output_tokens": tokens.out,
            "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        },
    }


def events(message: dict[str, Any]) -> Iterator[bytes]:
    """Yield a reply as server-sent events."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": start})
    yield _event({"type": "ping"})
    for index, block in enumerate(message["content"]):
        empty, deltas = _pieces(block)
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": end, "usage": usage})
    yield _event({"type": "message_stop"})


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        half = len(block["text"]) // 2
        halves = (block["text"][:half], block["text"][half:])
        return {**block, "text": ""}, [{"type": "text_delta", "text": text} for text in halves]
    if block["type"] == "thinking":
        empty = {**block, "thinking": "", "signature": ""}
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        return empty, [thought, {"type": "signature_delta", "signature": block["signature"]}]
    given = block["input"]
    partial = given if isinstance(given, str) else json.dumps(given)
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": partial}]


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def error(fault: Fault) -> dict[str, Any]:
    kind, message = fault.anthropic
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
