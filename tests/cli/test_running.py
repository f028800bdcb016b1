"""run, run-local and evaluate are pytest under another name, and say which."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from pytest_aecbench.settings.table import OPTIONS, Setting
from tests.cli.conftest import Run
from tests.project import Project

PYTEST = [sys.executable, "-m", "pytest"]


@pytest.fixture(autouse=True)
def project(pytester: pytest.Pytester) -> Project:
    """A project with two tasks, where the test is."""
    project = Project(pytester, ())
    project.task("electrical/ohms-law")
    project.task("civil/other")
    return project


def command(aec_bench: Run, *arguments: str) -> list[str]:
    """Return pytest's arguments in the command that would be run."""
    ended = aec_bench(*arguments, "--dry-run")
    assert ended.code == 0, ended.err
    (line,) = ended.out.splitlines()
    words = shlex.split(line)
    assert words[:3] == PYTEST
    return words[3:]


SPELLINGS = [
    ("", "tasks"),
    ("electrical/ohms-law", "tasks/electrical/ohms-law"),
    ("tasks/civil electrical", "tasks/civil tasks/electrical"),
    ("tasks/civil/other/task.toml::trial[nop-1]", "tasks/civil/other/task.toml::trial[nop-1]"),
    ("--config experiment.yaml", "tasks --aec-experiment=experiment.yaml"),
    (
        "--agent oracle --agent 'x=command:echo a b'",
        "tasks --aec-agent=oracle '--aec-agent=x=command:echo a b'",
    ),
    ("--harness direct --model gpt-4.1-mini", "tasks --aec-agent=direct:gpt-4.1-mini"),
    ("--harness oracle", "tasks --aec-agent=oracle"),
    (
        "--backend docker --repetitions 3 --experiment-id x -n 4",
        "tasks --aec-repetitions=3 --aec-backend=docker --aec-experiment-id=x -n4",
    ),
    ("-c 4", "tasks --aec-concurrency=4"),
    (
        "--resume latest --rerun failed --retries 2",
        "tasks --aec-retries=2 --aec-resume=latest --aec-rerun=failed",
    ),
    ("--no-verify --force-build", "tasks --aec-force-build --aec-no-verify"),
    (
        "--gate 'mean>=0.6' --max-error-rate 0.1 --summary-md a.md",
        "tasks '--aec-gate=mean>=0.6' --aec-max-error-rate=0.1 --aec-summary-md=a.md",
    ),
    (
        "--keep failed --threshold 0.5 --timeout-multiplier 2",
        "tasks --aec-keep=failed --aec-threshold=0.5 --aec-timeout-multiplier=2",
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), SPELLINGS)
def test_each_option_is_one_of_pytests(aec_bench: Run, arguments: str, expected: str) -> None:
    assert command(aec_bench, "run", *shlex.split(arguments)) == shlex.split(expected)


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: row.name)
def test_every_setting_is_an_option_of_run(aec_bench: Run, row: Setting) -> None:
    given = [f"--{row.short}"] if row.metavar is None else [f"--{row.short}", "x"]
    asked = str(row.option) if row.metavar is None else f"{row.option}=x"
    assert asked in command(aec_bench, "run", *given)


def test_what_comes_after_the_dashes_goes_to_pytest_unchanged(aec_bench: Run) -> None:
    passed = ["-x", "--dry-run", "--json", "-k", "a b", "--", "--junitxml=out.xml"]
    ended = aec_bench("run", "civil", "--dry-run", "--", *passed)
    assert shlex.split(ended.out) == [*PYTEST, "tasks/civil", *passed]


def test_run_local_is_run_on_the_local_backend(aec_bench: Run) -> None:
    expected = ["tasks/civil", "--aec-agent=nop", "--aec-backend=local"]
    assert command(aec_bench, "run-local", "civil", "--agent", "nop") == expected
    assert command(aec_bench, "run-local", "civil", "--agent", "nop", "--backend=local") == expected


def test_evaluate_is_an_option_of_pytests_too(aec_bench: Run) -> None:
    arguments = ["nightly", "--task", "civil", "--agent", "nop", "--backend", "docker"]
    assert command(aec_bench, "evaluate", *arguments, "-n", "2", "-c", "1") == [
        "tasks/civil",
        "--aec-evaluate=nightly",
        "--aec-agent=nop",
        "--aec-backend=docker",
        "--aec-concurrency=1",
        "-n2",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run-local", "--backend", "docker"], "--backend: run-local is local, not 'docker'; use"),
        (["run", "--model", "x"], "--model: 'x' needs a harness; add --harness"),
        (["run", "electricle"], "tasks: 'electricle' is not a task; did you mean 'electrical'?"),
        (["run", "ohm-law"], "tasks: 'ohm-law' is not a task; did you mean 'electrical/ohms-law'?"),
        (["evaluate", "x", "--task", "tasks/civl"], "tasks: 'tasks/civl' is not a task; did you"),
        (["run", "zzz"], "tasks: 'zzz' is not a task; use the path or the id of a task, or a dir"),
    ],
)
def test_what_contradicts_itself_is_one_line(
    aec_bench: Run, arguments: list[str], message: str
) -> None:
    ended = aec_bench(*arguments)
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line.startswith(f"aec-bench: {message}")


def test_the_command_can_be_had_as_json(aec_bench: Run) -> None:
    ended = aec_bench("run", "civil", "--dry-run", "--json", "--", "-x")
    assert ended.json() == {"command": [*PYTEST, "tasks/civil", "-x"]}


def aec_bench_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_aecbench", *arguments], capture_output=True, text=True
    )


def test_a_run_prints_its_command_first_and_exits_as_pytest_does(project: Project) -> None:
    arguments = ("--agent", "oracle", "--agent", "nop", "--experiment-id", "x", "--", "-q")
    done = aec_bench_process("run", "civil", *arguments)
    first, rest = done.stdout.split("\n", 1)
    assert shlex.split(first)[:4] == [*PYTEST, "tasks/civil"]
    assert "1 failed, 1 passed" in rest
    assert done.returncode == 1
    assert len(project.records()) == 2
    assert aec_bench_process("run", "--threshold", "2").returncode == 4
    assert aec_bench_process("run", "--", "-k", "nothing").returncode == 5


def test_a_run_and_its_evaluation_as_json(project: Project) -> None:
    ran = aec_bench_process("run", "civil", "--agent", "nop", "--experiment-id", "x", "--json")
    assert ran.returncode == 1, ran.stderr
    told = json.loads(ran.stdout)
    (trial,) = told["trials"]
    assert (told["exit_code"], told["experiment_id"], told["mean_reward"]) == (1, "x", 0)
    assert (trial["task"], trial["agent"], trial["passed"]) == ("civil/other", "nop", False)
    project.task("civil/other", test_sh="echo 0.5 > /logs/verifier/reward.txt")
    again = aec_bench_process("evaluate", "x", "--threshold", "0.5", "--json")
    assert again.returncode == 0, again.stderr
    (second,) = json.loads(again.stdout)["trials"]
    assert (second["reward"], second["evaluates"]) == (0.5, trial["trial_id"])
    assert "1 passed" in again.stderr
    refused = aec_bench_process("evaluate", "nosuch", "--json")
    assert refused.returncode == 4
    assert json.loads(refused.stdout)["trials"] == []
    assert "--aec-evaluate: experiment 'nosuch' not found" in refused.stderr
