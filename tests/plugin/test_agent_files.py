"""Files that a command brings into its sandbox: ``--aec-agent-files``, ``files`` and refusals."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.ledger.record import TrialRecord
from pytest_aecbench.reports.leaderboard import leaderboard
from tests.pages import DOCS, blocks
from tests.plugin.conftest import with_workers_too
from tests.plugin.test_programs import command, experiment
from tests.project import HALF, Project
from tests.tasks import write_tree

RIGHT = '{"current_a": 2.0, "power_w": 24.0}'
AGENT = """\
import pathlib, helper
pathlib.Path("output.jsonl").write_text(helper.ANSWER)
"""
HELPER = f"ANSWER = '{RIGHT}'\n"
README = (DOCS.parent / "README.md").read_text()
MINE = "--aec-agent=command:python3 my_agent.py"
# A verifier in the agent's own sandbox that looks for everything but the task's own files.
SHARED = '[verifier]\nenvironment_mode = "shared"\n'
NOTHING_LEFT = """
    left=$(find /workspace /logs/agent -mindepth 1 ! -name output.jsonl ! -path '*/files')
    echo "left: $left"
    test -z "$left" && python3 /tests/verify.py || echo 0 > /logs/verifier/reward.txt
"""


@pytest.fixture
def brought(anyhow: Project) -> Project:
    """A project with an agent of two files, which only their owner may read."""
    write_tree(anyhow.path, {"my_agent.py": AGENT, "helper.py": HELPER})
    for name in ("my_agent.py", "helper.py"):
        (anyhow.path / name).chmod(0o600)
    return anyhow


@with_workers_too
@pytest.mark.parametrize("mode", ["auto", "rewriting"])
def test_files_are_in_the_working_directory_while_the_agent_works_and_not_after(
    brought: Project, mode: str
) -> None:
    brought.task("civil/apart")
    brought.task("civil/shared", toml=SHARED, test_sh=NOTHING_LEFT)
    files = ("--aec-agent-files=my_agent.py", "--aec-agent-files=helper.py")
    result = brought.run(MINE, *files, f"--aec-local-mode={mode}")
    result.assert_outcomes(passed=2)
    left = {path.name for path in (brought.path / "jobs").glob("*/*/**/*.py")}
    assert left == set()
    record = brought.records()[0]
    assert [*record["agent"]["parameters"]["files"]] == ["helper.py", "my_agent.py"]


def test_a_directory_keeps_its_name_and_what_tools_leave_in_it_stays_at_home(
    project: Project,
) -> None:
    program = f"#!/bin/bash\nls -A agent > seen.txt; echo '{RIGHT}' > \"$AGENT_OUTPUT_PATH\"\n"
    write_tree(project.path, {"agent/run": program, "agent/__pycache__/x.pyc": "x"})
    (project.path / "agent/run").chmod(0o700)
    project.task()
    project.run("--aec-agent=command:agent/run", "--aec-agent-files=agent").assert_outcomes(
        passed=1
    )
    (seen,) = (project.path / "jobs").glob("*/*/workspace/seen.txt")
    assert seen.read_text() == "run\n"


def test_a_file_of_the_task_stays_and_the_agents_is_elsewhere(project: Project) -> None:
    write_tree(project.path, {"note.txt": "the agent's"})
    project.task(
        test_sh="cp both.json /logs/verifier/reward.json",
        files={
            "environment/note.txt": "0",
            "environment/Dockerfile": "FROM x\nWORKDIR /workspace\nCOPY note.txt ./\n",
        },
    )
    look = 'grep -q agent "$AGENT_FILES/note.txt" && echo "{\\"reward\\": 1}" > both.json'
    project.run(f"--aec-agent=command:{look}", "--aec-agent-files=note.txt").assert_outcomes(
        passed=1
    )
    (log,) = (project.path / "jobs").glob("*/*/logs/agent/stderr.txt")
    assert log.read_text() == (
        "note.txt: the task has a file of this name; use $AGENT_FILES/note.txt\n"
    )


def test_an_experiment_names_files_beside_it_and_what_is_kept_of_it_runs_again(
    project: Project,
) -> None:
    project.task()
    one = {**command(command="python3 main.py"), "name": "one", "files": ["one/main.py"]}
    other = {**one, "name": "other", "files": ["other/main.py"]}
    for name, answer in (("one", RIGHT), ("other", "{}")):
        text = f"open('output.jsonl', 'w').write('{answer}')"
        write_tree(project.path, {f"agents/{name}/main.py": text})
    experiment(project, one, other)
    (project.path / "x.yaml").rename(project.path / "agents/x.yaml")
    project.run("--aec-experiment=agents/x.yaml").assert_outcomes(passed=1, failed=1)
    kept = project.path / "artefacts/ledger/x/experiment.yaml"
    assert "- agents/one/main.py" in kept.read_text()
    again = project.run(f"--aec-experiment={kept}", "--aec-experiment-id=again")
    again.assert_outcomes(passed=1, failed=1)


def test_the_example_of_the_page_runs(project: Project) -> None:
    (example,) = [text for text in blocks("agents-in-the-sandbox.md", "yaml") if "files:" in text]
    (project.path / "x.yaml").write_text(example)
    write_tree(project.path, {"agent/main.py": AGENT, "agent/helper.py": HELPER})
    project.task()
    project.run("--aec-experiment=x.yaml").assert_outcomes(passed=1)


def test_a_changed_agent_is_another_agent(project: Project) -> None:
    project.task()
    write_tree(project.path, {"my_agent.py": AGENT, "helper.py": "ANSWER = '{}'"})
    files = ("--aec-agent-files=my_agent.py", "--aec-agent-files=helper.py")
    project.run(MINE, *files, "--aec-experiment-id=x").assert_outcomes(failed=1)
    project.run(MINE, *files, "--aec-resume=x").assert_outcomes(failed=1)
    assert len(project.records()) == 1
    write_tree(project.path, {"helper.py": HELPER})
    project.run(MINE, *files, "--aec-resume=x").assert_outcomes(passed=1)
    records = [TrialRecord.model_validate(record) for record in project.records()]
    assert len(records) == 2
    assert len(leaderboard(records).rows) == 2


def test_files_that_change_during_the_run_are_an_error_and_not_a_score(project: Project) -> None:
    write_tree(project.path, {"my_agent.py": AGENT, "helper.py": HELPER})
    project.task()
    (project.path / "conftest.py").write_text(
        "import pathlib, pytest\n"
        "@pytest.fixture\n"
        "def aec_sandbox(aec_sandbox):\n"
        "    pathlib.Path('my_agent.py').write_text('print()')\n"
        "    return aec_sandbox\n"
    )
    result = project.run(MINE, "--aec-agent-files=my_agent.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'my_agent.py' has changed since the run began; start the run*"])
    assert project.record()["evaluation"]["reward"] is None


@pytest.mark.parametrize("line", re.findall(r"\$ (pytest .*my_agent.*)", README))
def test_the_readmes_agent_works_as_typed(project: Project, line: str) -> None:
    project.task()
    answer = f"open('output.jsonl', 'w').write('{RIGHT}')"
    (project.path / "my_agent.py").write_text(answer)
    _, *arguments = shlex.split(line)
    small = [*arguments[:-2], "-n0", "--aec-repetitions=1"]
    project.run(*small).assert_outcomes(passed=1)


def test_a_command_that_names_a_file_of_the_project_is_told_how_to_bring_it(
    project: Project,
) -> None:
    project.task()
    write_tree(project.path, {"my_agent.py": AGENT})
    result = project.run(MINE)
    result.stdout.fnmatch_lines(
        ["aec: warning: *'my_agent.py' of the project is not in sandboxes; add --aec-agent-files=*"]
    )
    assert "warning" not in project.run(f"--aec-agent={HALF}").stdout.str()


def _link(directory: Path) -> None:
    (directory / "agent/link").symlink_to("/etc/passwd")


def _pipe(directory: Path) -> None:
    os.mkfifo(directory / "agent/pipe")


def _many(directory: Path) -> None:
    with (directory / "agent/big").open("wb") as file:
        file.truncate(200 * 1024**2)


def _dotenv(directory: Path) -> None:
    (directory / "agent/.env").write_text("KEY=x")


def _key(directory: Path) -> None:
    (directory / "agent/main.py").write_text("KEY = 'sk-4f9a8b7c6d5e4f3a2b1c'")


def _nothing(directory: Path) -> None:
    pass


REFUSED: dict[str, tuple[Any, str, str]] = {
    "missing": (_nothing, "nope.py", "'nope.py' does not exist; name a file or a directory"),
    "link": (_link, "agent", "'agent/link' is a link; put a copy of the file there"),
    "pipe": (_pipe, "agent", "'agent/pipe' is not a file; remove it"),
    "huge": (
        _many,
        "agent",
        "'agent' has more than 5000 files or 100 MiB, which every trial would",
    ),
    "secrets": (
        _dotenv,
        "agent",
        "'agent/.env' looks like a file of secrets, which do not go into",
    ),
    "key": (
        _key,
        "agent",
        "agent/main.py contains the value of MY_API_KEY, which must not go into",
    ),
    "tasks": (_nothing, ".", "'.' contains tasks, which agents must not see; name only the agent"),
}


@pytest.mark.parametrize(("prepare", "name", "message"), REFUSED.values(), ids=REFUSED)
def test_what_must_not_go_into_a_sandbox_is_refused_in_one_line(
    project: Project, monkeypatch: pytest.MonkeyPatch, prepare: Any, name: str, message: str
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-4f9a8b7c6d5e4f3a2b1c")
    project.task()
    write_tree(project.path, {"agent/main.py": "", "agent/.env.example": "KEY="})
    prepare(project.path)
    result = project.run("--aec-agent=command:python3 agent/main.py", f"--aec-agent-files={name}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.stderr.lines if line]
    assert line.startswith("ERROR: --aec-agent")
    assert message in line
    assert project.records() == []


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        (
            [{**command(command="true"), "files": ["nope.py"]}],
            "x.yaml: agents.0.files: 'nope.py' does not exist; name a file or a directory",
        ),
        (
            [{"harness": "oracle", "files": ["x.yaml"]}],
            "x.yaml: agents.0.files: only 'command' brings files, not 'oracle'; leave it out",
        ),
        (
            [command(command="true", files=["x.yaml"])],
            "x.yaml: agents.0.parameters.files: is not a parameter; write 'files' beside",
        ),
        (
            [{**command(command="true"), "files": ["x.yaml", "more/x.yaml"]}],
            "x.yaml: agents.0.files: two paths end with 'x.yaml', which is their name in the sand",
        ),
    ],
)
def test_mistakes_in_an_experiment_are_one_line(
    project: Project, agents: list[dict[str, Any]], message: str
) -> None:
    project.task()
    write_tree(project.path, {"more/x.yaml": ""})
    result = project.run(experiment(project, *agents))
    (line,) = [line for line in result.stderr.lines if line]
    assert line.startswith(f"ERROR: {message}")


def test_files_without_a_command_are_refused_unless_an_ini_key_names_them(
    project: Project,
) -> None:
    project.task()
    result = project.run("--aec-agent-files=tasks")
    result.stderr.fnmatch_lines(
        ["ERROR: --aec-agent-files: files are for 'command' agents, and none is run; add *"]
    )
    (project.path / "pytest.ini").write_text("[pytest]\naec_agent_files = my_agent.py\n")
    project.run().assert_outcomes(passed=1)
