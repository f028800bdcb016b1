from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.spec import parse_agents
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.ledger.identity import agent_identity


@pytest.mark.parametrize(
    ("text", "name", "harness", "model", "parameters"),
    [
        ("oracle", "oracle", "oracle", None, {}),
        ("loop:claude-4", "loop:claude-4", "loop", "claude-4", {}),
        ("tool_loop:together:a/b", "tool_loop:together-a-b", "tool_loop", "together:a/b", {}),
        ("my.module.Agent", "my.module.Agent", "my.module.Agent", None, {}),
        ("mine=oracle", "mine", "oracle", None, {}),
        ("command:echo hi", "command:echo-hi", "command", None, {"command": "echo hi"}),
        ("command:A=1 ./x", "command:A-1-.-x", "command", None, {"command": "A=1 ./x"}),
        ("replay:a/b.md", "replay:a-b.md", "replay", None, {"path": "a/b.md"}),
        ("replay:x/{task_id}", "replay:x-task_id", "replay", None, {"path": "x/{task_id}"}),
        ("c=command:A=1 ./x", "c", "command", None, {"command": "A=1 ./x"}),
    ],
)
def test_agents_are_read_as_users_write_them(
    text: str, name: str, harness: str, model: str | None, parameters: dict[str, str]
) -> None:
    (agent,) = parse_agents([text], "--aec-agent")
    assert (agent.name, agent.harness, agent.model) == (name, harness, model)
    assert agent.parameters == parameters


def test_the_name_is_no_part_of_an_agents_identity() -> None:
    (one,) = parse_agents(["one=command:x"], "--aec-agent")
    (two,) = parse_agents(["two=command:x"], "--aec-agent")
    assert agent_identity(one) == agent_identity(two)


@given(st.lists(st.text(), max_size=3))
def test_any_text_is_agents_or_a_settings_error(texts: list[str]) -> None:
    message = None
    try:
        agents = parse_agents(texts, "--aec-agent")
    except SettingsError as error:
        message = str(error)
    if message is None:
        assert len({agent.name for agent in agents}) == len(texts)
    else:
        assert message.startswith("--aec-agent: ")
        assert "\n" not in message


@given(st.text(min_size=1))
def test_names_can_stand_in_a_node_id(command: str) -> None:
    try:
        (agent,) = parse_agents([f"command:{command}"], "--aec-agent")
    except SettingsError:
        return
    assert not set(agent.name) & set("[]@ \n/")
    assert "::" not in agent.name
    assert len(agent.name) <= 50
