"""The recipes with the real programs, which talk to a model on this machine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.costs import at_night
from tests.e2e.shipped import ROOT
from tests.programs import directory_of
from tests.project import Project
from tests.standins.agent_models import KEY, USAGE, AgentModels

TASK = ROOT / "tasks/structural/beam-deflection"
# The last command ends mini-swe-agent; to the others it is one like any other.
COMMANDS = [
    (TASK / "solution/solve.sh").read_text(),
    "cat /workspace/output.jsonl; env > /workspace/env.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
]
# harness -> a model that it knows, and how many calls of the model the commands take
RECIPES = {
    "claude-code": ("claude-sonnet-4-20250514", 4),
    "codex": ("gpt-5.1-codex", 4),
    "mini-swe-agent": ("openai/gpt-4.1", 3),
}
BY_DAY = ("claude-code",)

pytestmark = [pytest.mark.slow, pytest.mark.needs("npm")]
each_recipe = pytest.mark.parametrize(
    "harness", [name if name in BY_DAY else at_night(name) for name in RECIPES]
)


@pytest.fixture
def models() -> Iterator[AgentModels]:
    server = AgentModels(COMMANDS)
    yield server
    server.close()


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project with a shipped task."""
    shutil.copytree(TASK, pytester.path / "tasks/structural/beam-deflection")
    return Project(pytester, ("--aec-experiment=x.yaml",))


def lead_to(url: str, patch: pytest.MonkeyPatch, key: str = KEY) -> None:
    """Let the programs call the server instead of their providers."""
    for name, value in {
        "ANTHROPIC_API_KEY": key,
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_API_KEY": key,
        "OPENAI_BASE_URL": f"{url}/v1",
        "UNRELATED_TOKEN": "not-for-any-agent",
    }.items():
        patch.setenv(name, value)


def write_experiment(project: Project, harness: str, **parameters: Any) -> None:
    agent = {
        "harness": harness,
        "model": RECIPES[harness][0],
        "parameters": {"network": True, **parameters},
        "system_prompt": "Be brief: `date` \"$HOME\" 'x'.",
    }
    (project.path / "x.yaml").write_text(json.dumps({"agents": [agent]}))


def check_record(project: Project, harness: str) -> None:
    record = project.record()
    calls = RECIPES[harness][1]
    assert record["evaluation"]["reward"] == 1
    assert record["agent_result"]["end"] == "submitted"
    assert record["agent_result"]["turns"] == calls
    assert record["cost"]["tokens_in"] == calls * (USAGE["input"] - USAGE["cached"])
    assert record["cost"]["tokens_cache_read"] == calls * USAGE["cached"]
    assert record["cost"]["tokens_out"] == calls * USAGE["output"]
    assert (record["cost"]["usd"] is None) == (harness == "codex")
    (environment,) = (project.path / "jobs").glob("*/*/workspace/env.txt")
    assert "UNRELATED_TOKEN" not in environment.read_text()
    for path in (project.path / "jobs").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


@each_recipe
@pytest.mark.parametrize("mode", ["auto", at_night("rewriting")])
def test_a_recipe_earns_the_reward_on_this_machine(
    project: Project,
    models: AgentModels,
    monkeypatch: pytest.MonkeyPatch,
    harness: str,
    mode: str,
) -> None:
    monkeypatch.setenv("PATH", f"{directory_of(harness)}{os.pathsep}{os.environ['PATH']}")
    lead_to(models.url, monkeypatch)
    write_experiment(project, harness)
    if mode == "rewriting":  # where the model's commands have other paths than the task
        models.commands[:2] = [command.replace("/workspace", ".") for command in COMMANDS[:2]]
    result = project.run(f"--aec-local-mode={mode}")
    result.assert_outcomes(passed=1)
    check_record(project, harness)
    asked = [json.dumps(call.body) for call in models.calls if call.body]
    assert any("Strength and deflection check of a steel floor beam" in text for text in asked)
    assert any("Be brief: `date`" in text for text in asked)


@pytest.mark.nightly
@each_recipe
def test_a_wrong_key_is_an_error_of_the_provider(
    project: Project, models: AgentModels, monkeypatch: pytest.MonkeyPatch, harness: str
) -> None:
    monkeypatch.setenv("PATH", f"{directory_of(harness)}{os.pathsep}{os.environ['PATH']}")
    lead_to(models.url, monkeypatch, "sk-wrong-0123456789abcdef")
    write_experiment(project, harness)
    task = project.path / "tasks/structural/beam-deflection/task.toml"
    task.write_text(task.read_text().replace("timeout_sec = 600.0", "timeout_sec = 15.0", 1))
    project.run().assert_outcomes(errors=1)
    error = project.record()["evaluation"]["error"]
    assert error["cause"] == "provider_auth"
    assert "sk-wrong" not in json.dumps(project.record())


@pytest.mark.nightly
def test_the_limit_on_turns_ends_the_program(
    project: Project, models: AgentModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    for harness in ("claude-code", "mini-swe-agent"):
        monkeypatch.setenv("PATH", f"{directory_of(harness)}{os.pathsep}{os.environ['PATH']}")
        lead_to(models.url, monkeypatch)
        write_experiment(project, harness, max_turns=1)
        project.run()
    ends = [record["agent_result"]["end"] for record in project.records()]
    assert ends == ["turn_limit", "turn_limit"]


@pytest.mark.nightly
@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
@pytest.mark.parametrize("harness", RECIPES)
def test_a_recipe_is_installed_in_an_image_and_earns_the_reward(
    project: Project, monkeypatch: pytest.MonkeyPatch, harness: str
) -> None:
    import docker

    network = docker.from_env().api.inspect_network("bridge")
    gateway = network["IPAM"]["Config"][0]["Gateway"]  # this machine, as containers see it
    environment = project.path / "tasks/structural/beam-deflection/environment"
    trust_certificates(environment)
    models = AgentModels(COMMANDS, host=gateway)
    try:
        lead_to(models.url, monkeypatch)
        write_experiment(project, harness)
        project.run("--aec-backend=docker").assert_outcomes(passed=1)
    finally:
        models.close()
    check_record(project, harness)
    agent_image = project.record()["environment"]["agent_image"]
    assert agent_image.startswith(f"aecbench/beam-deflection-{harness}:")


def trust_certificates(environment: Path) -> None:
    """Let the image trust the certificates that this machine trusts, where it names its own."""
    own = os.environ.get("SSL_CERT_FILE")
    if own:
        shutil.copy(own, environment / "ca.crt")
        with (environment / "Dockerfile").open("a") as file:
            file.write("COPY ca.crt /etc/ssl/test-ca.crt\n")
            file.write("ENV SSL_CERT_FILE=/etc/ssl/test-ca.crt PIP_CERT=/etc/ssl/test-ca.crt\n")
