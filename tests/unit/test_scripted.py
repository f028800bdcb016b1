"""Scripted models: replies from a file, and one line for each mistake in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_aecbench.errors import ProviderError, SettingsError
from pytest_aecbench.providers import Message, ModelRequest, Text, Usage
from pytest_aecbench.providers.routing import Route, check_route, make_model

FIRST = {"text": "one", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
SECOND = {"text": "two", "usage": {"input": 7, "output": 3}}


def script(tmp_path: Path, data: object) -> Route:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(data))
    return Route("scripted", str(path))


def ask(route: Route, *earlier: str, instruction: str = "Size the beam.") -> object:
    messages = [Message("user", (Text(instruction),))]
    for text in earlier:
        messages += [Message("assistant", (Text(text),)), Message("user", (Text("go on"),))]
    return make_model(route).complete(ModelRequest(tuple(messages)), timeout_sec=1)


def test_the_nth_reply_answers_the_nth_request(tmp_path: Path) -> None:
    model = make_model(script(tmp_path, {"replies": [FIRST, SECOND]}))
    start = (Message("user", (Text("Size the beam."),)),)
    first = model.complete(ModelRequest(start), timeout_sec=1)
    assert first.stop == "tool_calls"
    assert first.message.tool_calls[0].arguments == {"command": "ls"}
    later = (*start, first.message, Message("user", (Text("ok"),)))
    second = model.complete(ModelRequest(later), timeout_sec=1)
    assert (second.message.text, second.stop, second.usage) == ("two", "end", Usage(7, 3))


def test_the_instruction_chooses_the_conversation(tmp_path: Path) -> None:
    conversations = [{"when": "beam", "replies": [FIRST]}, {"replies": [SECOND]}]
    route = script(tmp_path, {"conversations": conversations})
    assert ask(route, instruction="Size the beam.").message.text == "one"  # type: ignore[attr-defined]
    assert ask(route, instruction="Size the pump.").message.text == "two"  # type: ignore[attr-defined]


def test_a_script_that_has_ended_says_so(tmp_path: Path) -> None:
    route = script(tmp_path, {"replies": [FIRST]})
    with pytest.raises(ProviderError, match="reply 2 is asked for, but there are 1"):
        ask(route, "one")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "no conversations; add 'conversations' with a list of 'replies'"),
        ({"replies": []}, "conversations.0.replies: missing; add a list of replies"),
        ({"reply": [FIRST]}, "'reply' is an unknown key; did you mean 'replies'?"),
        (
            {"replies": [{"texts": "x"}]},
            "replies.0: 'texts' is an unknown key; did you mean 'text'?",
        ),
        ({"replies": [{"text": 1}]}, "replies.0.text: not valid; use a string"),
        ({"replies": [{"stop": "now"}]}, "replies.0.stop: not valid; use one of"),
        (
            {"replies": [{"usage": {"input": "1"}}]},
            "usage.input: '1' is not valid; use a number from 0",
        ),
        ({"replies": [{"tool_calls": [{}]}]}, "tool_calls.0.name: missing; add a tool's name"),
        ({"replies": [FIRST], "price": {"input": 1}}, "price.output: missing"),
    ],
)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, data: object, problem: str) -> None:
    route = script(tmp_path, data)
    with pytest.raises(SettingsError) as caught:
        check_route(route, "--aec-agent")
    assert str(caught.value).startswith("--aec-agent: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_script_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file or directory; use the path of a script"):
        check_route(Route("scripted", str(tmp_path / "none.json")), "--aec-agent")
