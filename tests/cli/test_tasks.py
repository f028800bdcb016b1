"""Making tasks: what is made works at once, and nothing that exists is touched."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_aecbench import verify
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.scaffold import PLACEHOLDERS, NewTask, parse_answer
from pytest_aecbench.tasks.task import Task
from tests.cli.conftest import Run

FIELDS = ["drop_v=9.8:V", "bars=4", "offset_m=0.0:m", "safe=false", "class=C2|C1|C3", "t=-1.5:°C"]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def earned(project: Path, *agents: str) -> dict[str, float]:
    """Run every task with these agents and return what each earned."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tasks", *(f"--aec-agent={a}" for a in agents)],
        cwd=project,
        capture_output=True,
    )
    records = [
        json.loads(path.read_text()) for path in (project / "artefacts/ledger").glob("*/*.json")
    ]
    assert all(record["warnings"] == [] for record in records), records
    return {record["agent"]["name"]: record["evaluation"]["reward"] for record in records}


def test_a_new_task_works_as_it_stands(aec_bench: Run, project: Path) -> None:
    fields = [f"--output-field={field}" for field in FIELDS]
    ended = aec_bench("task", "new", "electrical/new-one", *fields)
    assert ended.code == 0, ended.err
    assert "pytest tasks/electrical/new-one" in ended.out
    assert earned(project, "oracle", "nop") == {"oracle": 1, "nop": 0}


def test_a_new_task_needs_nothing_but_a_name(aec_bench: Run, project: Path) -> None:
    assert aec_bench("task", "new", "civil/x").code == 0
    assert earned(project, "oracle", "nop") == {"oracle": 1, "nop": 0}


def test_the_placeholders_of_a_new_task_are_found_until_they_are_replaced(
    aec_bench: Run, project: Path
) -> None:
    def check() -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pytest", "tasks", "--aec-check=instruction"]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    aec_bench("task", "new", "civil/x")
    found = check()
    assert found.returncode == 1
    assert "instruction.md: 'State the problem here' is left over from 'task new'\n" in found.stdout
    assert "solution/solve.sh: '# Write a solution here" in found.stdout
    for name, (placeholder, _) in PLACEHOLDERS.items():
        path = project / "tasks/civil/x" / name
        path.write_text(path.read_text().replace(placeholder, "# Add 0.5 and 0.5"))
    assert check().returncode == 0


def test_a_new_task_is_complete(aec_bench: Run, project: Path) -> None:
    ended = aec_bench(
        *("task", "new", "civil/deep/crest-curve", "--difficulty=hard", "--tags=roads, AS 1742"),
        *("--title=Länge \\ \"'{x}", "--output-field=length_m=120.5:m", "--json"),
    )
    made = ended.json()
    assert made["task_id"] == "civil/deep/crest-curve"
    assert made["files"] == [
        "environment/Dockerfile",
        "instruction.md",
        "solution/solve.sh",
        "task.toml",
        "tests/fixtures/golden_fail.md",
        "tests/fixtures/golden_pass.md",
        "tests/test.sh",
        "tests/verify.py",
    ]
    task = Task.load(project / made["path"])
    assert task.warnings == ()
    assert (task.difficulty, task.tags) == ("hard", ("roads", "AS 1742"))
    assert str(task.output_path) == "/workspace/output.jsonl"
    assert task.instruction.startswith("# Länge \\ \"'{x}\n")
    assert "| `length_m` | number | m | ±1 % |" in task.instruction
    assert "120.5" not in task.instruction
    assert (task.path / "environment/Dockerfile").read_text().startswith("FROM python:3.11-slim\n")
    assert "/tests/aec_verify.py" in task.verifier_uploads()


@settings(suppress_health_check=list(HealthCheck))
@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**20), 10**20)
    | st.lists(st.text(st.characters(exclude_characters="|")), min_size=2, max_size=3).map("|".join)
)
def test_the_golden_examples_and_the_verifier_agree_on_any_value(value: object) -> None:
    try:
        answer = parse_answer(f"x={value}", "--output-field")
    except SettingsError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    ast.parse(answer.field)
    field = eval(answer.field, vars(verify))
    json.loads(json.dumps(answer.right))
    assert field.judge(answer.right).score == 1
    assert field.judge(answer.wrong).score == 0


