"""Programs that work in the sandbox by themselves: commands, recipes, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project

pytestmark = pytest.mark.slow  # about agents, not versions

RIGHT = '{"current_a": 2.0, "power_w": 24.0}'


def experiment(project: Project, *agents: dict[str, Any]) -> str:
    """Write an experiment with these agents, and return the option that names it."""
    (project.path / "x.yaml").write_text(json.dumps({"experiment_id": "x", "agents": agents}))
    return "--aec-experiment=x.yaml"


def command(**parameters: Any) -> dict[str, Any]:
    return {"name": "mine", "harness": "command", "model": "m", "parameters": parameters}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on PATH for programs that a test writes."""
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return directory


def write_program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(("#!/bin/bash", *lines, "")))
    path.chmod(0o755)


@pytest.mark.parametrize("mode", ["auto", "rewriting"])
def test_a_program_reads_its_instruction_from_a_file(project: Project, mode: str) -> None:
    instruction = "Say `date` and $HOME to '/workspace/output.jsonl'; \"quoted\"."
    project.task(
        instruction=instruction,
        test_sh="grep -cF '`date` and $HOME' /workspace/output.jsonl > /logs/verifier/reward.txt",
    )
    agent = command(run='cat "$AGENT_INSTRUCTION_FILE" > "$AGENT_OUTPUT_PATH"', network=False)
    option = f"--aec-local-mode={mode}"
    project.run(experiment(project, agent), option).assert_outcomes(passed=1)
    written = next((project.path / "jobs").glob("*/*/workspace/output.jsonl")).read_text()
    if mode == "auto":
        assert written == f"{instruction}\n\nWrite your result to `/workspace/output.jsonl`.\n"


def test_a_program_gets_the_named_variables_and_no_others(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.task()
    monkeypatch.setenv("MY_TOKEN", "given-to-the-agent-alone")
    monkeypatch.setenv("OTHER_TOKEN", "kept-on-this-machine")
    agent = command(run=f"echo '{RIGHT}' > output.jsonl; env > env.txt", env=["MY_TOKEN"])
    project.run(experiment(project, agent)).assert_outcomes(passed=1)
    environment = next((project.path / "jobs").glob("*/*/workspace/env.txt")).read_text()
    assert "MY_TOKEN=<MY_TOKEN>\n" in environment  # there, but not on this machine's disk
    assert "OTHER_TOKEN" not in environment
    assert "AGENT_MODEL=m\n" in environment


def test_usage_cost_and_turns_are_on_the_record(project: Project) -> None:
    project.task()
    printed = '{"usage": {"input_tokens": 12, "output_tokens": 3}, "cost_usd": 0.25, "turns": 2}'
    run = f"echo '{RIGHT}' > output.jsonl; echo '{printed}'"
    project.run(experiment(project, command(run=run, output="json"))).assert_outcomes(passed=1)
    record = project.record()
    assert record["cost"]["tokens_in"] == 12
    assert record["cost"]["tokens_out"] == 3
    assert record["cost"]["usd"] == 0.25
    assert record["agent_result"]["turns"] == 2


def test_without_output_nothing_is_read(project: Project) -> None:
    project.task()
    run = f"echo '{RIGHT}' > output.jsonl; echo '{{\"cost_usd\": 0.25}}'"
    project.run(experiment(project, command(run=run))).assert_outcomes(passed=1)
    assert project.record()["cost"]["usd"] is None


def test_the_content_of_an_install_script_is_the_agent_s_identity(
    project: Project, programs: Path
) -> None:
    project.task()
    write_program(programs / "solver", f"echo '{RIGHT}' > output.jsonl")
    keys = []
    for script in ("echo one", "echo two"):
        (project.path / "install.sh").write_text(script)
        agent = command(install="install.sh", run="solver")
        again = (experiment(project, agent), "--aec-rerun=error")
        project.run(*again).assert_outcomes(passed=1)
        keys.append({record["trial_key"] for record in project.records()})
    assert len(keys[1]) == 2
    scripts = {record["agent"]["parameters"]["install"] for record in project.records()}
    assert scripts == {"echo one", "echo two"}


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (
            command(comand="true"),
            "agents.0.parameters.command: missing; write a shell command there",
        ),
        (
            command(run="true", instal="x"),
            "mine: parameters.instal: unknown key; did you mean 'install'?",
        ),
        (
            command(command="true", install="x"),
            "mine: parameters.install: needs 'run'; add the command that starts what it installs",
        ),
        (
            command(command="true", run="true"),
            "mine: parameters.command: is given beside 'run'; keep one of them",
        ),
        (
            command(run="true", env=["NOT_SET_ANYWHERE"]),
            "parameters.env.0: NOT_SET_ANYWHERE is not set; set it in the environment or in .env",
        ),
        (
            command(run="true", env=["A=1"]),
            "mine: parameters.env.0: 'A=1' is not valid; use a list of names of variables",
        ),
        (
            command(run="true", output="xml"),
            "mine: parameters.output: 'xml' is not valid; use one of 'json', 'jsonl'",
        ),
        (
            command(run="true", install="missing.sh"),
            "agents.0.parameters.install: missing.sh: no such file or directory; add a readable",
        ),
        (
            command(run="true", install="#" * 50_000),
            "install: the script has 50",
        ),
        (
            command(install="echo x", run="no-such-program --now"),
            (
                "mine: 'no-such-program' is not on PATH, and local has no images to install it in; "
                "install no-such-program, or use --aec-backend=docker"
            ),
        ),
        (
            {"name": "cc", "harness": "claude-code", "model": "m"},
            (
                "cc: ANTHROPIC_API_KEY is not set; set it in the environment or in .env, or "
                "ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN"
            ),
        ),
        (
            {"name": "cc", "harness": "claude-code"},
            "cc: has no model; use claude-code:<model>",
        ),
        (
            {"name": "c", "harness": "codex", "model": "m", "parameters": {"max_turns": 3}},
            "c: parameters.max_turns: unknown key",
        ),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(
    project: Project, agent: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    project.task()
    result = project.run(experiment(project, agent))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
    assert project.records() == []


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [({}, True), ({"network": False}, False), ({"network": True}, False)],
)
def test_a_task_without_a_network_is_refused_unless_the_agent_says_otherwise(
    anyhow: Project, parameters: dict[str, bool], refused: bool
) -> None:
    toml = "[environment]\nallow_internet = false\n"
    anyhow.task("civil/one", toml=toml)
    anyhow.task("civil/two", toml=toml)
    anyhow.task("civil/three")
    agent = command(run=f"echo '{RIGHT}' > output.jsonl", **parameters)
    result = anyhow.run(experiment(anyhow, agent, {"harness": "oracle"}))
    if refused:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert (
            "mine: needs a network to reach its model, which civil/one and 1 more forbid "
            "(allow_internet = false); write 'network: true'" in result.stderr.str()
        )
    else:
        result.assert_outcomes(passed=6)


def test_only_selected_trials_are_asked_for_a_network(project: Project) -> None:
    project.task(toml="[environment]\nallow_internet = false\n")
    option = experiment(project, command(run="true"), {"harness": "oracle"})
    project.run(option, "-k", "oracle").assert_outcomes(passed=1, deselected=1)


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize(("parameter", "networks"), [(True, True), (False, False)])
def test_the_network_that_a_user_gives_is_the_agent_s_and_not_the_verifier_s(
    project: Project, parameter: bool, networks: bool
) -> None:
    project.task(
        toml='[environment]\nallow_internet = false\n[verifier]\nenvironment_mode = "separate"\n',
        test_sh="ls /sys/class/net /proc/net/route; wc -l < /proc/net/route > verifier.txt\n"
        "echo $(( $(wc -l < /proc/net/route) <= 1 )) > /logs/verifier/reward.txt",
    )
    agent = command(run="wc -l < /proc/net/route > output.jsonl", network=parameter)
    project.run(experiment(project, agent)).assert_outcomes(passed=1)
    lines = int(project.record()["outputs"]["output_excerpt"])
    assert (lines > 1) == networks


CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": True,
    "terminal_reason": "api_error",
    "api_error_status": None,
    "result": "API Error",
}
ENDS = [  # what Claude Code prints last, and what becomes of the trial
    ({"api_error_status": 401, "result": "invalid x-api-key"}, "provider_auth", None),
    ({"api_error_status": 529, "result": "Overloaded"}, "provider", None),
    ({"result": "API Error: Connection refused (ECONNREFUSED)"}, "provider", None),
    ({"api_error_status": 400, "result": "Prompt is too long"}, None, "context_length"),
    ({"result": "Prompt is too long"}, None, "context_length"),
    ({"subtype": "error_max_turns", "num_turns": 3}, None, "turn_limit"),
    ({"is_error": False, "num_turns": 3}, None, "submitted"),
]


