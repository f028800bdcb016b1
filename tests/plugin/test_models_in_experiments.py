"""Whole experiments with models at providers: real SDKs, real trials, and servers on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pytest_aecbench.cli.app import app
from tests.conformance.providers import PIXEL
from tests.project import Project
from tests.standins.models import KEY, ModelServer, Tokens, Turn, Wish

pytestmark = pytest.mark.slow  # about agents, not versions

RIGHT = '{"current_a": 2.0, "power_w": 24.0}'
HALF = '{"power_w": 24}'
CLAUDE = "claude-sonnet-4-20250514"
GPT = "gpt-4.1"

# The experiment of the documents that this system was made after, with tasks of this test.
EXPERIMENT = f"""
experiment_id: exp-20260412-001
name: "Claude vs GPT electrical"
tasks:
  include_patterns: ["electrical/*"]
  domains: ["electrical"]
  difficulties: ["easy", "medium"]
agents:
  - name: claude-tool-loop
    harness: tool_loop
    model: {CLAUDE}
    parameters:
      max_turns: 12
    system_prompt_file: prompts/electrical.md
  - name: gpt4-direct
    harness: direct
    model: {GPT}
    parameters:
      max_tokens: 8192
repetitions: 3
disable_verification: false
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    server = ModelServer()
    for name, value in server.environment("anthropic", "openai").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    server.scripts[CLAUDE] = solving()
    server.scripts[GPT] = (Turn(HALF, tokens=Tokens(500, out=50)),)
    yield server
    server.close()


def solving() -> tuple[Turn, ...]:
    """Return turns of a model that looks for keys, writes the right answer and submits."""
    tokens = Tokens(1000, out=100)
    return (
        Turn("I look.", (Wish("bash", {"command": "env; cat /proc/*/environ"}),), tokens=tokens),
        Turn("", (Wish("write_file", {"path": "output.jsonl", "content": RIGHT}),), tokens=tokens),
        Turn("Done.", (Wish("submit"),), tokens=tokens),
    )


def write_experiment(project: Project) -> None:
    (project.path / "prompts").mkdir()
    (project.path / "prompts/electrical.md").write_text("You are an electrical engineer.\n")
    (project.path / "experiment.yaml").write_text(EXPERIMENT)
    project.task("electrical/one")
    project.task("electrical/two")
    project.task("civil/other")


def run(project: Project, model: str, *options: str, harness: str = "tool_loop") -> Any:
    """Run one trial and return its record."""
    project.task()
    project.run(f"--aec-agent=a={harness}:{model}", *options)
    return project.record()


def leftovers(directory: Path) -> Iterator[Path]:
    """Yield the files in which the key is found."""
    for path in directory.rglob("*"):
        if path.is_file() and KEY.encode() in path.read_bytes():
            yield path


def test_two_agents_and_three_repetitions_give_the_leaderboard_worked_out_by_hand(
    anyhow: Project, server: ModelServer
) -> None:
    write_experiment(anyhow)
    result = anyhow.run("--aec-experiment=experiment.yaml", "--junitxml=junit.xml")
    result.assert_outcomes(passed=6, failed=6)
    records = anyhow.records()
    assert len(records) == 12
    rewards = {
        name: [
            record["evaluation"]["reward"] for record in records if record["agent"]["name"] == name
        ]
        for name in ("claude-tool-loop", "gpt4-direct")
    }
    assert rewards == {"claude-tool-loop": [1.0] * 6, "gpt4-direct": [0.35] * 6}
    # Claude: 3 calls of 1,000 tokens in at USD 3 and 100 out at 15 for a million; GPT: 500 and 50
    # at USD 2 and 8.
    costs = {record["agent"]["name"]: record["cost"]["usd"] for record in records}
    assert costs["claude-tool-loop"] == pytest.approx(3 * (1000 * 3 + 100 * 15) / 1e6)
    assert costs["gpt4-direct"] == pytest.approx((500 * 2 + 50 * 8) / 1e6)
    table = CliRunner().invoke(app, ["report", "leaderboard", "--json"])
    rows = json.loads(table.stdout)
    agents = rows["agents"] if isinstance(rows, dict) else rows
    assert [(row["agent"], row["trials"]) for row in agents] == [
        ("claude-tool-loop", 6),
        ("gpt4-direct", 6),
    ]
    assert list(leftovers(anyhow.path)) == []
    assert KEY not in result.stdout.str() + result.stderr.str()


def test_the_models_get_the_prompts_and_tools_of_the_experiment(
    project: Project, server: ModelServer
) -> None:
    write_experiment(project)
    project.run("--aec-experiment=experiment.yaml", "-k", "one and claude", "--aec-repetitions=1")
    first = server.calls[0].body
    assert "You are an electrical engineer." in json.dumps(first["system"])
    assert [tool["name"] for tool in first["tools"]] == [
        "bash",
        "read_file",
        "write_file",
        "submit",
    ]


