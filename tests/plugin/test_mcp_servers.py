"""MCP servers and described tools in real trials; a script stands in for the model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.plugin.test_model_agents import SUBMIT, WRITE, call, experiment, reply, run, run_with
from tests.project import Project

SERVERS = Path(__file__).parents[1] / "agents/servers"
PLAIN = (SERVERS / "plain.py").read_text("utf-8")
SERVER = """
[[environment.mcp_servers]]
name = "plain"
command = "python3"
args = ["/workspace/tools/_plain.py"]
env = { API_TOKEN = "${SERVER_TOKEN:-nothing-of-interest}" }
"""
TOOL = """
[[environment.tools]]
name = "half"
description = "Halve a number."
command = "python3 -c 'import json, sys; print(json.load(sys.stdin)[\\"x\\"] / 2)'"
parameters = { required = ["x"], properties = { x = { type = "number" } } }
"""


def results(project: Project) -> list[str]:
    """Return what the model saw of its tools."""
    (path,) = project.path.glob("jobs/*/*/agent/trajectory.jsonl")
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [entry["content"] for entry in entries if entry.get("role") == "tool_result"]


def test_a_model_uses_the_tools_and_servers_of_a_task(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_TOKEN", "tok-1234567890")
    anyhow.task(toml=SERVER + TOOL, files={"tools/_plain.py": PLAIN})
    use = reply(
        "",
        call("half", x=5),
        call("plain__add", a=1, b=2),
        {"name": "plain__variable", "arguments": {"name": "API_TOKEN"}},
        call("plain__die"),
        call("plain__add", a=1, b=2),
    )
    record = run(anyhow, use, WRITE, SUBMIT)
    assert record["evaluation"]["reward"] == 1
    half, added, token, died, again, *_ = results(anyhow)
    assert (half, added) == ("2.5", "3")
    assert "tok-1234567890" not in token
    assert died == again == "the server ended with exit code 3: out of memory"


def test_a_server_of_a_task_that_does_not_start_is_not_scored(project: Project) -> None:
    project.task(toml=SERVER)
    record = run(project, WRITE, SUBMIT)
    assert record["evaluation"]["reward"] is None
    error = record["evaluation"]["error"]
    assert error["cause"] == "launch"
    assert error["message"].startswith("mcp server 'plain': did not start; ")


def test_a_model_uses_the_servers_of_its_agent(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LICENCE_KEY", "lic-1234567890")
    project.task()
    server = {
        "name": "mine",
        "command": sys.executable,
        "args": [str(SERVERS / "plain.py")],
        "env": {"LICENCE": "${LICENCE_KEY}"},
    }
    variable = {"name": "mine__variable", "arguments": {"name": "LICENCE"}}
    use = reply("", variable, call("mine__where"))
    record = run_with(project, {"mcp_servers": [server]}, use, WRITE, SUBMIT)
    assert record["evaluation"]["reward"] == 1
    assert record["agent"]["parameters"]["mcp_servers"] == [server]
    licence, where = results(project)[:2]
    assert licence == "<LICENCE_KEY>"
    assert where == str(Path.cwd())
    assert "lic-1234567890" not in json.dumps(record)


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (
            {"name": "s", "command": "no-such-program"},
            "0.command: 'no-such-program' is not a program on this machine; *",
        ),
        (
            {"name": "s", "url": "http://x", "uri": 1},
            "0.uri: unknown key; did you mean 'url'?",
        ),
        ({"name": "s"}, "0: has no 'command'; stdio needs one"),
        (
            {"name": "s", "url": "http://x", "headers": {"A": "$NO_SUCH"}},
            "0.headers.A: variable 'NO_SUCH' is not set; *",
        ),
    ],
)
def test_a_server_that_cannot_be_started_ends_the_run_before_it_begins(
    project: Project, server: dict[str, object], problem: str
) -> None:
    project.task()
    path = experiment(project, {"mcp_servers": [server]}, SUBMIT)
    result = project.run(f"--aec-experiment={path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*a: parameters.mcp_servers.{problem}"])
    assert project.records() == []


def test_a_command_is_told_of_tools_and_servers(project: Project) -> None:
    source = '"""Area of a circle."""'
    files = {"tools/area.py": source, "tools/_plain.py": PLAIN}
    project.task(toml=SERVER + TOOL, files=files)
    project.run("--aec-agent=command:printenv AGENT_TOOLS_JSON AGENT_MCP_SERVERS_JSON > told")
    (told,) = project.path.glob("jobs/*/*/workspace/told")
    tools, servers = map(json.loads, told.read_text("utf-8").splitlines())
    assert [tool["name"] for tool in tools] == ["half", "area"]
    assert tools[0]["parameters"]["required"] == ["x"]
    assert tools[1] == {
        "name": "area",
        "command": "python3 /workspace/tools/area.py",
        "description": "Area of a circle.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": True},
    }
    assert servers == [
        {
            "name": "plain",
            "transport": "stdio",
            "command": "python3",
            "args": ["/workspace/tools/_plain.py"],
            "env": {"API_TOKEN": "<API_TOKEN>"},  # as in every kept file
        }
    ]
