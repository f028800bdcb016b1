"""Server-sent events of the Messages API, put together to one message.

The SDK can do this, but it swallows the pings of a server that has no answer yet, so that nothing
could end a stream of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pytest_aecbench.documents.encoding import finite_json
from pytest_aecbench.providers.replies import mapping

__all__ = ["assembled"]

# The kinds of deltas, each with the key that it has in common with its block.
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def assembled(body: bytes) -> dict[str, Any]:
    """Return the message that a stream tells, or the error that it ends in.

    Raises:
        ValueError: the stream is torn.

    """
    message: dict[str, Any] = {}
    arguments: dict[int, str] = {}
    for event in _events(body):
        kind = event.get("type")
        if kind == "error":
            return event
        if kind == "message_start":
            message = mapping(event["message"])
        elif kind == "content_block_start":
            message["content"].append(mapping(event["content_block"]))
        elif kind == "content_block_delta":
            _add(message["content"][event["index"]], event, arguments)
        elif kind == "message_delta":
            message |= mapping(event["delta"])
            message["usage"] |= mapping(event.get("usage") or {})
        elif kind == "message_stop":
            return _with_arguments(message, arguments)
    raise ValueError("the stream has no end")


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    # Not the lines of a str, which also end at characters that a model may write.
    for line in body.splitlines():
        if line.startswith(b"data:"):
            yield mapping(json.loads(line.removeprefix(b"data:")))


def _add(block: dict[str, Any], event: dict[str, Any], arguments: dict[int, str]) -> None:
    delta = event["delta"]
    if delta["type"] == "input_json_delta":
        index = event["index"]
        arguments[index] = arguments.get(index, "") + delta["partial_json"]
    elif delta["type"] == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    elif key := _DELTAS.get(delta["type"]):
        block[key] = block.get(key, "") + delta[key]


def _with_arguments(message: dict[str, Any], arguments: dict[int, str]) -> dict[str, Any]:
    """Return the message with the arguments of its tool calls, as text where they are not JSON."""
    for index, text in arguments.items():
        try:
            message["content"][index]["input"] = finite_json(text or "{}")
        except ValueError:
            message["content"][index]["input"] = text
    return message
