"""Tools and results of servers become what every model provider accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.mcp_results import offered_tools, output_from, tools_from
from pytest_aecbench.agents.tools import ToolOutput
from pytest_aecbench.tasks.tools import ANY_OBJECT

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(min_size=1, max_size=80)


def call(name: str, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
    return ToolOutput(name)


def names_of(server: str, *tools: str, taken: tuple[str, ...] = ()) -> list[str]:
    listed = [{"name": name} for name in tools]
    return [tool.spec.name for tool in tools_from(offered_tools(server, listed, call), taken)]


def test_a_name_is_that_of_the_server_and_the_tool() -> None:
    assert names_of("git hub", "issues/list", "get-file") == [
        "git_hub__issues_list",
        "git_hub__get-file",
    ]


def test_names_that_are_too_long_or_taken_end_with_a_digest() -> None:
    one, other = names_of("s", "x" * 70 + "a", "x" * 70 + "b")
    assert one != other
    assert {len(one), len(other)} == {64}
    (renamed,) = names_of("s", "t", taken=("s__t",))
    assert re.fullmatch("s__t_[0-9a-f]{8}", renamed)
    assert names_of("s", "t", taken=("s__t",)) == [renamed]


@given(NAMES, st.lists(NAMES, max_size=6))
def test_names_are_distinct_and_accepted(server: str, tools: list[str]) -> None:
    names = names_of(server, *tools)
    assert len(names) == len(tools) == len(set(names))
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in names)


def test_each_name_calls_its_own_tool() -> None:
    tools = tools_from(offered_tools("s", [{"name": "a/b"}, {"name": "a b"}], call), ())
    assert [tool.run({}, 1).text for tool in tools] == ["a/b", "a b"]


@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        (None, ANY_OBJECT),
        ("x", ANY_OBJECT),
        ({"type": "string"}, ANY_OBJECT),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        (
            {"type": "object", "properties": {"a": {}}, "$defs": {}},
            {"type": "object", "properties": {"a": {}}, "$defs": {}},
        ),
    ],
)
def test_parameters_are_the_schema_of_an_object(schema: object, parameters: object) -> None:
    (tool,) = offered_tools("s", [{"name": "a", "inputSchema": schema}], call)
    assert tool.parameters == parameters


@given(VALUES)
def test_any_list_of_tools_can_be_sent(listed: object) -> None:
    for tool in tools_from(offered_tools("s", listed, call), ()):
        json.dumps([tool.spec.description, tool.spec.parameters], ensure_ascii=False).encode()


@given(VALUES | st.fixed_dictionaries({"content": st.lists(VALUES), "isError": VALUES}))
def test_any_result_is_text_that_can_be_sent(result: object) -> None:
    assert output_from(result).text.encode()


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link"])},
        optional=dict.fromkeys(("text", "data", "mimeType", "resource", "uri"), VALUES),
    )
)
def test_any_content_is_text_that_can_be_sent(block: object) -> None:
    assert output_from({"content": [block]}).text.encode()


@pytest.mark.parametrize("name", ["structuredContent", "content"])
def test_a_result_nested_too_deeply_is_an_error(name: str) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    result = {"structuredContent": deep, "content": [{"type": "text", "text": deep}]}
    output = output_from({name: result[name]})
    assert output == ToolOutput("the server's result is nested too deeply", is_error=True)
