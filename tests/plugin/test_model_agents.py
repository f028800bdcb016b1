"""Model agents on real trials; a script stands in for the model, and everything else is real."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_aecbench import __version__
from pytest_aecbench.agents.parameters import (
    DirectParameters,
    ToolLoopParameters,
    read_parameters,
)
from tests.conformance.providers import PIXEL
from tests.project import Project

GOLDEN = Path(__file__).with_name("golden")
PAGE = Path(__file__).parents[2] / "docs/agents.md"
ANSWER = '{"current_a": 2.0, "power_w": 24.0}'
PRICE = {"input": 3, "output": 15}


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def reply(text: str = "", *calls: dict[str, Any], **more: object) -> dict[str, Any]:
    usage = {"input": 1000, "output": 100}
    return {"text": text, "tool_calls": list(calls), "usage": usage, **more}


LOOK = reply("I look around.", call("bash", command="pwd; ls"))
WRITE = reply("I write.", call("write_file", path="output.jsonl", content=ANSWER))
SUBMIT = reply("Done.", call("submit"))
SOLVED = (LOOK, WRITE, SUBMIT)


def write_script(project: Project, *replies: dict[str, Any], name: str = "script.json") -> str:
    path = project.path / name
    path.write_text(json.dumps({"price": PRICE, "replies": replies}))
    return f"scripted:{name}"


def run(project: Project, *replies: dict[str, Any], harness: str = "tool_loop") -> Any:
    """Run the agent with these replies, and return the record."""
    model = write_script(project, *replies)
    project.run(f"--aec-agent=a={harness}:{model}")
    return project.record()


def run_with(project: Project, parameters: dict[str, object], *replies: dict[str, Any]) -> Any:
    """Run the tool loop with parameters, and return the record."""
    project.run(f"--aec-experiment={experiment(project, parameters, *replies)}")
    return project.record()


def experiment(project: Project, parameters: dict[str, object], *replies: dict[str, Any]) -> Path:
    agent: dict[str, object] = {"name": "a", "harness": "tool_loop"}
    agent |= {"model": write_script(project, *replies), "parameters": parameters}
    path = project.path / "experiment.yaml"
    path.write_text(json.dumps({"agents": [agent]}))  # YAML, too
    return path


def trajectory(project: Project, record: dict[str, Any]) -> list[dict[str, Any]]:
    path = project.path / record["outputs"]["jobs_dir"] / "agent/trajectory.jsonl"
    header, *entries = (json.loads(line) for line in path.read_text().splitlines())
    assert header == {"version": 1, "format": "aec-bench-trajectory"}
    return entries


def results(entries: Sequence[dict[str, Any]]) -> list[str]:
    return [entry["content"] for entry in entries if entry["role"] == "tool_result"]


def test_a_model_solves_a_task_with_tools(anyhow: Project) -> None:
    anyhow.task()
    record = run(anyhow, *SOLVED)
    assert record["evaluation"]["reward"] == 1
    assert record["agent_result"] == {
        "status": "completed",
        "returncode": None,
        "error": None,
        "end": "submitted",
        "turns": 3,
        "plan": None,
    }
    assert record["inputs"]["prompt_version"] == "tool_loop-1"
    cost = record["cost"]
    assert (cost["tokens_in"], cost["tokens_out"], cost["calls"]) == (3000, 300, 3)
    assert cost["usd"] == pytest.approx(3000 * 3e-6 + 300 * 15e-6)
    assert cost["price_source"] == "script"


def test_the_documented_script_solves_a_task(project: Project) -> None:
    project.task()
    (project.path / "scripts").mkdir()
    (project.path / "scripts/ohm.json").write_text(documented("example: script", "json"))
    project.run("--aec-agent=tool_loop:scripted:scripts/ohm.json").assert_outcomes(passed=1)
    assert project.record()["cost"]["tokens_in"] == 2000


def test_the_documented_parameters_are_those_that_there_are() -> None:
    text = PAGE.read_text(encoding="utf-8")
    documented_names = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))
    assert {*ToolLoopParameters.model_fields} - {"script"} <= documented_names
    agents = yaml.safe_load(documented("In an experiment", "yaml"))["agents"]
    for agent, model in zip(agents, (ToolLoopParameters, DirectParameters), strict=True):
        read_parameters(agent["parameters"], model, agent["name"])


def documented(after: str, language: str) -> str:
    """Return the first example of a language after some words of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(after)[2]
    return text.partition(f"```{language}\n")[2].partition("```")[0]