@pytest.mark.parametrize("exists", ["file", "empty directory", "dead link"])
def test_nothing_is_overwritten(aec_bench: Run, project: Path, exists: str) -> None:
    target = project / "tasks/civil/x"
    target.parent.mkdir(parents=True)
    if exists == "file":
        target.write_text("mine")
    elif exists == "empty directory":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    ended = aec_bench("task", "new", "civil/x")
    assert (ended.code, ended.out) == (2, "")
    assert "exists; use another name" in ended.err
    assert [path.name for path in target.parent.iterdir()] == ["x"]
    assert not target.is_dir() or not list(target.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x"], "DOMAIN/NAME: 'x' is not valid"),
        (["../x"], "DOMAIN/NAME: '../x' is not valid"),
        (["/etc/x"], "DOMAIN/NAME: '/etc/x' is not valid"),
        (["civil/x y"], "DOMAIN/NAME: 'civil/x y' is not valid"),
        (["civil/x", "--difficulty=extreme"], "--difficulty: 'extreme' is not valid"),
        (["civil/x", "--title=a\nb"], "--title: 'a\\nb' is not valid"),
        (["civil/x", "--output-field=a"], "--output-field: 'a' is not a field"),
        (["civil/x", "--output-field=a="], "--output-field: 'a=' is not a field"),
        (["civil/x", "--output-field=a b=1"], "--output-field: 'a b=1' is not a field"),
        (["civil/x", "--output-field=a=text"], "--output-field: 'text' is not a number, flag"),
        (["civil/x", "--output-field=a=b|B"], "--output-field: 'b|B' is not a number, flag"),
        (["civil/x", "--output-field=a=1:parsec"], "--output-field: a: 'parsec' is not a known"),
        (["civil/x", "--output-field=a=1e999"], "--output-field: a: '1e999' is too large"),
        (["civil/x", "--output-field=a=1", "--output-field=a=2"], "a name occurs twice"),
    ],
)
def test_a_mistake_is_one_line_and_makes_nothing(
    aec_bench: Run, project: Path, arguments: list[str], message: str
) -> None:
    ended = aec_bench("task", "new", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert not (project / "tasks").exists()


def test_no_task_is_made_inside_another(aec_bench: Run) -> None:
    assert aec_bench("task", "new", "civil/x").code == 0
    ended = aec_bench("task", "new", "civil/x/y")
    assert (ended.code, "is a task itself" in ended.err) == (2, True)


def test_on_a_terminal_it_asks_for_what_is_missing(project: Path) -> None:
    controller, terminal = pty.openpty()
    os.write(controller, b"Feeder\n\nbad\ndrop_v=9.8:V\nsafe=true\n\n")
    command = "from pytest_aecbench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "task", "new", "electrical/feeder"],
        stdin=terminal,
        capture_output=True,
        text=True,
        cwd=project,
    )
    os.close(terminal)
    os.close(controller)
    assert done.returncode == 0, done.stderr
    assert "bad: 'bad' is not a field; use NAME=VALUE" in done.stderr
    instruction = (project / "tasks/electrical/feeder/instruction.md").read_text()
    assert instruction.startswith("# Feeder\n")
    assert "`drop_v`" in instruction
    assert "`safe`" in instruction


def test_copies_of_verify_are_checked_and_brought_up_to_date(aec_bench: Run, project: Path) -> None:
    for name in ("civil/old", "civil/new", "civil/none"):
        aec_bench("task", "new", name)
    (project / "tasks/civil/old/tests/aec_verify.py").write_text("# older\n")
    assert aec_bench("task", "vendor-verify", "tasks/civil/new").code == 0
    ended = aec_bench("task", "vendor-verify", "--check")
    assert (ended.code, ended.out) == (1, "tasks/civil/old/tests/aec_verify.py is not current\n")
    ended = aec_bench("task", "vendor-verify", "tasks", "--json")
    assert (ended.code, ended.json()) == (0, {"outdated": ["tasks/civil/old"], "written": True})
    assert aec_bench("task", "vendor-verify", "--check").code == 0
    assert not (project / "tasks/civil/none/tests/aec_verify.py").exists()
    assert aec_bench("task", "vendor-verify", "tasks/civil/none").code == 0
    copy = project / "tasks/civil/none/tests/aec_verify.py"
    assert copy.read_bytes() == Path(verify.__file__).read_bytes()


def test_where_no_task_has_a_copy_that_is_said(aec_bench: Run) -> None:
    ended = aec_bench("task", "vendor-verify", "elsewhere")
    assert (ended.code, ended.out) == (2, "")
    assert "elsewhere: contains no task with tests/aec_verify.py" in ended.err


def test_a_new_task_that_cannot_be_written_is_refused(project: Path) -> None:
    (project / "tasks").write_text("a file")
    task = NewTask("civil/x", "X", "easy", (), (parse_answer("a=1", ""),))
    with pytest.raises(SettingsError, match="cannot be made"):
        task.write(project / "tasks")