@pytest.mark.parametrize(("last", "cause", "end"), ENDS)
def test_a_failed_provider_is_an_error_and_not_a_zero(
    project: Project,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: dict[str, Any],
    cause: str | None,
    end: str | None,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-the-test")
    code = 1 if last.get("is_error", True) else 0
    line = json.dumps({**CLAUDE, **last})
    write_program(programs / "claude", f"echo '{line}'", f"exit {code}")
    project.task()
    project.run("--aec-agent=claude-code:m")
    record = project.record()
    if cause is None:
        assert record["evaluation"]["reward"] == 0
        assert record["agent_result"]["end"] == end
    else:
        assert record["evaluation"]["error"]["cause"] == cause
        assert record["evaluation"]["reward"] is None


@pytest.mark.parametrize(
    ("harness", "program", "line"),
    [
        (
            "claude-code",
            "claude",
            '{"type": "system", "subtype": "api_retry", "error_status": 401, "error": "auth"}',
        ),
        (
            "codex",
            "codex",
            '{"type": "error", "message": "Reconnecting... (unexpected status 401 Unauthorized)"}',
        ),
        (
            "mini-swe-agent",
            "mini",
            "Retrying <unknown> in 60 seconds as it raised litellm.AuthenticationError: bad key.",
        ),
    ],
)
def test_a_program_that_waits_for_its_provider_until_the_end_is_not_scored(
    project: Project,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    harness: str,
    program: str,
    line: str,
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "a-key-of-the-test")
    write_program(programs / program, f"echo '{line}'", "exec sleep 3600")
    project.task(toml="[agent]\ntimeout_sec = 2\n")
    project.run(f"--aec-agent={harness}:m")
    assert project.record()["evaluation"]["error"]["cause"] == "provider_auth"


@pytest.mark.parametrize("harness", ["claude-code", "codex", "mini-swe-agent"])
def test_a_program_that_does_not_start_is_an_error(
    project: Project, programs: Path, monkeypatch: pytest.MonkeyPatch, harness: str
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "a-key-of-the-test")
    program = {"claude-code": "claude", "mini-swe-agent": "mini"}.get(harness, harness)
    write_program(programs / program, "echo 'libc is too old' >&2", "exit 1")
    project.task()
    project.run(f"--aec-agent={harness}:m")
    error = project.record()["evaluation"]["error"]
    assert error["cause"] == "launch"
    assert error["message"] == f"{harness}:m: {program} did not work, exit code 1; libc is too old"
