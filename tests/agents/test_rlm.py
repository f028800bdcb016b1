"""The harness ``rlm``: answers, limits, and what it writes down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_aecbench.agents.atif import write_atif
from pytest_aecbench.agents.rlm.prompts import RLM_VERSION
from pytest_aecbench.agents.trajectory import FILE, read_trajectory
from pytest_aecbench.errors import ProviderError, TaskError
from pytest_aecbench.providers import Usage
from tests.agents.conftest import anywhere
from tests.agents.recursion import Run, Workshop, cell, said
from tests.unit.test_atif import check

pytestmark = anywhere

SUB = {"sub": "two"}


def test_an_answer_in_code_becomes_the_output_file(workshop: Workshop) -> None:
    run = workshop.solve(cell("x = 2"), cell("FINAL({'current_a': x})"))
    assert run.output == '{"current_a": 2}\n'
    assert (run.result.status, run.result.end, run.result.turns) == ("completed", "submitted", 2)
    assert run.result.prompt_version == RLM_VERSION


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("FINAL('as it is')", "as it is"),
        ("value = [1, 2]\nFINAL_VAR('value')", "[1, 2]\n"),
        ("answer['content'] = 'done'\nanswer['ready'] = True", "done"),
        ("open('/workspace/answer.json', 'w').write('by hand')\nFINAL()", "by hand"),
    ],
)
def test_an_answer_can_be_declared_in_four_ways(workshop: Workshop, code: str, output: str) -> None:
    assert workshop.solve(cell(code)).output == output


def test_an_answer_that_is_none_is_an_error_for_the_model(workshop: Workshop) -> None:
    run = workshop.solve(
        said("FINAL(2) is my answer."),
        cell("FINAL_VAR('nothing')"),
        cell("FINAL()"),
        cell("import os; os.mkdir('/workspace/answer.json'); FINAL('lost')"),
        cell("os.rmdir('/workspace/answer.json'); FINAL('yes')"),
    )
    assert run.output == "yes"
    unknown, missing, unwritten, _ = run.results
    assert "NameError: there is no variable 'nothing'" in unknown
    assert "write it first" in missing
    assert "IsADirectoryError" in unwritten
    assert run.result.turns == 5


def test_prose_is_not_an_answer(workshop: Workshop) -> None:
    run = workshop.solve(*[said("FINAL: 2 A")] * 4)
    assert (run.result.status, run.result.end) == ("failed", "stopped")


def test_a_run_without_an_answer_gets_one_more_turn_at_the_cap(workshop: Workshop) -> None:
    toml = "[guardrails]\nmax_iterations = 2\n"
    run = workshop.solve(cell("x = 2"), cell("x += 1"), cell("FINAL(x)"), toml=toml)
    assert run.output == "3\n"
    assert (run.result.status, run.result.end) == ("limit_reached", "turn_limit")
    assert run.result.error == "used all of its 2 turns"
    text_only = workshop.solve(cell("1"), cell("1"), said("It is 2 A."), toml=toml)
    assert text_only.output == "It is 2 A."
    begun = workshop.solve(cell("answer['content'] = 'half'"), cell("1"), cell("1"), toml=toml)
    assert begun.output == "half"


def spent(workshop: Workshop, toml: str, *before: str, **more: Any) -> Run:
    """Run cells until a budget is spent; a last turn declares the answer and asks in vain."""
    last = """
try:
    llm_query('sub')
except SubcallError as error:
    FINAL(str(error))
