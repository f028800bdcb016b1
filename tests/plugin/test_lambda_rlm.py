"""``lambda-rlm`` on real trials: the documented example, the record, and refusals beforehand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.agents.lambda_rlm.prompts import VERSION, system_message
from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.tasks.task import Task
from tests.project import Project
from tests.tasks import write_least

pytestmark = pytest.mark.slow  # about an agent, not versions

BY_DAY = ("lanes",)
PAGE = Path(__file__).parents[2] / "docs/lambda-rlm.md"
AGENT = "--aec-agent=a=lambda-rlm:scripted:culvert.json"
VERIFY = """
import pathlib
out = pathlib.Path("/workspace/output.md")
text = out.read_text() if out.exists() else ""
pathlib.Path("/logs/verifier/reward.txt").write_text(str(int("3 mm" in text and "Warrel" in text)))
"""
DOCKERFILE = """
FROM python:3.11-slim
WORKDIR /workspace
COPY documents /workspace/documents
"""


def documented(name: str) -> str:
    """Return an example of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- example: {name} -->\n")[2]
    return text.partition("\n")[2].partition("```")[0]


def write_example(project: Project, **files: str | None) -> None:
    given: dict[str, Any] = {
        "lambda-rlm.toml": documented("config"),
        "report_template.toml": documented("template"),
        "environment/Dockerfile": DOCKERFILE,
        "environment/documents/brief.md": "# Scope\n\nOwner: Shire of Warrel\n\n# Fee\n\nNone.\n",
        "environment/documents/survey.txt": "There is a crack of 3 mm.\n",
        **files,
    }
    project.task(
        instruction="Write the report to `/workspace/output.md`.",
        verify=VERIFY,
        solve=None,
        files={name: text for name, text in given.items() if text is not None},
    )
    (project.path / "culvert.json").write_text(documented("script"))


def test_the_documented_example_runs_as_it_says(anyhow: Project) -> None:
    write_example(anyhow)
    anyhow.run(AGENT).assert_outcomes(passed=1)
    record = anyhow.record()
    outcome = record["agent_result"]
    assert (outcome["status"], outcome["end"], outcome["turns"]) == ("completed", "written", 6)
    plan = outcome["plan"]
    assert (plan["calls_planned"], plan["feasible"]) == (6, True)
    assert plan["estimated_fact_accuracy"] == 0.95
    assert record["cost"]["calls"] == 6
    assert record["cost"]["tokens_in"] == 2 * 400 + 2 * 300 + 350 + 380
    assert record["cost"]["usd"] == pytest.approx((2130 * 3 + 150 * 15) / 1e6)
    assert record["inputs"]["prompt_version"] == VERSION
    assert record["warnings"] == []
    directory = anyhow.path / record["outputs"]["jobs_dir"]
    assert (directory / "workspace/output.md").read_text() == documented("report")
    sections = json.loads((directory / "workspace/sections.json").read_text())
    assert [section["review"] for section in sections.values()] == ["pass", "pass"]
    atif = json.loads((directory / "agent/trajectory.json").read_text())
    assert atif["final_metrics"]["total_prompt_tokens"] == 2130
    assert atif["final_metrics"]["total_cost_usd"] == pytest.approx(record["cost"]["usd"])


def test_the_plan_and_the_calls_are_shown(project: Project) -> None:
    write_example(project)
    shown = project.run(AGENT, "--aec-follow").stdout.str()
    assert "plan: 6 calls if nothing is done again, at most 26; " in shown
    assert "  - survey: 26 characters, 1 chunk\n" in shown
    assert "The Shire's culvert has a crack of 3 mm." in shown
    command = ("ledger", "show", project.record()["trial_id"], "--trajectory")
    done = project.pytester.run(sys.executable, "-m", "pytest_aecbench", *command)
    assert done.ret == 0
    done.stdout.fnmatch_lines(["give_facts", "The Shire's culvert has a crack of 3 mm."])


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"lambda-rlm.toml": "[planer]\n"}, "lambda-rlm.toml: planer: unknown key; did you mean"),
        ({"lambda-rlm.toml": "x = null\n"}, "lambda-rlm.toml: line 1: invalid value in 'x = null'"),
        ({"lambda-rlm.toml": None}, "lambda-rlm.toml: template.definition: missing, which "),
        ({"report_template.toml": None}, "lambda-rlm.toml: template.definition: 'report_template"),
        ({"report_template.toml": "sections = []\n"}, "report_template.toml: sections: there are"),
        (
            {"lambda-rlm.toml": "[template]\ntier = 'flat'\n[advisor]\nmodel = 'claude-x'\n"},
            "a: 'claude-x' is asked at anthropic, but ANTHROPIC_API_KEY is not set; ",
        ),
    ],
    ids=["table", "null", "no definition", "no template", "no sections", "advisor"],
)
def test_a_mistake_is_a_usage_error_before_anything_is_spent(
    project: Project, files: dict[str, str | None], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    write_example(project, **files)
    result = project.run(AGENT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    assert len(lines) == 1
    assert expected in lines[0]
    assert project.records() == []


def test_a_mistake_in_the_files_of_the_harness_is_none_for_other_agents(project: Project) -> None:
    write_example(project, **{"lambda-rlm.toml": "[planer]\n"})
    project.run("--aec-agent=nop").assert_outcomes(failed=1)


def test_a_usd_limit_needs_a_known_price(project: Project) -> None:
    write_example(project)
    script = json.loads(documented("script"))
    del script["price"]
    (project.path / "culvert.json").write_text(json.dumps(script))
    agent = {"name": "a", "harness": "lambda-rlm", "model": "scripted:culvert.json"}
    entry = {"agents": [{**agent, "parameters": {"max_cost_usd": 1.0}}]}
    (project.path / "experiment.yaml").write_text(json.dumps(entry))
    result = project.run("--aec-experiment=experiment.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "parameters.max_cost_usd: the price of " in result.stderr.str()


def test_the_documented_rules_are_those_that_a_model_gets(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    rules = text.partition("<!-- prompt: lambda-rlm -->\n```text\n")[2].partition("\n```")[0]
    task = Task.load(write_least(tmp_path / "task"))
    told = system_message(AgentSpec("a", "lambda-rlm", "m", system_prompt="Be brief."), task)
    assert told == f"Be brief.\n\n{rules}\n\n# The task\n\nDo it."
    assert f"`{VERSION}`" in text
