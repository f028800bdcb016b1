"""Replies of providers: odd JSON in them is the model's own doing, and never breaks a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_aecbench.documents.encoding import encoded
from pytest_aecbench.providers.events import assembled
from pytest_aecbench.providers.replies import as_object, tool_call

# Python reads and writes these, but they are not JSON, so other readers refuse them.
NO_JSON = ["NaN", "-Infinity", "1e999"]


def streamed(*deltas: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a stream in which characters are not escaped."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    lines = (f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return assembled("".join(lines).encode())


@pytest.mark.parametrize("number", NO_JSON)
def test_arguments_with_numbers_that_json_has_not_are_no_object(number: str) -> None:
    raw = f'{{"x": {number}}}'
    call = tool_call("c1", "bash", raw)
    assert (call.arguments, call.raw) == (None, raw)
    assert as_object(call) == {"invalid": raw}
    assert tool_call("c1", "bash", {"x": float(number)}).arguments is None
    assert tool_call("c1", "bash", '{"x": 1e9}').arguments == {"x": 1e9}


@pytest.mark.parametrize("number", NO_JSON)
def test_streamed_arguments_with_such_numbers_stay_text(number: str) -> None:
    delta = {"type": "input_json_delta", "partial_json": f'{{"x": {number}}}'}
    message = streamed(delta, block={"type": "tool_use", "id": "c1", "name": "bash", "input": {}})
    assert message["content"][0]["input"] == f'{{"x": {number}}}'


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x7f", "\ufeff"])
def test_a_stream_has_lines_where_the_protocol_has_them(character: str) -> None:
    text = f"one{character}two"
    message = streamed({"type": "text_delta", "text": text}, block={"type": "text", "text": ""})
    assert message["content"][0]["text"] == text


def test_json_for_readers_has_text_for_numbers_that_it_has_not() -> None:
    data = {"a": [1.5, float("nan")], "b": (float("-inf"), "é", "\ud800")}
    text = encoded(data, separators=(",", ":")).decode()
    assert text == '{"a":[1.5,"nan"],"b":["-inf","é","?"]}'
