"""The plan of ``lambda-rlm``: integers alone, a bound that holds, and no character lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.lambda_rlm.config import (
    LambdaConfig,
    PlannerTable,
    read_config,
    read_template,
)
from pytest_aecbench.agents.lambda_rlm.planning import (
    Plan,
    SectionPlan,
    SourcePlan,
    plan_source,
    reduce_calls,
)
from pytest_aecbench.agents.lambda_rlm.splitting import split
from pytest_aecbench.errors import TaskError
from pytest_aecbench.tasks.task import Task
from tests.tasks import write_least, write_tree

WINDOW, MOST = 100_000, 20


@pytest.mark.parametrize(
    ("chars", "k", "d", "leaves"),
    [
        (0, 1, 0, 0),
        (1, 1, 0, 1),
        (100_000, 1, 0, 1),
        (100_001, 2, 1, 2),
        (300_000, 3, 1, 3),
        (500_000, 5, 1, 5),
        (2_000_000, 20, 1, 20),
        (2_000_001, 5, 2, 25),
        (2_100_000, 5, 2, 25),
        (100_000_000, 10, 3, 1000),
    ],
)
def test_the_plan_has_as_few_levels_as_it_can_and_then_is_narrow(
    chars: int, k: int, d: int, leaves: int
) -> None:
    plan = plan_source(chars, WINDOW, MOST)
    assert (plan.k, plan.d, plan.leaves) == (k, d, leaves)


@given(st.integers(1, 10**12), st.integers(1, 10**6), st.integers(2, 50))
def test_a_plan_is_exact_at_any_size(chars: int, window: int, most: int) -> None:
    plan = plan_source(chars, window, most)
    need = -(-chars // window)
    assert plan.k <= most
    assert plan.k**plan.d >= need
    assert plan.d == 0 or most ** (plan.d - 1) < need
    assert plan.d == 0 or (plan.k - 1) ** plan.d < need
    assert plan.tau <= window
    assert plan.leaves * plan.tau >= chars
    assert plan.leaves <= plan.k**plan.d
    assert plan.d == 0 or plan.reduces <= (plan.k**plan.d - 1) // (plan.k - 1)


def test_reducing_a_tree_counts_no_call_for_one_alone() -> None:
    assert [reduce_calls(leaves, 3) for leaves in (0, 1, 2, 3, 4, 9, 10)] == [0, 0, 1, 1, 2, 4, 5]


TEXTS = st.text(st.sampled_from("ab \n\té"), max_size=400)


@given(TEXTS, st.integers(1, 60), st.integers(2, 6))
def test_splitting_keeps_every_character_and_every_limit(text: str, window: int, most: int) -> None:
    plan = plan_source(len(text), window, most)
    chunks = split(text, plan)
    assert "".join(chunks) == text
    assert len(chunks) == plan.leaves
    assert all(0 < len(chunk) <= plan.tau for chunk in chunks)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("word word\nline\n\n" * 30, "\n\n"),
        ("word word\n" * 60, "\n"),
        ("word " * 120, " "),
        ("w" * 600, "w"),
    ],
)
def test_a_text_is_cut_where_it_is_least_in_the_way(text: str, end: str) -> None:
    plan = plan_source(len(text), 300, 20)
    chunks = split(text, plan)
    assert len(chunks) > 1
    assert all(chunk.endswith(end) for chunk in chunks)


def test_the_bound_is_what_all_that_may_be_done_again_adds_up_to() -> None:
    source = plan_source(250_000, WINDOW, MOST)
    assert source.calls == 3 + 1
    section = SectionPlan({"a": source, "b": plan_source(10, WINDOW, MOST)}, is_reviewed=True)
    assert section.calls == 4 + 1 + 1 + 1
    # Read three times, five reviews and one supplement more, each answer repaired; one text.
    assert section.most_calls(2, 1) == 2 * (3 * 5 + (1 + 2 * 2 + 1) + 1) + 1
    assert SectionPlan({"a": source}, is_reviewed=False).most_calls(2, 1) == 2 * 4 + 1
    config = LambdaConfig.model_validate({"advisor": {"model": "m", "max_uses": 1}})
    plan = Plan.of({"x": section, "y": section}, config, 80)
    assert plan.calls == 14
    assert plan.most_calls == 2 * section.most_calls(1, 1) + 1
    assert plan.least_tokens == (14 * 80 + 2 * 250_010) // 8


LOWER = PlannerTable(leaf_accuracy=0.9, compose_accuracy=0.8, accuracy_target=0.72)


@pytest.mark.parametrize(
    ("planner", "depth", "estimate", "feasible"),
    [
        (PlannerTable(), 0, 0.95, True),
        (PlannerTable(), 1, 0.855, True),
        (PlannerTable(), 2, 0.7695, False),
        (LOWER, 1, 0.72, True),
        (LOWER, 2, 0.576, False),
    ],
)
def test_the_estimate_is_the_chance_that_one_fact_survives(
    planner: PlannerTable, depth: int, estimate: float, feasible: bool
) -> None:
    source = SourcePlan(1, 2, depth, 1, 1)
    plan = Plan({"x": SectionPlan({"a": source}, is_reviewed=False)}, 1, 1, 0, planner, 1)
    assert plan.estimated_fact_accuracy == pytest.approx(estimate)
    assert plan.is_feasible is feasible
    assert bool(plan.warnings) is not feasible


# The file

FULL = """
[template]
tier       = "dependency_tree"
definition = "report_template.toml"

