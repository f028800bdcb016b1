"""``rlm.toml``: every key has a default, a type and a range, and a mistake is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.agents.harness_config import file_of_task, read_table
from pytest_aecbench.agents.rlm_config import RlmConfig
from pytest_aecbench.errors import TaskError
from pytest_aecbench.tasks.task import Task
from tests.tasks import write_least, write_tree

# As the page that describes the file has it, but for the values that TOML has not.
FULL = """
[template]
tier       = "flat"
definition = "report_template.toml"

[inputs.source_doc]
type        = "string"
source      = "fixtures/spec.md"
pre_parse   = false
description = "Reference specification"

[hints]
phases     = ["understand", "calculate", "verify"]
prohibited = ["guess", "skip_verification"]

[subcalls.extract]
enabled     = true
description = "Pull values from source doc"

[guardrails]
token_budget         = 500_000
max_iterations       = 100
max_subcall_depth    = 1
budget_warning_pct   = 80.0
max_subcalls         = 0
max_budget_usd       = 0.0
billable_input_budget = 0

[execution]
scaffolding              = true
compaction_threshold_pct = 0.85
hard_ceiling_pct         = 0.95
context_limit            = 1_000_000
max_parallel_workers     = 4

[advisor]
model               = "claude-haiku-4-5-20251001"
max_uses            = 5
max_response_tokens = 500
context_window      = 10
enabled             = true
"""


def read(directory: Path, text: str) -> RlmConfig:
    path = directory / "rlm.toml"
    path.write_text(text)
    return read_table(path, RlmConfig)


def test_the_defaults_are_those_of_the_described_file(tmp_path: Path) -> None:
    full, empty = read(tmp_path, FULL), read(tmp_path, "")
    assert (full.guardrails, full.execution) == (empty.guardrails, empty.execution)
    assert full.advisor is not None
    assert (full.advisor.max_uses, full.advisor.max_response_tokens) == (5, 500)
    assert empty.advisor is None
    assert full.inputs["source_doc"].type == "string"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = null", "line 1: invalid value in 'x = null'; TOML has no null, leave the key out"),
        ("[guardrail]", "guardrail: unknown key; did you mean 'guardrails'?"),
        ("[guardrails]\ntokens = 1", "guardrails.tokens: unknown key; "),
        ("guardrails = 1", "guardrails: 1 is not valid; use a table"),
        ("[guardrails]\ntoken_budget = 'many'", "guardrails.token_budget: 'many' is not valid; "),
        ("[guardrails]\ntoken_budget = true", "guardrails.token_budget: True is not valid; "),
        ("[guardrails]\nmax_subcalls = -1", "guardrails.max_subcalls: -1 is not valid; use a "),
        ("[guardrails]\nbudget_warning_pct = 0", "guardrails.budget_warning_pct: 0"),
        ("[guardrails]\nbudget_warning_pct = 101", "guardrails.budget_warning_pct: 101"),
        ("[execution]\nhard_ceiling_pct = 95", "execution.hard_ceiling_pct: 95 is not valid; "),
        (
            "[execution]\nhard_ceiling_pct = 0.85",
            "execution: hard_ceiling_pct: 0.85 is not valid; use a number above ",
        ),
        ("[execution]\ncontext_limit = 0", "execution.context_limit: 0 is not valid; use a "),
        ("[template]\ntier = 'tree'", "template.tier: 'tree' is not valid; use one of "),
        ("[template]\ntier = 'dependency_tree'", "template: definition: missing, which "),
        ("[inputs.class]\ntype = 'csv'\nsource = 'x'", "inputs: 'class' cannot name a variable"),
        ("[inputs.a]\ntype = 'xml'\nsource = 'x'", "inputs.a.type: 'xml' is not valid; use one"),
        (
            "[inputs.a]\ntype = 'path'\nsource = 'x'\npre_parse = true",
            "inputs.a: pre_parse: 'path' has nothing to parse; ",
        ),
        ("[subcalls.extrct]", "subcalls: 'extrct' is not a call that there is; did you mean"),
        ("[subcalls.x]\ncustom_impl = 'a.py'", "subcalls.x.custom_impl: 'a.py' is not valid; "),
        ("[advisor]\nenabled = true", "advisor.model: missing; add "),
        ("[advisor]\nmodel = 'm'\nmax_uses = 0", "advisor.max_uses: 0 is not valid; "),
    ],
)
def test_a_mistake_is_one_line_with_the_file_and_the_key(
    tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(TaskError) as caught:
        read(tmp_path, text)
    where, _, what = str(caught.value).partition("rlm.toml: ")
    assert where.endswith("/")
    assert what.startswith(expected)
    assert "\n" not in what


def test_a_call_of_the_tasks_own_is_known(tmp_path: Path) -> None:
    table = read(tmp_path, "[subcalls.price]\ncustom_impl = 'calls.py:price'").subcalls["price"]
    assert table.custom_impl == "calls.py:price"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../elsewhere.md", "'../elsewhere.md' is not in the task; "),
        ("/etc/passwd", "'/etc/passwd' is not in the task; "),
        ("link.md", "'link.md' is not in the task; "),
        ("tests/test.sh", "'tests/test.sh' is in tests/; "),
        ("docs/../solution/solve.sh", "'docs/../solution/solve.sh' is in solution/; "),
        ("none.md", "'none.md' does not exist; "),
        ("docs", "'docs' does not exist; "),
    ],
)
def test_a_file_that_a_model_must_not_read_is_refused(
    tmp_path: Path, name: str, expected: str
) -> None:
    (tmp_path / "elsewhere.md").write_text("x")
    root = write_tree(
        write_least(tmp_path / "task"), {"docs/spec.md": "x", "solution/solve.sh": "x"}
    )
    (root / "link.md").symlink_to(tmp_path / "elsewhere.md")
    task = Task.load(root)
    assert file_of_task(task, "docs/spec.md", "rlm.toml: x") == root.resolve() / "docs/spec.md"
    with pytest.raises(TaskError) as caught:
        file_of_task(task, name, "rlm.toml: inputs.a.source")
    assert str(caught.value).startswith(f"rlm.toml: inputs.a.source: {expected}")
