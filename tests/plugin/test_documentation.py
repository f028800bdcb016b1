"""The examples of the README and the docs, run as they stand."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_aecbench import errors
from pytest_aecbench import options as options_module
from pytest_aecbench.checks import GROUPS
from tests.checking import run_checks, write_task
from tests.project import Project

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
    anyhow.run("--aec-agent=answers.Fixed:42").assert_outcomes(errors=1)
    record = anyhow.record()
    assert (record["agent"]["harness"], record["agent"]["model"]) == ("answers.Fixed", "42")
    assert record["outputs"]["output_excerpt"] == "42\n"


def test_every_option_is_in_the_readme() -> None:
    options = re.findall(r'"(--aec-[a-z-]+)"', Path(options_module.__file__).read_text())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert options
    assert [option for option in options if f"`{option}" not in readme] == []


def test_every_cause_is_in_the_docs() -> None:
    page = (ROOT / "docs/outcomes.md").read_text(encoding="utf-8")
    classes = [getattr(errors, name) for name in errors.__all__]
    kinds = [kind for kind in classes if isinstance(kind, type) and issubclass(kind, Exception)]
    leaves = {errors.classify(kind) for kind in kinds}
    for cause, retry, _ in leaves:
        if cause != "internal":
            assert re.search(rf"\| `{cause}` \| {'yes' if retry else 'no'} \|", page), cause


@pytest.mark.parametrize(
    "command", re.findall(r"^pytest .*$", (ROOT / "docs/running.md").read_text("utf-8"), re.M)
)
def test_the_commands_for_long_runs_work(project: Project, command: str) -> None:
    project.task()
    project.run("--aec-experiment-id=nightly", "--aec-agent=oracle")
    arguments = shlex.split(command)[1:]
    result = project.run(*arguments)
    assert result.ret in (0, 1), result.stdout.str()
    assert "= aec: " in result.stdout.str()


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


def test_the_workflow_for_github_works(project: Project) -> None:
    page = (ROOT / "docs/running.md").read_text(encoding="utf-8")
    steps = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    (command,) = [step["run"] for step in steps if step.get("run", "").startswith("pytest")]
    project.task()
    result = project.run(*shlex.split(command)[1:])
    assert result.ret == 0
    assert (project.path / "junit.xml").is_file()