def test_the_trajectory_has_every_step(project: Project) -> None:
    project.task(files={"system.md": "Units are SI."})
    entries = trajectory(project, run(project, *SOLVED))
    assert [entry["step"] for entry in entries] == list(range(1, 12))
    assert [(entry["role"], entry.get("tool_name")) for entry in entries] == [
        ("system", None),
        ("user", None),
        ("assistant", None),
        ("tool_call", "bash"),
        ("tool_result", "bash"),
        ("assistant", None),
        ("tool_call", "write_file"),
        ("tool_result", "write_file"),
        ("assistant", None),
        ("tool_call", "submit"),
        ("tool_result", "submit"),
    ]
    system, user, looked, wanted, got = entries[:5]
    assert system["content"].endswith("Units are SI.")
    assert "/workspace/output.jsonl" in system["content"]
    assert (
        user["content"] == (project.path / "tasks/electrical/ohms-law/instruction.md").read_text()
    )
    assert looked["content"] == "I look around."
    assert looked["metadata"]["tokens_in"] == 1000
    assert wanted["arguments"] == {"command": "pwd; ls"}
    assert (got["exit_code"], got["stdout"]) == (0, "/workspace\n")
    assert got["call_id"] == wanted["call_id"]
    assert {entry.get("turn") for entry in entries[2:]} == {1, 2, 3}


@pytest.mark.parametrize("name", ["trajectory.jsonl", "trajectory.json"])
def test_a_trajectory_is_as_it_was_when_it_was_last_looked_at(project: Project, name: str) -> None:
    project.task(instruction="Write to `/workspace/output.jsonl`.", files={"system.md": "SI."})
    record = run(
        project,
        LOOK,
        reply("", call("bash", command="cat none.txt"), {"name": "bash", "arguments": "{"}),
        reply("Hm."),
        WRITE,
        SUBMIT,
    )
    text = (project.path / record["outputs"]["jobs_dir"] / "agent" / name).read_text()
    text = re.sub(r'("duration_ms": )\d+', r"\g<1>0", text)
    text = re.sub(r', "waited_sec": [\d.]+', "", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+]+", "TIME", text)
    text = text.replace(record["trial_id"], "TRIAL").replace(__version__, "VERSION")
    golden = GOLDEN / name
    if os.environ.get("AEC_GOLDEN") == "write":  # then look at what has changed
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_harbors_viewers_get_the_trajectory_too(project: Project) -> None:
    project.task()
    record = run(project, *SOLVED)
    path = project.path / record["outputs"]["jobs_dir"] / "agent/trajectory.json"
    atif = json.loads(path.read_text())
    assert atif["schema_version"] == "ATIF-v1.7"
    assert atif["session_id"] == record["trial_id"]
    assert [step["source"] for step in atif["steps"]] == ["system", "user", *["agent"] * 3]
    assert atif["final_metrics"]["total_prompt_tokens"] == 3000
    assert [tool["function"]["name"] for tool in atif["agent"]["tool_definitions"]] == [
        "bash",
        "read_file",
        "write_file",
        "submit",
    ]


def test_a_single_reply_becomes_the_output_as_it_is(anyhow: Project) -> None:
    anyhow.task()
    record = run(anyhow, reply(ANSWER), harness="direct")
    assert record["evaluation"]["reward"] == 1
    assert record["outputs"]["output_excerpt"] == ANSWER
    assert record["agent_result"]["end"] == "replied"
    assert record["inputs"]["prompt_version"] == "direct-1"


