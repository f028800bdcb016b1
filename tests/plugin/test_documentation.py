"""The examples of the README and the docs, run as they stand."""

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
from pydantic import BaseModel

from pytest_aecbench import errors
from pytest_aecbench.cli import main
from pytest_aecbench.ledger.checks import GROUPS
from pytest_aecbench.settings.schema import ExperimentConfig, ProjectConfig
from pytest_aecbench.settings.show import readme_table
from pytest_aecbench.settings.table import TABLE
from tests.checking import run_checks, write_task
from tests.project import Project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def example(page: str, name: str) -> str:
    """Return the Python example of that name."""
    text = (ROOT / page).read_text(encoding="utf-8")
    match = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", text, re.DOTALL)
    assert match, f"{page} has no example {name}"
    return match[1]


def test_an_override_applies_to_its_domain_alone(anyhow: Project) -> None:
    anyhow.task("electrical/a")
    anyhow.task("civil/b")
    (anyhow.path / "tasks/electrical/conftest.py").write_text(example("README.md", "override"))
    anyhow.run().assert_outcomes(passed=2)
    notes = {
        record["task"]["domain"]: "workspace/client-note.txt"
        in [file["path"] for file in record["outputs"]["files"]]
        for record in anyhow.records()
    }
    assert notes == {"electrical": True, "civil": False}


def test_an_agent_from_a_conftest_runs(anyhow: Project) -> None:
    anyhow.task()
    (anyhow.path / "conftest.py").write_text(example("README.md", "agent"))
    anyhow.run("--aec-agent=shouter").assert_outcomes(failed=1)
    record = anyhow.record()
    assert record["agent"]["harness"] == "shouter"
    assert record["outputs"]["output_excerpt"] == "{}\n"


@pytest.mark.needs("bubblewrap")
def test_a_backend_of_nothing_but_the_five_methods_runs(anyhow: Project) -> None:
    anyhow.task(
        solve="cat given.txt > output.jsonl",
        files={"environment/given.txt": '{"current_a": 2.0, "power_w": 24.0}'},
    )
    (anyhow.path / "conftest.py").write_text(example("README.md", "backend"))
    anyhow.run("--aec-backend=bubblewrap").assert_outcomes(passed=1)
    assert anyhow.record()["environment"]["backend"] == "bubblewrap"


def test_a_reward_can_be_overridden(anyhow: Project) -> None:
    anyhow.task("civil/with", solve="cp /solution/* .; echo x > calculation.md", test_sh=ONE)
    anyhow.task("civil/without", test_sh=ONE)
    (anyhow.path / "tasks/civil/conftest.py").write_text(example("docs/extending.md", "reward"))
    anyhow.run().assert_outcomes(passed=1, failed=1)


ONE = "echo 1 > /logs/verifier/reward.txt"