"""
    cells = [cell(code) for code in (*before, last, "1", "1", "1")]
    model = workshop.script(
        *cells, others={"The question": "Look.", **SUB}, price=more.pop("price", False)
    )
    toml = f'[guardrails]\n{toml}\n[advisor]\nmodel = "{model}"\n'
    return workshop.run(model, workshop.task(toml), **more)


# Every call has 100 tokens of input and 10 of output.
@pytest.mark.parametrize(
    ("toml", "before", "end"),
    [
        ("token_budget = 220", ("1", "1"), "token_budget"),
        ("token_budget = 221", ("1", "1", "1"), "token_budget"),
        ("token_budget = 330", ("llm_query('sub')", "1"), "token_budget"),
        ("token_budget = 330", ("ADVISOR(problem='x')", "1"), "token_budget"),
        ("billable_input_budget = 200", ("1", "1"), "billable_input"),
        ("max_budget_usd = 220.0", ("1", "1"), "cost_limit"),
    ],
)
def test_a_budget_that_is_spent_ends_the_run_after_one_more_turn(
    workshop: Workshop, toml: str, before: tuple[str, ...], end: str
) -> None:
    run = spent(workshop, toml, *before, price=True)
    assert (run.result.status, run.result.end) == ("limit_reached", end)
    assert run.output == "the run is over; models can no longer be asked"
    assert run.result.turns == len(before) + 1


def test_a_budget_is_checked_before_each_call_of_a_cell(workshop: Workshop) -> None:
    code = "[str(one) for one in llm_query_batched(['sub'] * 5)]"
    toml = "[guardrails]\ntoken_budget = 400\n[execution]\nmax_parallel_workers = 1\n"
    run = workshop.solve(cell(code), cell("FINAL(1)"), toml=toml, others=SUB)
    assert len(run.calls("subcall")) == 3
    assert run.results[0].count("no call was made: the run has used 440 tokens") == 2
    assert run.result.end == "token_budget"


def test_agent_parameters_tighten_the_limits_of_a_task(workshop: Workshop) -> None:
    tight = spent(workshop, "token_budget = 1000", "1", "1", token_budget=220)
    assert (tight.result.end, tight.result.turns) == ("token_budget", 3)
    loose = spent(workshop, "token_budget = 220", "1", "1", token_budget=1000)
    assert (loose.result.end, loose.result.turns) == ("token_budget", 3)
    turns = spent(workshop, "max_iterations = 50", "1", max_turns=1)
    assert (turns.result.end, turns.result.turns) == ("turn_limit", 2)
    usd = spent(workshop, "max_budget_usd = 1000.0", "1", "1", max_cost_usd=220.0, price=True)
    assert (usd.result.end, usd.result.turns) == ("cost_limit", 3)


def test_a_number_of_calls_is_exact_and_does_not_end_the_run(workshop: Workshop) -> None:
    code = """
said, errors = [], []
for _ in range(10):
    try:
        said.append(llm_query('sub'))
    except SubcallError as error:
        errors.append(str(error))
FINAL({'said': said, 'errors': len(errors), 'why': errors[0]})
"""
    run = workshop.solve(cell(code), toml="[guardrails]\nmax_subcalls = 3\n", others=SUB)
    answer = json.loads(run.output or "")
    assert (answer["said"], answer["errors"]) == (["two"] * 3, 7)
    assert "made 3 calls" in answer["why"]
    assert len(run.calls("subcall")) == 3
    assert run.result.end == "submitted"


def test_calls_of_the_advisor_count_and_are_limited(workshop: Workshop) -> None:
    code = """
try:
    print(ADVISOR(problem='stuck'))
    ADVISOR()
except SubcallError as error:
    print(error)
