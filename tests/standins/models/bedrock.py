"""Bedrock's Converse, as a stand-in speaks it; botocore's own model of the service checks it."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping
from typing import Any

from tests.standins.models.checking import answered, check_schema, require, sealed
from tests.standins.models.scripts import Fault, Turn

__all__ = ["check", "error", "reply", "turns_so_far"]

_STOPS = {
    "length": "max_tokens",
    "refusal": "content_filtered",
    "filter": "guardrail_intervened",
    "context": "model_context_window_exceeded",
}


def turns_so_far(body: Mapping[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


@functools.cache
def _input_shape() -> Any:
    import botocore.session

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    return service.operation_model("Converse").input_shape


def check(body: Any, model: str, script: tuple[Turn, ...]) -> None:
    """Raise Malformed for a request that the API would not take."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate({**body, "modelId": model}, _input_shape())
    require(not report.has_errors(), report.generate_report())
    for tool in body.get("toolConfig", {}).get("tools", ()):
        check_schema(tool["toolSpec"]["name"], tool["toolSpec"]["inputSchema"]["json"])
    asked: list[str] = []
    spoken = 0
    for number, message in enumerate(body["messages"]):
        blocks = message["content"]
        require(message["role"] == ("user", "assistant")[number % 2], "roles must alternate")
        require(blocks, "The content field in the Message object is empty.")
        for block in blocks:
            _check_block(block, model)
        answered(asked, _ids(blocks, "toolResult"))
        asked = _ids(blocks, "toolUse")
        require(not asked or "toolConfig" in body, "The toolConfig field must be defined")
        if message["role"] == "assistant":
            _check_state(blocks, script[min(spoken, len(script) - 1)])
            spoken += 1


def _ids(blocks: list[Any], kind: str) -> list[str]:
    return [block[kind]["toolUseId"] for block in blocks if kind in block]


def _check_block(block: Mapping[str, Any], model: str) -> None:
    require(len(block) == 1, "a block has one kind of content")
    if "text" in block:
        require(block["text"].strip(), "The text field in the ContentBlock object is blank.")
    if "cachePoint" in block:
        require("claude" in model, "You invoked an unsupported model: cachePoint")
    if "image" in block:
        base64.b64decode(block["image"]["source"]["bytes"], validate=True)
    if "toolResult" in block:
        require(block["toolResult"]["content"], "toolResult.content is empty")
        for inner in block["toolResult"]["content"]:
            _check_block(inner, model)


def _check_state(blocks: list[Any], turn: Turn) -> None:
    if turn.thinking and any("toolUse" in block for block in blocks):
        thought = blocks[0].get("reasoningContent", {}).get("reasoningText", {})
        require(thought.get("text") == turn.thinking, "Expected `thinking`")
        require(thought.get("signature") == sealed(turn.thinking), "Invalid signature")


def reply(turn: Turn, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if turn.thinking:
        thought = {"text": turn.thinking, "signature": sealed(turn.thinking)}
        content.append({"reasoningContent": {"reasoningText": thought}})
        hidden = base64.b64encode(turn.thinking.encode()).decode()
        content.append({"reasoningContent": {"redactedContent": hidden}})
    if turn.text:
        content.append({"text": turn.text})
    content += [
        {"toolUse": {"toolUseId": f"tooluse_{number}_{n}", "name": w.name, "input": w.arguments}}
        for n, w in enumerate(turn.calls)
    ]
    tokens = turn.tokens
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _STOPS.get(turn.stop or "", "tool_use" if turn.calls else "end_turn"),
        "usage": {
            "inputTokens": tokens.fresh,
            "outputTokens": tokens.out,
            "totalTokens": tokens.fresh + tokens.out,
            "cacheReadInputTokens": tokens.read,
            "cacheWriteInputTokens": tokens.written,
        },
        "metrics": {"latencyMs": 1},
    }


def error(fault: Fault) -> dict[str, Any]:
    return {"message": fault.bedrock[1]}