[planner]
context_window_chars  = 100_000
accuracy_target       = 0.80
leaf_accuracy         = 0.95
compose_accuracy      = 0.90
max_branching_factor  = 20

[review]
enabled                     = true
max_retries_per_source      = 1
max_supplements_per_section = 1

[execution]
max_parallel_workers = 4

[guardrails]
token_budget = 500_000

[advisor]
model   = "claude-haiku-4-5-20251001"
enabled = true
"""
TEMPLATE = "[[sections]]\nid = 'a'\ntitle = 'A'\ninput_mapping = ['x']\n"


def task_with(directory: Path, **files: str) -> Task:
    named = {name.replace("_toml", ".toml").replace("0", "-"): text for name, text in files.items()}
    return Task.load(write_tree(write_least(directory / "task"), named))


def test_the_defaults_are_those_of_the_described_file(tmp_path: Path) -> None:
    full, path = read_config(task_with(tmp_path, lambda0rlm_toml=FULL))
    assert path.name == "lambda-rlm.toml"
    empty = LambdaConfig()
    assert full.model_copy(update={"template": empty.template, "advisor": None}) == empty
    assert full.advisor is not None


def test_without_a_file_of_its_own_the_harness_reads_rlm_toml(tmp_path: Path) -> None:
    text = "[guardrails]\ntoken_budget = 7\nmax_iterations = 3\n[execution]\n"
    text += "max_parallel_workers = 2\n[advisor]\nmodel = 'm'\n"
    config, path = read_config(task_with(tmp_path, rlm_toml=text))
    assert path.name == "rlm.toml"
    assert (config.guardrails.token_budget, config.execution.max_parallel_workers) == (7, 2)
    assert config.template.tier == "flat"
    assert config.advisor is not None


def test_a_mistake_in_rlm_toml_is_one_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"rlm\.toml: guardrails\.tokens: unknown key; "):
        read_config(task_with(tmp_path, rlm_toml="[guardrails]\ntokens = 7\n"))


def test_without_any_file_a_definition_is_missing(tmp_path: Path) -> None:
    task = task_with(tmp_path)
    config, path = read_config(task)
    with pytest.raises(TaskError) as caught:
        read_template(task, config, path)
    assert str(caught.value).endswith(
        "lambda-rlm.toml: template.definition: missing, which 'dependency_tree' needs; "
        "name a report_template.toml, or use tier = 'flat'"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[template]\ndefinition = null", "line 2: invalid value in 'definition = null'; TOML has"),
        ("[planer]", "planer: unknown key; did you mean 'planner'?"),
        ("[extract]\nk_candidates = 3", "extract: unknown key; "),
        ("[planner]\ncontext_window_chars = 0", "planner.context_window_chars: 0 is not valid; "),
        ("[planner]\nleaf_accuracy = 95", "planner.leaf_accuracy: 95 is not valid; use a number"),
        ("[planner]\naccuracy_target = 0.0", "planner.accuracy_target: 0.0 is not valid; "),
        ("[planner]\nmax_branching_factor = 1", "planner.max_branching_factor: 1 is not valid; "),
        ("[review]\nmax_retries_per_source = -1", "review.max_retries_per_source: -1 is not"),
        ("[review]\ntrigger = 'uncertainty'", "review.trigger: 'uncertainty' is not valid; use "),
        ("[execution]\nmax_parallel_workers = 0", "execution.max_parallel_workers: 0 is not"),
        ("[guardrails]\ntoken_budget = '1'", "guardrails.token_budget: '1' is not valid; use a "),
        ("[advisor]\nenabled = true", "advisor.model: missing; add the name of a model"),
        ("[template]\ntier = 'flat'\ndefinition = 'x'", "template: definition: a flat result has"),
        ("[template]\ndefinition = 'x.toml'", "template.definition: 'x.toml' does not exist; "),
        ("[template]\ndefinition = 'tests/test.sh'", "template.definition: 'tests/test.sh' is in"),
    ],
)
def test_a_mistake_is_one_line_with_the_file_and_the_key(
    tmp_path: Path, text: str, expected: str
) -> None:
    task = task_with(tmp_path, lambda0rlm_toml=text)
    with pytest.raises(TaskError) as caught:
        read_template(task, *read_config(task))
    where, _, what = str(caught.value).partition("lambda-rlm.toml: ")
    assert where.endswith("/")
    assert what.startswith(expected)
    assert "\n" not in what


def test_a_section_without_sources_and_dependencies_is_a_mistake(tmp_path: Path) -> None:
    files = {"lambda0rlm_toml": FULL, "report_template_toml": TEMPLATE.replace("['x']", "[]")}
    task = task_with(tmp_path, **files)
    with pytest.raises(TaskError) as caught:
        read_template(task, *read_config(task))
    assert "sections: 'a' has neither sources nor dependencies; add " in str(caught.value)