"""
    model = workshop.script(
        cell("NOTE('span', 1)"),
        cell(code),
        cell("FINAL(1)"),
        others={"The question": "Look again."},
    )
    toml = f'[advisor]\nmodel = "{model}"\nmax_uses = 1\n'
    run = workshop.run(model, workshop.task(toml))
    assert "Look again." in run.results[1]
    assert "all 1 questions are used" in run.results[1]
    (advised,) = run.calls("advisor")
    assert "user: Find the current" in advised.metadata["prompt"]
    assert "Notes: span" in advised.metadata["prompt"]
    assert "Problem: stuck" in advised.metadata["prompt"]
    assert run.result.usage == run.usage == Usage(400, 40)
    short = workshop.run(model, workshop.task(f"{toml}context_window = 1\n"))
    assert "Find the current" not in short.calls("advisor")[0].metadata["prompt"]
    off = workshop.run(model, workshop.task(f"{toml}enabled = false\n"))
    assert "NameError" in off.results[1]
    assert "ADVISOR" not in off.entries[0].content


def test_the_deadline_in_the_middle_of_a_cell_keeps_what_was_begun(workshop: Workshop) -> None:
    code = "answer['content'] = 'half'\nwhile True:\n    pass"
    run = workshop.solve(cell(code), timeout_sec=2)
    assert (run.result.status, run.result.end) == ("timed_out", "deadline")
    assert run.output == "half"


def test_a_cell_that_ignores_its_interrupt_is_killed(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_aecbench.agents.rlm.link.CELL_GRACE_SEC", 1.0)
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)"
    cells = (cell("NOTE('a', 1)"), cell(code), cell("FINAL(RECALL('a'))"))
    run = workshop.solve(*cells, command_timeout=1.0)
    assert "did not end when it was interrupted after 1 s" in run.results[1]
    assert run.output == "1\n"


def test_a_warning_comes_once_and_at_the_first_result_past_the_share(workshop: Workshop) -> None:
    toml = "[guardrails]\ntoken_budget = 1000\nbudget_warning_pct = 30.0\n"
    run = workshop.solve(*[cell("1")] * 5, cell("FINAL(1)"), toml=toml)
    assert [("budget of tokens" in text) for text in run.results] == [
        *(False, False, True, False, False, False)
    ]


def test_five_errors_in_a_row_end_the_run(workshop: Workshop) -> None:
    run = workshop.solve(cell("1 / 0"), cell("1"), *[cell("1 / 0")] * 5, cell("FINAL('late')"))
    assert (run.result.end, run.result.turns, run.output) == ("stopped", 8, "late")


def test_the_sum_over_the_trajectory_is_that_of_the_record(workshop: Workshop) -> None:
    code = "llm_query_batched(['sub a', 'sub b'])\nextract('U = 12 V', ['U'])"
    others = {**SUB, "Extract": [said('{"U": "12 V"}', input=7, output=3)]}
    run = workshop.solve(cell(code), cell("FINAL(1)"), toml="[subcalls.extract]\n", others=others)
    assert run.usage == run.result.usage == Usage(407, 43)
    assert run.result.calls == 5
    kinds = [(e.metadata["kind"], e.metadata["depth"]) for e in run.calls("subcall")]
    assert kinds == [("llm_query", 1), ("llm_query", 1), ("extract", 1)]
    cells = [e for e in run.entries if e.role == "tool_call"]
    assert {e.metadata["parent"] for e in run.calls("subcall")} == {cells[0].step}
    path = write_atif(run.directory, "a", "1")
    assert path is not None
    document = check(path)
    assert document["final_metrics"]["total_prompt_tokens"] == 407
    assert document["final_metrics"]["total_completion_tokens"] == 43
    (observed,) = document["steps"][2]["observation"]["results"]
    assert observed["source_call_id"] == "call_1_1"


def test_answers_of_models_that_are_none_are_errors_in_the_cell(workshop: Workshop) -> None:
    code = """
got = []
for prompt in ('empty', 'refuse', ''):
    try:
        got.append(llm_query(prompt))
    except SubcallError as error:
        got.append(str(error))