def test_a_single_reply_that_was_cut_is_written_and_marked(project: Project) -> None:
    project.task()
    record = run(project, reply(ANSWER, stop="length"), harness="direct")
    assert record["evaluation"]["reward"] == 1
    assert record["agent_result"]["end"] == "length"
    assert record["agent_result"]["status"] == "limit_reached"


@pytest.mark.parametrize(
    ("parameters", "end", "status"),
    [
        ({"max_turns": 2}, "turn_limit", "limit_reached"),
        ({"token_budget": 2000}, "token_budget", "limit_reached"),
        ({"max_cost_usd": 0.005}, "cost_limit", "limit_reached"),
    ],
)
def test_every_limit_is_an_outcome_and_the_output_is_scored(
    project: Project, parameters: dict[str, object], end: str, status: str
) -> None:
    project.task()
    record = run_with(project, parameters, LOOK, WRITE, SUBMIT)
    assert record["evaluation"]["reward"] == 1
    assert (record["agent_result"]["end"], record["agent_result"]["status"]) == (end, status)
    assert record["agent_result"]["turns"] == 2


def test_the_deadline_is_an_outcome_and_the_output_is_scored(project: Project) -> None:
    project.task(toml="[agent]\ntimeout_sec = 2\n")
    record = run(project, WRITE, reply("", call("bash", command="sleep 60")), SUBMIT)
    assert record["evaluation"]["reward"] == 1
    assert (record["agent_result"]["end"], record["agent_result"]["status"]) == (
        "deadline",
        "timed_out",
    )


def test_three_replies_without_a_tool_end_the_loop(project: Project) -> None:
    project.task()
    record = run(project, WRITE, reply("Hm."), reply("Well."), reply("So."), SUBMIT)
    assert record["evaluation"]["reward"] == 1
    assert (record["agent_result"]["end"], record["agent_result"]["turns"]) == ("stopped", 4)


def test_a_reply_without_a_tool_is_reminded(project: Project) -> None:
    project.task()
    record = run(project, reply("Hm."), WRITE, SUBMIT)
    assert record["agent_result"]["end"] == "submitted"
    said = [entry["content"] for entry in trajectory(project, record) if entry["role"] == "user"]
    assert said[1].startswith("You called no tool.")


def test_three_refusals_end_the_loop(project: Project) -> None:
    project.task()
    no = reply("I cannot.", stop="refusal")
    record = run(project, WRITE, no, no, no, SUBMIT)
    assert record["evaluation"]["reward"] == 1
    assert (record["agent_result"]["end"], record["agent_result"]["status"]) == (
        "refusal",
        "failed",
    )


def test_a_model_is_told_when_few_turns_are_left(project: Project) -> None:
    project.task()
    record = run_with(project, {"max_turns": 4}, LOOK, LOOK, LOOK, SUBMIT)
    said = [entry["content"] for entry in trajectory(project, record) if entry["role"] == "user"]
    assert [text.partition(":")[0] for text in said[1:]] == [
        "You have 2 turns left",
        "This is your last turn",
    ]


def test_a_bad_call_is_an_answer_to_the_model_and_not_a_failed_trial(project: Project) -> None:
    project.task()
    record = run(
        project,
        reply("", call("bsh", command="ls"), call("bash", cmd="ls"), call("bash", command="a\0b")),
        reply("", {"name": "bash", "arguments": "{not json"}, call("read_file", path="none.txt")),
        reply("", call("bash", command="x" * 200_000), call("bash", command="echo \ud800")),
        reply("", call("write_file", path="/proc/none", content="x")),
        WRITE,
        SUBMIT,
    )
    assert record["evaluation"]["reward"] == 1
    said = results(trajectory(project, record))
    assert said[0] == "there is no tool 'bsh'; did you mean 'bash'?"
    assert said[1] == "bad arguments: 'command' has to be a string"
    assert said[2].startswith("bad arguments: 'command' has to be shorter than")
    assert said[3] == "the arguments are not a JSON object; call it again"
    assert "No such file" in said[4]
    assert said[5].startswith("bad arguments: 'command' has to be shorter than")
    assert said[6] == "exit code 0\n?"
    assert said[7].startswith("exit code 1")


