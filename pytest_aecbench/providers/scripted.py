"""The provider ``scripted``: replies from a JSON file, for demonstrations and CI without a key.

The n-th reply answers the request that has n - 1 messages of the assistant, so a script needs no
state: threads, processes and repetitions can share it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_aecbench.documents.strict import read_json
from pytest_aecbench.errors import ProviderError, SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.providers import Message, ModelReply, ModelRequest, Stop, Text, ToolCall, Usage
from pytest_aecbench.providers.prices import Price
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.providers.routing import Route

__all__ = ["ScriptedModel", "script_price"]

_KEYS = ("conversations", "price", "replies")
_CONVERSATION_KEYS = ("replies", "when")
_REPLY_KEYS = ("stop", "text", "tool_calls", "usage")
_STOPS = ("end", "length", "refusal", "tool_calls")
_USAGE = {
    "input": "tokens_in",
    "output": "tokens_out",
    "cache_read": "tokens_cache_read",
    "cache_write": "tokens_cache_write",
    "reasoning": "tokens_reasoning",
}
_PRICE_KEYS = ("cache_read", "cache_write", "input", "output")


class ScriptedModel:
    """Answers as a file says; ``route.model`` is the file's path."""

    def __init__(self, route: Route) -> None:
        self.route = route

    @staticmethod
    def check(route: Route, where: str) -> None:
        """Raise SettingsError for a script that cannot be read or means nothing."""
        try:
            _read(Path(route.model))
        except SettingsError as error:
            raise SettingsError(f"{where}: {error}") from None

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        """Return the reply that is next in the conversation."""
        path = Path(self.route.model)
        asked = request.messages[0].text if request.messages else ""
        for conversation in _read(path)["conversations"]:
            if conversation.get("when", "") in asked:
                replies = conversation["replies"]
                break
        else:
            raise ProviderError(f"{shown_path(path)}: no conversation is for this instruction")
        number = sum(message.role == "assistant" for message in request.messages)
        if number >= len(replies):
            raise ProviderError(
                f"{shown_path(path)}: reply {number + 1} is asked for, but there are {len(replies)}"
            )
        return _reply(replies[number], number)


def script_price(route: Route) -> Price | None:
    """Return the price that a script gives its tokens, if it does."""
    price = _read(Path(route.model)).get("price")
    return Price(**price) if price else None


def _reply(data: Mapping[str, Any], number: int) -> ModelReply:
    calls = tuple(
        _call(call, f"call_{number + 1}_{index + 1}")
        for index, call in enumerate(data.get("tool_calls") or ())
    )
    text = (Text(data["text"]),) if data.get("text") else ()
    stop: Stop = data.get("stop") or ("tool_calls" if calls else "end")
    usage = {_USAGE[name]: count for name, count in (data.get("usage") or {}).items()}
    return ModelReply(Message("assistant", (*text, *calls)), stop, Usage(**usage), "scripted")


def _call(data: Mapping[str, Any], call_id: str) -> ToolCall:
    arguments = data.get("arguments", {})
    if isinstance(arguments, str):  # what a model writes that is not a JSON object
        return ToolCall(call_id, data["name"], None, arguments)
    return ToolCall(call_id, data["name"], arguments, json.dumps(arguments))


@lru_cache(maxsize=64)
def _read_at(path: Path, changed_ns: int) -> dict[str, Any]:
    data = read_json(path)
    where = shown_path(path)
    if "replies" in data and "conversations" not in data:
        data = {**data, "conversations": [{"replies": data.pop("replies")}]}
    _check_keys(data, _KEYS, where)
    if data.get("price"):
        _check_numbers(data["price"], _PRICE_KEYS, f"{where}: price")
        for key in ("input", "output"):
            if key not in data["price"]:
                raise SettingsError(f"{where}: price.{key}: missing; add USD per million tokens")
    conversations = data.get("conversations")
    if not isinstance(conversations, list) or not conversations:
        raise SettingsError(
            f"{where}: no conversations; add 'conversations' with a list of 'replies'"
        )
    for number, conversation in enumerate(conversations):
        _check_conversation(conversation, f"{where}: conversations.{number}")
    return data


def _read(path: Path) -> dict[str, Any]:
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise SettingsError(
            f"{shown_path(path)}: {(error.strerror or '').lower()}; use the path of a script"
        ) from None
    return _read_at(path, changed_ns)


def _check_conversation(data: object, where: str) -> None:
    _check_keys(data, _CONVERSATION_KEYS, where)
    assert isinstance(data, dict)
    if not isinstance(data.get("when", ""), str):
        raise SettingsError(f"{where}.when: not valid; use text that the instruction contains")
    replies = data.get("replies")
    if not isinstance(replies, list) or not replies:
        raise SettingsError(f"{where}.replies: missing; add a list of replies")
    for number, reply in enumerate(replies):
        here = f"{where}.replies.{number}"
        _check_keys(reply, _REPLY_KEYS, here)
        if not isinstance(reply.get("text", ""), str):
            raise SettingsError(f"{here}.text: not valid; use a string")
        if reply.get("stop", "end") not in _STOPS:
            raise SettingsError(f"{here}.stop: not valid; use one of {', '.join(_STOPS)}")
        _check_numbers(reply.get("usage") or {}, tuple(_USAGE), f"{here}.usage")
        for index, call in enumerate(reply.get("tool_calls") or ()):
            _check_keys(call, ("arguments", "name"), f"{here}.tool_calls.{index}")
            if not isinstance(call.get("name"), str):
                raise SettingsError(f"{here}.tool_calls.{index}.name: missing; add a tool's name")


def _check_keys(data: object, known: tuple[str, ...], where: str) -> None:
    if not isinstance(data, dict):
        raise SettingsError(f"{where}: not valid; use an object")
    for key in data:
        if key not in known:
            raise SettingsError(f"{where}: {key!r} is an unknown key; {did_you_mean(key, known)}")


def _check_numbers(data: object, known: tuple[str, ...], where: str) -> None:
    _check_keys(data, known, where)
    assert isinstance(data, dict)
    for key, value in data.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
            raise SettingsError(f"{where}.{key}: {value!r} is not valid; use a number from 0")
