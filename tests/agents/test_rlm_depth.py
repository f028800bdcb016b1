"""How deep ``rlm`` goes: no calls, plain calls, and models with a REPL of their own."""

from __future__ import annotations

import json

from pytest_aecbench.providers import Usage
from tests.agents.conftest import anywhere
from tests.agents.recursion import Workshop, cell

pytestmark = anywhere

PLAIN = "try:\n    FINAL(llm_query('sub'))\nexcept SubcallError as e:\n    FINAL(str(e))"
CHILD = (
    "try:\n    FINAL(rlm_query('child: count', numbers=[1, 2, 3]))\n"
    "except SubcallError as e:\n    FINAL(str(e))"
)
# The child hands its own question on, to a depth that it may or may not have.
GRANDCHILD = (
    "seen = sorted(globals())\n"
    "try:\n    deeper = rlm_query('grandchild')\nexcept SubcallError as e:\n    deeper = str(e)\n"
    "FINAL({'sum': sum(numbers), 'plain': llm_query('sub'), 'deeper': deeper, "
    "'mine': 'secret' in seen})"
)
OTHERS = {
    "grandchild": [cell("FINAL('from below')")],
    "child": [cell("secret = 1"), cell(GRANDCHILD)],
    "sub": "two",
}


def depth(number: int) -> str:
    return f"[guardrails]\nmax_subcall_depth = {number}\n"


def test_at_depth_0_no_model_can_be_asked(workshop: Workshop) -> None:
    run = workshop.solve(cell(PLAIN), toml=depth(0), others=OTHERS)
    assert run.output == "llm_query is not allowed here: max_subcall_depth is 0"
    assert "llm_query" not in run.entries[0].content
    assert run.result.calls == 1


def test_at_depth_1_calls_are_plain(workshop: Workshop) -> None:
    run = workshop.solve(cell(CHILD), toml=depth(1), others=OTHERS)
    assert run.output == "rlm_query is not allowed here: max_subcall_depth is 1"
    assert "rlm_query" not in run.entries[0].content
    assert workshop.solve(cell(PLAIN), toml=depth(1), others=OTHERS).output == "two"


def test_at_depth_2_a_child_has_its_own_repl_and_the_shared_budgets(workshop: Workshop) -> None:
    run = workshop.solve(cell("secret = 5"), cell(CHILD), toml=depth(2), others=OTHERS)
    answer = json.loads(run.output or "")
    assert answer == {
        "sum": 6,
        "plain": "two",
        "deeper": "rlm_query is not allowed here: max_subcall_depth is 2",
        "mine": True,
    }
    # Two turns of the root, two of the child, and one plain call of the child.
    assert run.result.usage == run.usage == Usage(500, 50)
    below = [(e.metadata["kind"], e.metadata["depth"]) for e in run.calls("subcall")]
    assert below == [("rlm_query", 1), ("rlm_query", 1), ("llm_query", 2)]
    assert run.result.turns == 2


def test_at_depth_3_a_grandchild_answers(workshop: Workshop) -> None:
    run = workshop.solve(cell(CHILD), toml=depth(3), others=OTHERS)
    assert json.loads(run.output or "")["deeper"] == "from below"


def test_below_depth_3_there_is_nothing(workshop: Workshop) -> None:
    deepest = "try:\n    rlm_query('x')\nexcept SubcallError as e:\n    FINAL(str(e))"
    others = {**OTHERS, "grandchild": [cell(deepest)]}
    run = workshop.solve(cell(CHILD), toml=depth(3), others=others)
    told = json.loads(run.output or "")["deeper"]
    assert told == "rlm_query is not allowed here: max_subcall_depth is 3"


def test_children_share_a_number_of_calls(workshop: Workshop) -> None:
    toml = f"{depth(2)}max_subcalls = 1\n"
    run = workshop.solve(cell(CHILD), toml=toml, others=OTHERS)
    assert run.output == "the child ended without an answer: made 1 call"


def test_several_children_work_at_once_without_waiting_for_one_another(
    workshop: Workshop,
) -> None:
    toml = f"{depth(2)}[execution]\nmax_parallel_workers = 2\n"
    others = {"child": [cell("FINAL(llm_query_batched(['sub', 'sub', 'sub']))")], "sub": "two"}
    code = "FINAL(rlm_query_batched(['child a', 'child b', 'child c']))"
    run = workshop.solve(cell(code), toml=toml, others=others)
    assert [json.loads(text) for text in json.loads(run.output or "")] == [["two"] * 3] * 3
