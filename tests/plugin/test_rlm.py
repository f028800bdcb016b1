"""``rlm`` on real trials: the documented example, the tree of calls, and refusals beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pytest_aecbench.agents.rlm.prompts import RLM_VERSION, root_system
from pytest_aecbench.agents.rlm_config import RlmConfig
from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.cli.app import app
from pytest_aecbench.tasks.task import Task
from tests.project import Project
from tests.tasks import write_least

pytestmark = pytest.mark.slow  # about an agent, not versions

BY_DAY = ("lanes",)
PAGE = Path(__file__).parents[2] / "docs/rlm.md"
AGENT = "--aec-agent=a=rlm:scripted:culvert.json"
VERIFY = """
import json, pathlib
out = pathlib.Path("/workspace/output.json")
found = json.loads(out.read_text()) if out.exists() else {}
pathlib.Path("/logs/verifier/reward.txt").write_text(str(int(found == {"crack": "3 mm"})))
"""
DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /workspace\n"


def documented(name: str) -> str:
    """Return an example of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- example: {name} -->\n")[2]
    return text.partition("\n")[2].partition("```")[0]


def write_example(
    project: Project, config: str | None = None, dockerfile: str = DOCKERFILE
) -> None:
    project.task(
        toml="[environment]\nallow_internet = false\n",
        instruction="Write the width of the crack to `/workspace/output.json`.",
        verify=VERIFY,
        solve=None,
        files={
            "rlm.toml": config or documented("config"),
            "survey.txt": "A culvert.\nThere is a crack of 3 mm.\n",
            "environment/Dockerfile": dockerfile,
        },
    )
    (project.path / "culvert.json").write_text(documented("script"))


def test_the_documented_example_runs_as_it_says(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_example(anyhow)
    anyhow.run(AGENT).assert_outcomes(passed=1)
    record = anyhow.record()
    assert record["inputs"]["prompt_version"] == RLM_VERSION
    assert record["agent_result"]["end"] == "submitted"
    cost = record["cost"]
    assert (cost["tokens_in"], cost["tokens_out"], cost["calls"]) == (2020, 102, 3)
    directory = anyhow.path / record["outputs"]["jobs_dir"] / "agent"
    document = json.loads((directory / "trajectory.json").read_text())
    assert document["final_metrics"]["total_prompt_tokens"] == 2020
    monkeypatch.chdir(anyhow.path)
    arguments = ["ledger", "show", record["trial_id"], "--trajectory"]
    shown = CliRunner().invoke(app, arguments).output
    tree = PAGE.read_text(encoding="utf-8").partition("```text\nturn 2")[2].partition("\n```")[0]
    assert f"turn 2{tree}" in shown


@pytest.mark.needs("docker")
def test_a_container_without_a_network_is_enough(project: Project) -> None:
    write_example(project)
    project.run(AGENT, "--aec-backend=docker").assert_outcomes(passed=1)


@pytest.mark.needs("docker")
def test_an_image_without_python_is_an_error_of_the_trial(project: Project) -> None:
    gone = "RUN rm -f /usr/local/bin/python3* /usr/bin/python3*\n"
    write_example(project, dockerfile=f"{DOCKERFILE}{gone}")
    project.run(AGENT, "--aec-backend=docker").assert_outcomes(errors=1)
    record = project.record()
    assert record["evaluation"]["validity"] != "scored"
    assert "rlm: needs python3 in the sandbox" in json.dumps(record)


def test_a_run_that_reaches_a_limit_is_verified(anyhow: Project) -> None:
    write_example(anyhow)
    script = json.loads(documented("script"))
    script["conversations"][0]["replies"][1] = {"text": '{"crack": "3 mm"}'}
    (anyhow.path / "culvert.json").write_text(json.dumps(script))
    limits = {"turns": {"max_turns": 1}, "tokens": {"token_budget": 940}}
    agent = {"harness": "rlm", "model": "scripted:culvert.json"}
    agents = [{**agent, "name": name, "parameters": one} for name, one in limits.items()]
    (anyhow.path / "experiment.yaml").write_text(json.dumps({"agents": agents}))
    anyhow.run("--aec-experiment=experiment.yaml").assert_outcomes(passed=2)
    records = {record["agent"]["name"]: record for record in anyhow.records()}
    assert {record["evaluation"]["reward"] for record in records.values()} == {1}
    ended = {name: record["agent_result"] for name, record in records.items()}
    assert {outcome["status"] for outcome in ended.values()} == {"limit_reached"}
    turns, tokens = ended["turns"], ended["tokens"]
    assert (turns["end"], turns["error"]) == ("turn_limit", "used all of its 1 turn")
    assert (tokens["end"], tokens["error"]) == ("token_budget", "used 940 tokens")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("x = null\n", "rlm.toml: line 1: invalid value in 'x = null'; TOML has no null"),
        ("[guardrail]\n", "rlm.toml: guardrail: unknown key; did you mean 'guardrails'?"),
        ("[guardrails]\nmax_budget_usd = 1.0\n", "guardrails.max_budget_usd: the price of"),
    ],
)
def test_a_bad_file_ends_the_run_before_anything_is_spent(
    project: Project, config: str, problem: str
) -> None:
    write_example(project, config)
    result = project.run(AGENT)
    assert result.ret == 4
    assert problem in "\n".join(result.errlines + result.outlines)
    assert project.records() == []


def test_the_documented_prompt_is_the_one_that_a_model_gets(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    rules = text.partition("<!-- prompt: rlm -->\n```text\n")[2].partition("\n```")[0]
    task = Task.load(write_least(tmp_path))
    spec = AgentSpec("a", "rlm", "m", system_prompt="Be brief.")
    assert root_system(spec, task, RlmConfig(), {}).startswith(f"Be brief.\n\n{rules}\n")
    assert f"`{RLM_VERSION}`" in text