got += [type(item).__name__ for item in llm_query_batched(['sub', 'refuse'])]
result = extract('refused no JSON here', ['a'])
got += [result.error, result.values]
FINAL(got)
"""
    others = {
        "refused no JSON": "I cannot say",
        **SUB,
        "empty": [said(" ")],
        "refuse": [{**said("I will not"), "stop": "refusal"}],
    }
    run = workshop.solve(cell(code), toml="[subcalls.extract]\n", others=others)
    empty, refused, blank, fine, failed, error, values = json.loads(run.output or "")
    assert empty == "the model gave an empty answer"
    assert refused == "the model refused: I will not"
    assert blank == "the prompt is empty"
    assert (fine, failed) == ("str", "SubcallError")
    assert error == "the answer is not JSON: I cannot say"
    assert values == {}
    recorded = [entry.content for entry in run.calls("subcall")]
    assert sorted(recorded) == [" ", "I cannot say", "I will not", "I will not", "two"]


def test_a_model_that_cannot_be_reached_is_an_error_of_the_trial(workshop: Workshop) -> None:
    with pytest.raises(ProviderError, match="no conversation is for this"):
        workshop.solve(cell("llm_query('nobody answers this')"), max_retries=0)


def test_only_models_of_the_run_can_be_asked(workshop: Workshop) -> None:
    code = "print(llm_query_batched(['sub'], model='gpt-4.1'))\nFINAL(1)"
    run = workshop.solve(cell(code), others=SUB)
    assert "'gpt-4.1' is not a model of this run" in run.results[0]


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ("[template]\ntier = null\n", "TOML has no null, leave the key out"),
        ("[guard]\n", "guard: unknown key; did you mean 'guardrails'?"),
        ("[guardrails]\ntoken_budget = 'many'\n", "token_budget: 'many' is not valid"),
        ("[guardrails]\nmax_iterations = -1\n", "max_iterations: -1 is not valid"),
        ("[execution]\nhard_ceiling_pct = 0.5\n", "hard_ceiling_pct: 0.5 is not valid"),
        ("[execution]\ncompaction_threshold_pct = 85\n", "85 is not valid"),
        ("[execution]\nsubcall_model = 'no-such'\n", "execution.subcall_model"),
        ("[advisor]\nmodel = 'no-such'\n", "advisor.model"),
        ("[guardrails]\nmax_budget_usd = 1.0\n", "guardrails.max_budget_usd: the price of"),
        ("[template]\ndefinition = 'r.toml'\n[execution]\nscaffolding = false\n", "scaffolding"),
        ("[template]\ndefinition = 'tests/r.toml'\n", "template.definition: 'tests/r.toml'"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_before_anything_is_spent(
    workshop: Workshop, toml: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TaskError) as caught:
        workshop.solve(cell("FINAL(1)"), toml=toml)
    assert problem in str(caught.value)
    assert "rlm.toml: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert workshop.sandbox.context is None


def test_hints_are_in_the_prompt(workshop: Workshop) -> None:
    toml = '[hints]\nphases = ["look", "count"]\nprohibited = ["guess"]\n'
    system = workshop.solve(cell("FINAL(1)"), toml=toml).entries[0].content
    assert "A suggested approach:\n\n- look\n- count" in system
    assert "You must not:\n\n- guess" in system
    assert "approach" not in workshop.solve(cell("FINAL(1)")).entries[0].content


def test_an_entry_of_a_cell_says_what_it_changed(workshop: Workshop) -> None:
    run = workshop.solve(
        cell("x, y = 'abc', 2\nNOTE('k', 1)"), cell("del y\n1 / 0"), cell("FINAL(x)")
    )
    first, second, last = [entry for entry in run.entries if entry.role == "tool_result"]
    assert first.metadata["var_diff"]["new"] == {"x": "str(3)", "y": "int"}
    assert first.metadata["scratchpad_keys"] == ["k"]
    assert first.metadata["tokens"] == {"grand_total": 110}
    assert second.metadata["var_diff"]["removed"] == ["y"]
    assert second.metadata["variables"]["x"] == "str(3)"
    assert (first.exit_code, second.exit_code, last.exit_code) == (0, 1, 0)
    assert last.metadata["final"] == {"from": "final", "preview": "abc", "chars": 3}


def test_a_provider_that_fails_ends_a_batch_before_all_of_it_is_asked(workshop: Workshop) -> None:
    code = "llm_query_batched(['nobody answers this'] + ['sub'] * 500)"
    toml = "[execution]\nmax_parallel_workers = 1\n"
    with pytest.raises(ProviderError, match="no conversation is for this"):
        workshop.solve(cell(code), toml=toml, others=SUB, max_retries=0)
    path = workshop.directory / f"agent-{workshop.runs}" / FILE
    assert len([one for one in read_trajectory(path) if one.role == "assistant"]) < 500
