"""OpenAI's chat completions and Responses, as a stand-in speaks them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from tests.standins.models.checking import Malformed, answered, check_schema, keys, require
from tests.standins.models.scripts import Fault, Turn, Wish

__all__ = [
    "chat_reply",
    "chat_turns_so_far",
    "check_chat",
    "check_responses",
    "error",
    "responses_reply",
    "responses_turns_so_far",
]

_CHAT_TOP = ("tools", "temperature", "max_tokens", "max_completion_tokens", "reasoning_effort")
_RESPONSES_TOP = (
    "instructions",
    "tools",
    "temperature",
    "reasoning",
    "include",
    "max_output_tokens",
)
_FINISHES = {"length": "length", "refusal": "stop", "filter": "content_filter"}


def _reasons(model: str) -> bool:
    return re.match(r"(?:o\d|gpt-[5-9]|.*reasoner)", model) is not None


def _arguments(wish: Wish) -> str:
    return wish.arguments if isinstance(wish.arguments, str) else json.dumps(wish.arguments)


# Chat completions


def chat_turns_so_far(body: Mapping[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


def check_chat(body: Any, script: tuple[Turn, ...]) -> None:
    """Raise Malformed for a request that the API would not take."""
    keys(body, "body", ("model", "messages"), _CHAT_TOP)
    if _reasons(body["model"]):
        for key in ("max_tokens", "temperature"):
            message = f"Unsupported parameter: '{key}' is not supported with this model."
            message += " Use 'max_completion_tokens' instead." if key == "max_tokens" else ""
            require(key not in body, message, "unsupported_parameter")
    both = {"max_tokens", "max_completion_tokens"} <= set(body)
    require(not both, "max_tokens and max_completion_tokens cannot both be set")
    for tool in body.get("tools", ()):
        keys(tool, "tools", ("type", "function"))
        function = keys(tool["function"], "tools", ("name", "parameters"), ("description",))
        _check_description(function)
        check_schema(function["name"], function["parameters"])
    _check_messages(body["messages"])


def _check_description(tool: Mapping[str, Any]) -> None:
    length = len(tool.get("description", ""))
    require(length <= 1024, f"string too long: maximum length 1024, but got {length} instead")


def _check_messages(messages: Any) -> None:
    require(messages, "messages: too short")
    asked: list[str] = []
    answers: list[str] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            keys(message, f"messages[{number}]", ("role", "content", "tool_call_id"))
            _check_content(message["content"], ("text",), number)
            answers.append(message["tool_call_id"])
            continue
        answered(asked, answers)
        asked, answers = [], []
        if role == "assistant":
            asked = _check_assistant(message, number)
        elif role == "user":
            keys(message, f"messages[{number}]", ("role", "content"))
            _check_content(message["content"], ("text", "image_url"), number)
        else:
            require(role in ("system", "developer") and number == 0, f"role {role!r} is wrong here")
    answered(asked, answers)
    require(messages[-1]["role"] in ("user", "tool"), "the last message must be the user's")


def _check_content(content: Any, kinds: tuple[str, ...], number: int) -> None:
    if isinstance(content, str):
        return
    require(isinstance(content, list) and content, f"messages[{number}].content: is not a content")
    for part in content:
        require(part.get("type") in kinds, f"messages[{number}]: {part.get('type')!r} not allowed")
        keys(part, "content", ("type", part["type"]))
        if part["type"] == "image_url":
            url = keys(part["image_url"], "image_url", ("url",), ("detail",))["url"]
            require(re.match(r"data:image/\w+;base64,", url), "image_url: is not a picture")


def _check_assistant(message: Mapping[str, Any], number: int) -> list[str]:
    optional = ("content", "tool_calls", "refusal", "reasoning_content")
    keys(message, f"messages[{number}]", ("role",), optional)
    calls = message.get("tool_calls")
    require(
        calls or isinstance(message.get("content"), str), "content: expected a string, got null"
    )
    for call in calls or ():
        keys(call, "tool_calls", ("id", "type", "function"))
        function = keys(call["function"], "tool_calls", ("name", "arguments"))
        try:
            is_object = isinstance(json.loads(function["arguments"]), dict)
        except ValueError:
            is_object = False
        require(is_object, "tool_calls: arguments are not the JSON of an object")
    return [call["id"] for call in calls or ()]


def chat_reply(turn: Turn, number: int, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": turn.text or None,
        "refusal": None,
        "annotations": [],
    }
    if turn.stop == "refusal":
        message |= {"content": None, "refusal": turn.text}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{n}",
                "type": "function",
                "function": {"name": wish.name, "arguments": _arguments(wish)},
            }
            for n, wish in enumerate(turn.calls)
        ]
    finish = _FINISHES.get(turn.stop or "", "tool_calls" if turn.calls else "stop")
    tokens = turn.tokens
    cached = {"cached_tokens": tokens.read, "cache_write_tokens": tokens.written}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": f"{model}-2099-12-31",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": tokens.fresh + tokens.read + tokens.written,
            "completion_tokens": tokens.out,
            "total_tokens": tokens.fresh + tokens.read + tokens.written + tokens.out,
            "prompt_tokens_details": cached,
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        },
    }


# Responses


def _is_spoken(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("reasoning", "function_call") or item.get("role") == "assistant"


def _spoken_runs(items: list[Any]) -> list[list[Any]]:
    """Return the items of each turn of the model, which come one after the other."""
    runs: list[list[Any]] = []
    for before, item in zip([{}, *items], items, strict=False):
        if _is_spoken(item):
            if not _is_spoken(before):
                runs.append([])
            runs[-1].append(item)
    return runs


def responses_turns_so_far(body: Mapping[str, Any]) -> int:
    return len(_spoken_runs(body["input"]))


def check_responses(body: Any, script: tuple[Turn, ...]) -> None:
    """Raise Malformed for a request that the API would not take."""
    keys(body, "body", ("model", "input", "store", "max_output_tokens"), _RESPONSES_TOP)
    require(body["store"] is False, "this organisation keeps no data")
    if "include" in body:
        require(_reasons(body["model"]), "Encrypted content is not supported with this model.")
    if _reasons(body["model"]):
        require("temperature" not in body, "Unsupported parameter: 'temperature'")
    for tool in body.get("tools", ()):
        keys(tool, "tools", ("type", "name", "parameters", "strict"), ("description",))
        _check_description(tool)
        check_schema(tool["name"], tool["parameters"])
        require(tool["strict"] is False, "strict: schemas must name additionalProperties")
    items = body["input"]
    for item in items:
        _check_item(item)
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered(calls, [i["call_id"] for i in items if i.get("type") == "function_call_output"])
    for number, run in enumerate(_spoken_runs(items)):
        _check_state(run, script[min(number, len(script) - 1)])


def _check_item(item: Any) -> None:
    kind = item.get("type", "message")
    if kind == "function_call":
        keys(item, "input", ("type", "call_id", "name", "arguments"), ("id", "status"))
    elif kind == "function_call_output":
        keys(item, "input", ("type", "call_id", "output"))
        _check_parts(item["output"], ("input_text", "input_image"))
    elif kind == "reasoning":
        keys(item, "input", ("type", "id", "summary", "encrypted_content"))
    elif kind == "message":
        keys(item, "input", ("role", "content"), ("type", "id", "status"))
        is_user = item["role"] == "user"
        kinds = ("input_text", "input_image") if is_user else ("output_text", "refusal")
        _check_parts(item["content"], kinds)
    else:
        raise Malformed(f"input: {kind!r} is not an item")


def _check_parts(parts: Any, kinds: tuple[str, ...]) -> None:
    if isinstance(parts, str):
        return
    for part in parts:
        require(part.get("type") in kinds, f"Invalid value: {part.get('type')!r}")
        if part["type"] == "input_image":
            keys(part, "input_image", ("type", "image_url"), ("detail",))


def _check_state(run: list[Any], turn: Turn) -> None:
    if turn.thinking and any(item.get("type") == "function_call" for item in run):
        first = run[0].get("encrypted_content")
        require(first == _encrypted(turn), "function_call without its required reasoning item")


def _encrypted(turn: Turn) -> str:
    return base64.b64encode(turn.thinking[::-1].encode()).decode()


def responses_reply(turn: Turn, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if turn.thinking:
        item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        if "reasoning.encrypted_content" in body.get("include", ()):
            item["encrypted_content"] = _encrypted(turn)
        output.append(item)
    if turn.text:
        part: dict[str, Any] = {"type": "output_text", "text": turn.text, "annotations": []}
        if turn.stop == "refusal":
            part = {"type": "refusal", "refusal": turn.text}
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        output.append({**message, "status": "completed", "content": [part]})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{n}",
            "call_id": f"call_{number}_{n}",
            "name": wish.name,
            "arguments": _arguments(wish),
            "status": "completed",
        }
        for n, wish in enumerate(turn.calls)
    ]
    cut = {"length": "max_output_tokens", "filter": "content_filter"}.get(turn.stop or "")
    tokens = turn.tokens
    given = tokens.fresh + tokens.read + tokens.written
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": f"{body['model']}-2099-12-31",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": cut} if cut else None,
        "error": None,
        "output": output,
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {
                "cached_tokens": tokens.read,
                "cache_write_tokens": tokens.written,
            },
            "output_tokens": tokens.out,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": given + tokens.out,
        },
    }


def error(fault: Fault) -> dict[str, Any]:
    kind, code, message = fault.openai
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