def test_an_agent_by_its_dotted_path_runs(anyhow: Project) -> None:
    anyhow.task()
    (anyhow.path / "answers.py").write_text(example("docs/extending.md", "dotted"))
    (anyhow.path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    anyhow.run("--aec-agent=answers.Fixed:42").assert_outcomes(failed=1)
    record = anyhow.record()
    assert (record["agent"]["harness"], record["agent"]["model"]) == ("answers.Fixed", "42")
    assert record["outputs"]["output_excerpt"] == "42\n"


def test_the_readmes_table_is_that_of_the_settings() -> None:
    assert readme_table() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_cause_is_in_the_docs() -> None:
    page = (ROOT / "docs/outcomes.md").read_text(encoding="utf-8")
    classes = [getattr(errors, name) for name in errors.__all__]
    kinds = [kind for kind in classes if isinstance(kind, type) and issubclass(kind, Exception)]
    leaves = {errors.classify(kind) for kind in kinds}
    for cause, retry, _ in leaves:
        if cause != "internal":
            assert re.search(rf"\| `{cause}` \| {'yes' if retry else 'no'} \|", page), cause


RUNNING, _, RECIPES = (ROOT / "docs/running.md").read_text("utf-8").partition("## In CI")


@pytest.mark.parametrize("command", re.findall(r"^pytest .*$", RUNNING, re.MULTILINE))
def test_the_commands_for_long_runs_work(project: Project, command: str) -> None:
    count = 6 if "baseline" in command else 1  # a comparison needs as many
    for number in range(count):
        project.task(f"civil/task-{number}")
    if "--aec-experiment-id" not in command:
        project.run("--aec-experiment-id=nightly", "--aec-agent=oracle").assert_outcomes(
            passed=count
        )
    result = project.run(*shlex.split(command)[1:])
    with_nop = "--aec-agent=nop" in command  # which earns nothing
    assert result.ret == (1 if with_nop else 0), result.stdout.str()
    assert "= aec: " in result.stdout.str()
    result.assert_outcomes(passed=count, failed=count if with_nop else 0)


def test_every_check_is_in_the_docs() -> None:
    page = (ROOT / "docs/checks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| ", page, re.MULTILINE)
    names = [name.removeprefix("exploit:") for name in GROUPS["all"]]
    assert [row for row in rows if row in names] == names


def test_the_complete_example_of_a_task_passes_its_checks(tmp_path: Path) -> None:
    page = (ROOT / "docs/tasks.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```bash\n(mkdir .*?)```", page, re.DOTALL)
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    checked = run_checks(tmp_path, "tasks", "--aec-check")
    assert checked.code == 0, checked.output
    code = example("docs/checks.md", "checked")
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert shown.stdout == "True ()\n"


@pytest.mark.parametrize(
    "command", re.findall(r"^pytest .*$", (ROOT / "docs/checks.md").read_text("utf-8"), re.M)
)
def test_the_commands_for_checks_work(tmp_path: Path, command: str) -> None:
    separate = '[verifier]\nenvironment_mode = "separate"\n'
    write_task(tmp_path / "tasks/voltage-drop", {"task.toml": separate})
    checked = run_checks(tmp_path, *shlex.split(command)[1:])
    assert checked.code == 0, checked.output
    assert checked.records


def recipe(name: str) -> str:
    """Return the recipe for CI of that name."""
    match = re.search(rf"<!-- recipe: {name} -->\n```\w+\n(.*?)```", RECIPES, re.DOTALL)
    assert match, name
    return match[1]


def bash(project: Project, script: str, *arguments: str, **env: str) -> tuple[int, str]:
    """Run a script as CI does, in the project."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-e", "-c", script, "bash", *arguments],
        cwd=project.path,
        env={**os.environ, "PATH": path, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.returncode, result.stdout


def test_the_shell_script_for_ci_runs_gates_and_goes_on(project: Project) -> None:
    script = recipe("shell").replace("#!/usr/bin/env bash", "set +e")
    project.task("civil/a")
    project.task("civil/b", test_sh="exit 1")
    code, output = bash(project, script, "nightly")
    assert (code, output.splitlines()[-1]) == (1, "the gate did not pass: see summary.md"), output
    assert "nightly" in (project.path / "summary.md").read_text()
    assert "<testsuite" in (project.path / "junit.xml").read_text()
    project.task("civil/b")
    code, output = bash(project, script, "nightly")
    assert (code, output.splitlines()[-1]) == (0, "the gate passed"), output
    assert "aec: resuming: 1 trial settled already" in output


@pytest.mark.parametrize(
    ("ini", "code", "meaning"),
    [
        ("aec_backend = nowhere", 4, "bad input: see the line above"),
        ("addopts = -k nothing_like_it", 5, "no task was selected"),
    ],
)
def test_the_shell_script_for_ci_says_what_its_exit_code_means(
    project: Project, ini: str, code: int, meaning: str
) -> None:
    project.task()
    (project.path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    script = recipe("shell").replace("#!/usr/bin/env bash", "set +e")
    found, output = bash(project, script, "nightly")
    assert (found, output.splitlines()[-1]) == (code, meaning), output


def test_the_workflow_for_github_works_and_goes_on(project: Project) -> None:
    workflow = yaml.safe_load(recipe("github"))
    steps = workflow["jobs"]["benchmark"]["steps"]
    (command,) = [step["run"] for step in steps if "pytest tasks" in step.get("run", "")]
    caches = [step["with"]["path"] for step in steps if "cache" in step.get("uses", "")]
    assert caches == ["artefacts/ledger"] * 2
    project.task()
    env = {"EXPERIMENT": "run-1", "GITHUB_STEP_SUMMARY": str(project.path / "step.md")}
    code, output = bash(project, command, **env)
    assert code == 0, output
    assert (project.path / "junit.xml").is_file()
    assert "run-1" in (project.path / "step.md").read_text()
    code, output = bash(project, command, **env)
    assert code == 0, output
    assert "aec: resuming: 1 trial settled already" in output
    assert len(project.records()) == 1


CONFIGURATION = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")


def configuration(name: str) -> str:
    """Return the example of that name."""
    match = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", CONFIGURATION, re.DOTALL)
    assert match, name
    return match[1]


def test_the_commands_on_configuration_work(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.path / "xdg"))
    for name in ("electrical/one", "civil/two"):
        project.task(name)
    (project.path / "aec-bench.toml").write_text(configuration("project"))
    (project.path / "experiment.yaml").write_text(configuration("experiment"))
    user = project.path / "xdg/aec-bench/config.json"
    user.parent.mkdir(parents=True)
    user.write_text(configuration("user"))
    commands = re.findall(r"^\$ (.*)$", CONFIGURATION, re.MULTILINE)
    assert len(commands) == 12
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "pytest":
            result = project.pytester.runpytest(*arguments)
            runs = "--aec-show-config" not in arguments  # trials, and the shell's agent fails
            assert result.ret == (1 if runs else 0), result.stdout.str()
        else:
            file = arguments[-1] if ">" in arguments else None
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(arguments[: arguments.index(">")] if file else arguments)
            assert not ended.value.code
            if file:
                (project.path / file).write_text(capsys.readouterr().out)
                json.loads((project.path / file).read_text())
    kept = [(record["experiment_id"], record["agent"]["name"]) for record in project.records()]
    assert sorted(set(kept)) == [
        (experiment, agent)
        for experiment in ("again", "exp-20260412-001")
        for agent in ("reference", "shell")
    ]
    assert {record["task"]["task_id"] for record in project.records()} == {"electrical/one"}


@pytest.mark.parametrize("model", [ExperimentConfig, ProjectConfig])
def test_every_key_of_a_configuration_file_is_in_the_docs(model: type[BaseModel]) -> None:
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"^\|.*", CONFIGURATION, re.M))))
    keys = set(re.findall(r'"([a-z_]+)": {', json.dumps(model.model_json_schema()["$defs"])))
    assert keys >= {"backend", "cpus"}
    assert keys - words - {"properties", "items", "default"} == set()


def test_every_ini_key_is_in_the_docs() -> None:
    keys = [row.ini_key for row in TABLE if row.ini]
    pages = CONFIGURATION + (ROOT / "README.md").read_text(encoding="utf-8")
    assert [key for key in keys if f"`{key}`" not in pages] == []
