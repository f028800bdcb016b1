"""Which agent, which trial and which attempt count as the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.ledger.identity import (
    AgentKeys,
    agent_identity,
    agent_key,
    final_attempts,
    trial_key,
)
from pytest_aecbench.ledger.record import AgentIdentity

ORACLE = AgentSpec("oracle", "oracle")
MODEL = AgentSpec(
    "it", "direct", "m", {"b": 1, "a": [1]}, "Be brief.", {"settings": {"base_url": "http://a"}}
)


def recorded(agent: AgentSpec) -> AgentIdentity:
    return AgentIdentity(
        name=agent.name,
        harness=agent.harness,
        model=agent.model,
        parameters=dict(agent.parameters),
        system_prompt_sha256=agent.system_prompt_sha256,
        client_sha256=agent.client_sha256,
    )


def test_a_name_is_not_part_of_an_agents_identity() -> None:
    assert agent_key(replace(MODEL, name="other")) == agent_key(MODEL)


@pytest.mark.parametrize(
    "other",
    [
        replace(MODEL, harness="tool_loop"),
        replace(MODEL, model="n"),
        replace(MODEL, parameters={"b": 1}),
        replace(MODEL, system_prompt="Be long."),
        replace(MODEL, client={"settings": {"base_url": "http://b"}}),
    ],
    ids=["harness", "model", "parameters", "system_prompt", "client"],
)
def test_all_else_is(other: AgentSpec) -> None:
    assert agent_key(other) != agent_key(MODEL)
    assert agent_key(recorded(other)) != agent_key(recorded(MODEL))


def test_keys_that_are_worked_out_once_are_the_same_keys() -> None:
    keys = AgentKeys()
    assert [keys(agent) for agent in (MODEL, ORACLE, MODEL)] == [
        agent_key(agent) for agent in (MODEL, ORACLE, MODEL)
    ]


@pytest.mark.parametrize("agent", [ORACLE, MODEL], ids=["oracle", "model"])
def test_an_agent_is_the_same_in_a_record_and_in_a_run(agent: AgentSpec) -> None:
    assert agent_identity(recorded(agent)) == agent_identity(agent)
    assert agent_key(AgentSpec(**recorded(agent).model_dump())) == agent_key(agent)


def test_the_order_of_parameters_makes_no_difference() -> None:
    turned = replace(MODEL, parameters={"a": [1], "b": 1})
    assert trial_key("d", turned, 1) == trial_key("d", MODEL, 1)
    deep = replace(MODEL, parameters={"a": {"x": 1, "y": 2}})
    turned = replace(MODEL, parameters={"a": {"y": 2, "x": 1}})
    assert trial_key("d", turned, 1) == trial_key("d", deep, 1)


def test_a_trial_key_depends_on_task_agent_and_repetition() -> None:
    keys = {
        trial_key("a", MODEL, 1),
        trial_key("b", MODEL, 1),
        trial_key("a", ORACLE, 1),
        trial_key("a", MODEL, 2),
    }
    assert len(keys) == 4


def test_a_trial_key_is_the_same_in_every_version() -> None:
    assert trial_key("a" * 64, ORACLE, 1) == (
        "d3b3473ddd85763885f9235f24a8a97be53ecf8851b2ebdd438437e7e9e6d490"
    )


@given(st.text(), st.text())
def test_no_digest_can_pose_as_another_by_where_it_ends(left: str, right: str) -> None:
    if left != right:
        assert trial_key(left, ORACLE, 1) != trial_key(right, ORACLE, 1)
    assert trial_key(left + "1", ORACLE, 1) != trial_key(left, ORACLE, 11)


@dataclass(frozen=True)
class Attempt:
    name: str
    scored: bool
    started_sec: float
    attempt: int = 1


def final(*attempts: Attempt) -> str:
    (found,) = final_attempts(attempts, lambda attempt: "trial")
    (same,) = final_attempts(attempts[::-1], lambda attempt: "trial")
    assert found == same
    return found.name


def test_a_scored_attempt_settles_a_trial_whatever_failed_after_it() -> None:
    assert final(Attempt("earned", True, 1), Attempt("broken", False, 2)) == "earned"


def test_the_last_of_several_scored_attempts_counts() -> None:
    assert final(Attempt("first", True, 1), Attempt("again", True, 2)) == "again"


def test_without_a_score_the_last_attempt_counts_also_one_of_a_later_run() -> None:
    earlier = Attempt("third try of the first run", False, 1, attempt=3)
    assert final(earlier, Attempt("first try of the second", False, 2)) == "first try of the second"


def test_attempts_that_began_together_are_told_apart_by_their_number() -> None:
    assert final(Attempt("one", False, 1, 1), Attempt("two", False, 1, 2)) == "two"
