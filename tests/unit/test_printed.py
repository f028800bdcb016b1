"""Usage, cost and turns, as programs print them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.printed import Reading, read_printed
from pytest_aecbench.providers import Usage

CLAUDE = {
    "type": "result",
    "num_turns": 4,
    "total_cost_usd": 0.00852,
    "usage": {
        "input_tokens": 1600,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 2400,
        "output_tokens": 200,
        "output_tokens_details": {"thinking_tokens": 7},
    },
}
CODEX = {
    "type": "turn.completed",
    "usage": {
        "input_tokens": 4000,
        "cached_input_tokens": 2400,
        "cache_write_input_tokens": 0,
        "output_tokens": 200,
        "reasoning_output_tokens": 64,
    },
}
CHAT = {
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 600},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
}
LITELLM = {  # of an Anthropic model: names of both kinds, and the input includes the cache
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 100,
    }
}
OURS = {"tokens_in": 5, "tokens_out": 6, "tokens_cache_read": 7, "cost_usd": 1, "turns": 2}


@pytest.mark.parametrize(
    ("printed", "reading"),
    [
        (CLAUDE, Reading(Usage(1600, 200, 2400, 10, 7), 0.00852, 4)),
        (CODEX, Reading(Usage(1600, 200, 2400, 0, 64))),
        (CHAT, Reading(Usage(400, 50, 600, None, 20))),
        (LITELLM, Reading(Usage(300, 50, 600, 100))),
        (OURS, Reading(Usage(5, 6, 7), 1.0, 2)),
    ],
)
def test_each_provider_s_names_are_known(printed: object, reading: Reading) -> None:
    assert read_printed(json.dumps(printed)) == reading
    assert read_printed(json.dumps(printed, indent=2)) == reading
    assert read_printed(f"some words\n{json.dumps(printed)}\nand others {{\n") == reading


def test_the_last_of_each_counts() -> None:
    lines = [
        '{"usage": {"input_tokens": 1, "output_tokens": 1}, "turns": 1}',
        '{"usage": {"input_tokens": 9, "output_tokens": 3}, "cost_usd": 0.5}',
        '{"type": "done"}',
    ]
    assert read_printed("\n".join(lines)) == Reading(Usage(9, 3), 0.5, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        '{"usage": 3}',
        '{"usage": {"input_tokens": "many"}}',
        '{"usage": {"input_tokens": -1}, "cost_usd": NaN, "turns": true}',
        "[" * 100_000,
        '{"usage": {"input_tokens": 1',
    ],
)
def test_anything_else_is_unknown(text: str) -> None:
    assert read_printed(text) == Reading()


@given(st.text())
def test_no_output_is_an_error(text: str) -> None:
    read_printed(text)
    read_printed(f'{{"usage": {json.dumps(text)}}}')