def test_a_call_in_a_reply_that_was_cut_is_answered_but_not_run(project: Project) -> None:
    project.task()
    cut = reply("", call("bash", command="touch ran"), call("submit"), stop="length")
    record = run(project, cut, WRITE, SUBMIT)
    assert record["agent_result"]["end"] == "submitted"
    assert record["agent_result"]["turns"] == 3
    assert (
        results(trajectory(project, record))[:2]
        == ["not run: your reply was cut at its maximum length; write less in one call"] * 2
    )
    assert "workspace/ran" not in [file["path"] for file in record["outputs"]["files"]]


def test_a_model_sees_both_ends_of_a_long_output(project: Project) -> None:
    project.task()
    record = run(project, reply("", call("bash", command="seq 1 100000")), WRITE, SUBMIT)
    said = results(trajectory(project, record))[0]
    assert said.startswith("exit code 0\n1\n2\n")
    assert "characters left out" in said
    assert said.endswith("\n99999\n100000")
    assert len(said) < 10_200


def test_a_command_that_takes_too_long_is_killed_and_the_model_is_told(project: Project) -> None:
    project.task()
    slow = reply("", call("bash", command="echo before; sleep 60"))
    record = run_with(project, {"command_timeout": 1}, slow, WRITE, SUBMIT)
    assert record["evaluation"]["reward"] == 1
    said = results(trajectory(project, record))[0]
    assert said.startswith("timed out after 1 s")
    assert said.endswith("before")


def test_a_file_is_read_in_parts(project: Project) -> None:
    project.task()
    record = run(
        project,
        reply("", call("write_file", path="sub/it's here.txt", content="a\nb\nc\n")),
        reply("", call("read_file", path="/workspace/sub/it's here.txt", offset=2, limit=1)),
        reply("", call("read_file", path="sub/it's here.txt")),
        WRITE,
        SUBMIT,
    )
    assert results(trajectory(project, record))[:3] == ["wrote 6 bytes", "b\n", "a\nb\nc\n"]


def test_a_model_uses_the_tools_of_its_task(project: Project) -> None:
    tool = """
    '''Doubles a number.'''
    import json, sys
    print(json.dumps({"double": 2 * json.load(sys.stdin)["x"]}))
    """
    project.task(files={"tools/double.py": tool})
    record = run(project, reply("", call("double", x=21)), WRITE, SUBMIT)
    assert record["evaluation"]["reward"] == 1
    assert results(trajectory(project, record))[0] == '{"double": 42}'


def test_a_model_looks_at_an_image(project: Project) -> None:
    project.task()
    picture = f"echo {PIXEL} | base64 -d > plot.png; head -c 9 plot.png > torn.png"
    record = run(
        project,
        reply("", call("bash", command=picture)),
        reply("", call("read_file", path="plot.png"), call("read_file", path="torn.png")),
        WRITE,
        SUBMIT,
    )
    entries = trajectory(project, record)
    looked = [one for one in entries if one["role"] == "tool_result"][1:3]
    assert looked[0]["content"] == "./plot.png, image/png"
    assert looked[0]["metadata"] == {"images": 1}
    assert "not a whole PNG, JPEG, GIF or WebP image" in looked[1]["content"]


def test_an_advisor_is_asked_a_few_times(project: Project) -> None:
    project.task()
    advice = project.path / "advice.json"
    advice.write_text(json.dumps({"price": PRICE, "replies": [reply("Use Ohm's law.")]}))
    ask = reply("", call("ask_advisor", question="How?"))
    advisor = {"model": f"scripted:{advice}", "max_uses": 1}
    record = run_with(project, {"advisor": advisor}, ask, ask, WRITE, SUBMIT)
    assert record["evaluation"]["reward"] == 1
    assert results(trajectory(project, record))[:2] == [
        "Use Ohm's law.\n[0 questions left]",
        "all 1 questions are used; go on alone",
    ]
    assert record["cost"]["calls"] == 5  # four of the agent, one of the advisor
    assert record["cost"]["tokens_in"] == 5000