def test_no_key_gets_into_the_sandbox_or_anything_that_a_run_leaves(
    project: Project, server: ModelServer
) -> None:
    record = run(project, CLAUDE, "--junitxml=junit.xml", "--aec-cache-calls=replies")
    assert record["evaluation"]["reward"] == 1
    path = project.path / record["outputs"]["jobs_dir"] / "agent/trajectory.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    (seen,) = (entry["stdout"] for entry in entries if entry.get("stdout"))
    assert "PATH=" in seen
    assert "ANTHROPIC" not in seen
    assert list(leftovers(project.path)) == []


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("unauthorised", "provider_auth"),
        ("forbidden", "provider_auth"),
        ("quota", "provider_quota"),
        ("missing", "model_not_found"),
        ("rejected", "provider_request"),
        ("failing", "provider"),
        ("overloaded", "provider"),
        ("torn", "provider"),
        ("rate_seconds", "rate_limit"),
    ],
)
def test_a_provider_that_fails_is_an_error_and_never_a_zero(
    project: Project, server: ModelServer, fault: str, cause: str
) -> None:
    project.task()
    agent: dict[str, object] = {"name": "a", "harness": "tool_loop"}
    agent |= {"model": f"claude-fault-{fault}"}
    agent |= {"parameters": {"max_retries": 0, "max_wait_sec": 0.5}}
    (project.path / "experiment.yaml").write_text(json.dumps({"agents": [agent]}))
    result = project.run("--aec-experiment=experiment.yaml", "--junitxml=junit.xml")
    result.assert_outcomes(errors=1)
    record = project.record()
    assert record["evaluation"]["reward"] is None
    assert record["evaluation"]["error"]["cause"] == cause
    assert list(leftovers(project.path)) == []
    assert KEY not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("fault", ["overloaded-x1", "failing-x1", "torn-x1", "reset-x1"])
def test_a_failure_that_passes_costs_the_agent_nothing(
    project: Project, server: ModelServer, fault: str
) -> None:
    model = f"claude-fault-{fault}"
    server.scripts[model] = solving()
    record = run(project, model)
    assert record["evaluation"]["reward"] == 1
    assert record["timing"]["model_wait"] > 0.5
    assert record["cost"]["calls"] == 3


@pytest.mark.parametrize(("fault", "end"), [("context", "context_length"), ("filtered", "refusal")])
def test_what_the_conversation_itself_leads_to_is_scored(
    project: Project, server: ModelServer, fault: str, end: str
) -> None:
    server.scripts[CLAUDE] = solving()[1:]
    project.task()
    # The first call is answered, and writes the answer; the second is not.
    server.queue.extend(["", *[fault] * 3])
    project.run(f"--aec-agent=a=tool_loop:{CLAUDE}").assert_outcomes(passed=1)
    assert project.record()["agent_result"]["end"] == end


@pytest.mark.parametrize("model", ["claude-half", "gpt-4o-half", "gpt-5-half"])
def test_half_a_character_does_not_turn_a_zero_into_an_error(
    project: Project, server: ModelServer, model: str
) -> None:
    wishes = (
        Wish("bash", {"command": "echo \ud800"}),
        Wish("write_file", {"path": "\udfff", "content": "\ud800"}),
    )
    server.scripts[model] = (Turn("half of \ud83d", wishes), *solving()[1:])
    assert run(project, model)["evaluation"]["reward"] == 1


def test_a_conversation_that_the_provider_does_not_take_is_scored(
    project: Project, server: ModelServer
) -> None:
    server.scripts[CLAUDE] = solving()[1:]
    server.queue.extend(["", "rejected"])
    assert run(project, CLAUDE)["evaluation"]["reward"] == 1
    assert project.record()["agent_result"]["end"] == "rejected"


def test_an_image_that_the_provider_does_not_take_is_left_out(
    project: Project, server: ModelServer
) -> None:
    paint = f"echo {PIXEL} | base64 -d > plot.png"
    server.scripts[CLAUDE] = (
        Turn("", (Wish("bash", {"command": paint}), Wish("read_file", {"path": "plot.png"}))),
        *solving()[1:],
    )
    server.queue.extend(["", "rejected"])
    record = run(project, CLAUDE)
    assert record["evaluation"]["reward"] == 1
    assert record["agent_result"]["end"] == "submitted"
    image = '"type": "image"'
    assert image in json.dumps(server.calls[1].body)
    assert image not in json.dumps([call.body for call in server.calls[2:]])


@pytest.mark.parametrize("depth", [63, 400, 5000])
@pytest.mark.parametrize("model", ["claude-deep", "gpt-4o-deep", "gpt-5-deep"])
def test_brackets_do_not_turn_a_zero_into_an_error(
    project: Project, server: ModelServer, model: str, depth: int
) -> None:
    deep = f'{{"command": {"[" * depth}{"]" * depth}}}'
    server.scripts[model] = (solving()[1], Turn("deep", (Wish("bash", deep),)), solving()[2])
    record = run(project, model)
    assert record["evaluation"]["reward"] == 1
    assert record["agent_result"]["end"] in ("submitted", "refusal")


@pytest.mark.parametrize("harness", ["direct", "tool_loop"])
def test_a_server_of_ones_own_needs_no_key(
    project: Project, monkeypatch: pytest.MonkeyPatch, harness: str
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    own = ModelServer(keyless=True)
    try:
        own.scripts["llama-3"] = solving() if harness == "tool_loop" else (Turn(RIGHT),)
        client = {"kind": "openai", "settings": {"base_url": f"{own.url}/v1"}}
        agent = {"name": "a", "harness": harness, "model": "llama-3", "client": client}
        (project.path / "experiment.yaml").write_text(json.dumps({"agents": [agent]}))
        project.task()
        project.run("--aec-experiment=experiment.yaml").assert_outcomes(passed=1)
    finally:
        own.close()
    record = project.record()
    assert record["evaluation"]["reward"] == 1
    assert record["cost"]["usd"] is None  # whatever it costs to run it
