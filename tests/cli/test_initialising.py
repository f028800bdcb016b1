"""A new project works as it stands and takes nothing away."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_aecbench.tasks.task import Task
from tests.cli.conftest import Run

BIN = Path(sys.executable).parent
TASK = "tasks/structural/euler-column"
FIRST_RUN = "aec-bench run --config experiments/first-run.yaml"


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line with this environment's programs, and with none of its settings."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**kept, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def demo(aec_bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, where the test is."""
    monkeypatch.chdir(tmp_path)
    assert aec_bench("init", "demo").code == 0
    monkeypatch.chdir("demo")
    return tmp_path / "demo"


def rewards(project: Path) -> list[object]:
    paths = sorted(project.glob("artefacts/ledger/*/*.json"))
    return [json.loads(path.read_text())["evaluation"]["reward"] for path in paths]


@pytest.mark.parametrize("mode", ["", " -n 2"])
def test_a_new_project_passes_without_arguments(tmp_path: Path, mode: str) -> None:
    done = shell(f"aec-bench init demo && cd demo && pytest{mode}", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert rewards(tmp_path / "demo") == [1.0]


def test_a_project_has_what_the_documentation_says(demo: Path) -> None:
    files = {path.relative_to(demo).as_posix() for path in demo.rglob("*") if path.is_file()}
    assert files == {
        ".env.example",
        ".github/workflows/trials.yml",
        ".gitignore",
        "README.md",
        "aec-bench.toml",
        "experiment.yaml",
        "experiments/first-run.yaml",
        "pytest.ini",
        "scripts/euler-column.json",
        f"{TASK}/environment/Dockerfile",
        f"{TASK}/environment/column.json",
        f"{TASK}/instruction.md",
        f"{TASK}/solution/solve.sh",
        f"{TASK}/task.toml",
        f"{TASK}/tests/fixtures/golden_fail.md",
        f"{TASK}/tests/fixtures/golden_pass.md",
        f"{TASK}/tests/test.sh",
        f"{TASK}/tests/verify.py",
    }
    assert 'name = "demo"' in (demo / "aec-bench.toml").read_text()
    assert yaml.safe_load((demo / "experiment.yaml").read_text())["name"] == "demo"
    assert Task.load(demo / TASK).warnings == ()


def test_the_line_to_try_works_and_shows_a_model_agent_without_a_key(
    aec_bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = aec_bench("init", "demo").out.splitlines()[-1]
    done = shell(line.removeprefix("Try it: "), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.chdir("demo")
    (trial,) = aec_bench("ledger", "list", "--trials", "--agent", "scripted", "--json").json()
    assert trial["outcome"] == "passed"
    record = aec_bench("ledger", "show", trial["trial"], "--json").json()
    assert record["agent_result"]["turns"] == 3
    # 1880 in, 547 out, 2260 from and 1220 to the cache, at the price in the script.
    assert record["cost"]["usd"] == pytest.approx(0.019098)
    shown = aec_bench("ledger", "show", trial["trial"], "--trajectory").out
    assert re.findall(r"^turn (\d): .* USD", shown, re.MULTILINE) == ["1", "2", "3"]
    assert "$ python3 - <<'PYTHON'" in shown
    board = {
        row["agent"]: row for row in aec_bench("report", "leaderboard", "--json").json()["agents"]
    }
    assert board["scripted"]["mean"] == board["oracle"]["mean"] == 1


def test_any_directory_name_is_quoted(
    aec_bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = 'a "b" \\ é'
    assert aec_bench("init", name).code == 0
    experiment = yaml.safe_load((tmp_path / name / "experiment.yaml").read_text("utf-8"))
    assert experiment["name"] == name


def test_nothing_that_is_there_is_overwritten(
    aec_bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".gitignore").write_text("mine\n")
    ended = aec_bench("init", "--json")
    assert ended.code == 0
    assert ended.json()["existing"] == [".gitignore"]
    assert "aec-bench.toml" in ended.json()["written"]
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    again = aec_bench("init")
    assert again.code == 0
    assert "wrote" not in again.out
    assert "kept  .gitignore, which exists\n" in again.out
    assert again.out.endswith(f"Try it: pytest && {FIRST_RUN}\n")


@pytest.mark.parametrize(
    ("name", "text", "configures"),
    [
        ("pyproject.toml", "[tool.pytest]\nstrict = true\n", True),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", True),
        ("pyproject.toml", "[project]\nname = 'x'\n", False),
        ("tox.ini", "[tox]\n[pytest]\n", True),
        ("setup.cfg", "[tool:pytest]\n", True),
        ("pytest.toml", "", True),
    ],
)
def test_pytests_configuration_is_left_alone(
    aec_bench: Run, tmp_path: Path, name: str, text: str, configures: bool
) -> None:
    (tmp_path / name).write_text(text)
    ended = aec_bench("init", str(tmp_path))
    assert ended.code == 0
    assert (tmp_path / "pytest.ini").exists() is not configures
    assert (f"kept  {tmp_path / name}, which exists\n" in ended.out) is configures
    pytest_command = "pytest tasks" if configures else "pytest"
    assert ended.out.endswith(f" && {pytest_command} && {FIRST_RUN}\n")


def test_a_file_in_the_way_is_one_line(aec_bench: Run, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("x")
    ended = aec_bench("init", str(tmp_path / "demo"))
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line.startswith(f"aec-bench: {tmp_path / 'demo'}: cannot be written, ")


def test_the_verifier_agrees_with_the_golden_answers(demo: Path) -> None:
    answers = {
        name: re.findall(
            r"```json\n(.*)\n```", (demo / TASK / f"tests/fixtures/{name}.md").read_text()
        )
        for name in ("golden_pass", "golden_fail")
    }
    agents = [
        f"--aec-agent={name}=command:echo {shlex.quote(answer)} > output.jsonl"
        for name, (answer,) in answers.items()
    ]
    shell(shlex.join(["pytest", *agents, "--aec-agent=nop"]), demo)
    records = [json.loads(path.read_text()) for path in demo.glob("artefacts/ledger/*/*.json")]
    earned = {record["agent"]["name"]: record["evaluation"]["reward"] for record in records}
    assert earned == {"golden_pass": 1, "golden_fail": 0, "nop": 0}


@pytest.mark.parametrize(
    ("output", "reward"),
    [
        ('{"second_moment_mm4": 11964672, "adequate": true}', 0.25),
        ('{"critical_load_kn": 420.5, "adequate": true}', 0.5),
        ('{"critical_load_kn": NaN, "slenderness": "127.467", "adequate": 1}', 0),
        ('[{"critical_load_kn": 420}]', 0),
        ("no JSON", 0),
    ],
)
def test_the_task_gives_partial_credit(demo: Path, output: str, reward: float) -> None:
    agent = f"me=command:echo {shlex.quote(output)} > output.jsonl"
    shell(shlex.join(["pytest", f"--aec-agent={agent}"]), demo)
    assert rewards(demo) == [reward]


def test_the_workflow_runs_trials_and_uploads_what_it_writes(demo: Path) -> None:
    workflow = yaml.safe_load((demo / ".github/workflows/trials.yml").read_text())
    steps = workflow["jobs"]["trials"]["steps"]
    (command,) = [step["run"] for step in steps if step.get("run", "").startswith("pytest")]
    done = shell(f"GITHUB_STEP_SUMMARY=$PWD/step.md {command}", demo)
    assert done.returncode == 0, done.stdout
    (upload,) = [step["with"]["path"] for step in steps if "upload" in step.get("uses", "")]
    for path in upload.split():
        assert (demo / path).exists(), path
    assert "euler-column" in (demo / "junit.xml").read_text()
    assert (demo / "step.md").read_text() == (demo / "summary.md").read_text()