def test_a_provider_that_fails_is_an_error_with_what_was_spent(anyhow: Project) -> None:
    anyhow.task()
    record = run(anyhow, LOOK, WRITE)  # and there is no third reply
    assert record["evaluation"]["reward"] is None
    assert record["evaluation"]["error"]["cause"] == "provider"
    assert record["cost"]["tokens_in"] == 2000
    assert record["cost"]["usd"] == pytest.approx(0.009)
    assert "agent/trajectory.jsonl" in [file["path"] for file in record["outputs"]["files"]]


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("tool_loop", "tool_loop: no model; write tool_loop:MODEL, such as tool_loop:claude-*"),
        ("tool_loop:claude-x", "*'claude-x' is asked at anthropic, but ANTHROPIC_API_KEY is not *"),
        ("tool_loop:nonsense", "*no provider is known for the model 'nonsense'; put one of *"),
        ("direct:scripted:none.json", "*none.json: no such file or directory; use the path *"),
    ],
)
def test_what_is_missing_is_told_before_anything_runs(
    project: Project, monkeypatch: pytest.MonkeyPatch, agent: str, problem: str
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    project.task()
    result = project.run(f"--aec-agent={agent}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --aec-agent: {problem}"])
    assert not (project.path / "jobs").exists()
    assert project.records() == []


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"max_turn": 3}, "parameters.max_turn: unknown key; did you mean 'max_turns'?"),
        ({"max_turns": 0}, "parameters.max_turns: 0 is not valid; use a whole number from 1"),
        ({"temperature": 3}, "parameters.temperature: 3 is not valid; use a number from 0 to 2"),
        ({"advisor": {}}, "parameters.advisor.model: missing; add the name of a model"),
        (
            {"advisor": {"model": "nonsense"}},
            "no provider is known for the model 'nonsense'; put one of*",
        ),
    ],
)
def test_parameters_are_checked_before_anything_runs(
    project: Project, parameters: dict[str, object], problem: str
) -> None:
    project.task()
    path = experiment(project, parameters, *SOLVED)
    result = project.run(f"--aec-experiment={path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *experiment.yaml: agents: a: {problem}"])
    assert project.records() == []


def test_a_cost_limit_needs_a_known_price(project: Project) -> None:
    project.task()
    path = experiment(project, {"max_cost_usd": 1}, *SOLVED)
    script = project.path / "script.json"
    script.write_text(json.dumps({"replies": list(SOLVED)}))
    result = project.run(f"--aec-experiment={path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*a: parameters.max_cost_usd: the price of * is not known; *"])
    (project.path / "aec-bench.toml").write_text(
        f'[prices."scripted:{script}"]\ninput = 3\noutput = 15\n'
    )
    project.run(f"--aec-experiment={path}").assert_outcomes(passed=1)
    assert project.record()["cost"]["price_source"] == "own"


def test_money_that_a_killed_worker_spent_is_on_record_and_counts(project: Project) -> None:
    for name in ("civil/a", "civil/b", "civil/c", "civil/d", "civil/e"):
        project.task(name)
    project.pytester.makeconftest(
        """
        import os
        from pytest_aecbench.backends.local import LocalBackend

        class Deadly(LocalBackend):
            def execute_trial(self, *, handle, request):
                if "die now" in request.command:
                    os.kill(os.getpid(), 9)
                return super().execute_trial(handle=handle, request=request)

        def pytest_aecbench_make_backend(config, name):
            return Deadly()
        """
    )
    model = write_script(project, LOOK, reply("", call("bash", command="die now")))
    once = 2 * (1000 * PRICE["input"] + 100 * PRICE["output"]) / 1e6
    project.run(f"--aec-agent=a=tool_loop:{model}", "-n1", f"--aec-max-cost={1.5 * once}")
    costs = [record["cost"] for record in project.records()]
    assert len(costs) in (2, 3)  # a new worker may have begun before the last cost was known
    assert {(cost["calls"], cost["tokens_in"]) for cost in costs} == {(2, 2000)}
    assert [cost["usd"] for cost in costs] == pytest.approx([once] * len(costs))
    assert {record["evaluation"]["validity"] for record in project.records()} == {"crashed"}


def test_another_script_is_another_trial(project: Project) -> None:
    project.task()
    model = write_script(project, *SOLVED)
    project.run(f"--aec-agent=a=tool_loop:{model}").assert_outcomes(passed=1)
    write_script(project, WRITE, SUBMIT)
    project.run(f"--aec-agent=a=tool_loop:{model}").assert_outcomes(passed=1)
    first, second = project.records()
    assert first["trial_key"] != second["trial_key"]


def test_a_script_that_changes_during_a_run_is_an_error(anyhow: Project) -> None:
    anyhow.task()
    model = write_script(anyhow, *SOLVED)
    anyhow.pytester.makeconftest(
        """
        from pathlib import Path

        def pytest_runtest_setup(item):
            script = Path("script.json")
            script.write_text(script.read_text() + " ")
        """
    )
    anyhow.run(f"--aec-agent=a=tool_loop:{model}").assert_outcomes(errors=1)
    error = anyhow.record()["evaluation"]["error"]
    assert error["cause"] == "settings"
    assert "script.json has changed since the run began" in error["message"]


def test_the_seeds_variables_override_and_are_recorded(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.task()
    monkeypatch.setenv("AGENT_MAX_TURNS", "2")
    monkeypatch.setenv("AGENT_MAX_TOKENS", "512")
    record = run(project, LOOK, WRITE, SUBMIT)
    assert record["agent_result"]["end"] == "turn_limit"
    parameters = record["agent"]["parameters"]
    assert (parameters["max_turns"], parameters["max_tokens"]) == (2, 512)


def test_an_override_that_is_not_a_number_is_told(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.task()
    monkeypatch.setenv("AGENT_MAX_TURNS", "many")
    result = project.run("--aec-agent=tool_loop:scripted:x.json")
    result.stderr.fnmatch_lines(["ERROR: AGENT_MAX_TURNS: 'many' is not valid; use a number"])


def test_a_run_is_repeated_from_the_cache_without_paying(anyhow: Project) -> None:
    anyhow.task()
    model = write_script(anyhow, *SOLVED)
    options = (f"--aec-agent=a=tool_loop:{model}", "--aec-cache-calls=replies")
    anyhow.run(*options).assert_outcomes(passed=1)
    anyhow.run(*options).assert_outcomes(passed=1)
    first, second = (
        record["cost"]
        for record in sorted(anyhow.records(), key=lambda one: one["timing"]["started_at"])
    )
    assert (first["calls"], first["cached_calls"]) == (3, 0)
    assert (second["calls"], second["cached_calls"], second["usd"]) == (3, 3, 0)


def test_resume_pays_for_nothing_twice(anyhow: Project) -> None:
    anyhow.task("electrical/one")
    anyhow.task("electrical/two")
    model = write_script(anyhow, *SOLVED)
    options = (f"--aec-agent=a=tool_loop:{model}", "--aec-experiment-id=paid")
    anyhow.run(*options).assert_outcomes(passed=2)
    anyhow.run(f"--aec-agent=a=tool_loop:{model}", "--aec-resume=paid").assert_outcomes(passed=2)
    assert len(anyhow.records()) == 2


def test_turns_are_followed_as_they_happen(project: Project) -> None:
    project.task()
    model = write_script(project, *SOLVED)
    result = project.run(f"--aec-agent=a=tool_loop:{model}", "--aec-follow")
    result.stdout.fnmatch_lines(["*I look around.*", "*pwd; ls*", "*I write.*", "*Done.*"])


def test_what_is_followed_is_printed_once(project: Project) -> None:
    project.task()
    say = reply("I speak.", call("bash", command="echo $((1000 + 234)) said"))
    model = write_script(project, say, WRITE, SUBMIT)
    result = project.run(f"--aec-agent=a=tool_loop:{model}", "-s")
    assert result.stdout.str().count("1234 said") == 1


def test_only_one_trial_at_a_time_can_be_followed(project: Project) -> None:
    project.task()
    result = project.run("-n2", "--aec-follow")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --aec-follow: the turns of several trials *"])
