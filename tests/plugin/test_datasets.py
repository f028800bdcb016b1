"""A run that is confined to a dataset runs its tasks, as they were, and no others."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pytest_aecbench.datasets.create import entry_of, selected_tasks
from pytest_aecbench.datasets.manifest import Manifest
from pytest_aecbench.datasets.store import Datasets
from pytest_aecbench.tasks.selection import Selection
from tests.plugin.conftest import with_workers_too
from tests.project import Project


def make_dataset(project: Project, version: str = "1.0.0", include: str = "*") -> Manifest:
    tasks = selected_tasks(Selection(include_patterns=(include,)), project.path / "tasks")
    manifest = Manifest.of("mine", version, [entry_of(t, f"tasks/{t.task_id}") for t in tasks])
    Datasets(project.path / "artefacts/datasets").add(manifest)
    return manifest


@pytest.fixture
def three(anyhow: Project) -> Project:
    for task_id in ("civil/a", "civil/b", "ground/c"):
        anyhow.task(task_id)
    make_dataset(anyhow, include="civil/*")
    return anyhow


def refusal(result: pytest.RunResult) -> str:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    return line


@with_workers_too
def test_exactly_the_tasks_of_the_dataset_run(three: Project) -> None:
    three.run("--aec-dataset=mine@1.0.0", "--junitxml=out.xml").assert_outcomes(
        passed=2, deselected=0 if "-n2" in three.mode else 1
    )
    records = three.records()
    assert sorted(record["task"]["task_id"] for record in records) == ["civil/a", "civil/b"]
    manifest = three.path / "artefacts/datasets/mine/1.0.0/manifest.json"
    content_hash = Manifest.from_json(manifest.read_bytes(), "x").content_hash
    for record in records:
        assert record["dataset"] == {
            "name": "mine",
            "version": "1.0.0",
            "content_hash": content_hash,
            "drifted": False,
        }
    found = ET.parse(three.path / "out.xml").getroot().iter("property")
    assert [p.get("value") for p in found if p.get("name") == "aec.dataset"] == ["mine@1.0.0"] * 2


def test_without_a_dataset_records_name_none(project: Project) -> None:
    project.task()
    project.run().assert_outcomes(passed=1)
    assert project.record()["dataset"] is None


def test_a_bare_name_is_the_highest_version_and_the_ini_key_works(three: Project) -> None:
    make_dataset(three, version="1.10.0", include="ground/*")
    make_dataset(three, version="1.9.0")
    three.pytester.makeini("[pytest]\naec_dataset = mine\n")
    three.run().assert_outcomes(passed=1, deselected=0 if "-n2" in three.mode else 2)
    assert three.record()["dataset"]["version"] == "1.10.0"


def test_a_dataset_narrows_what_pytest_selects_and_leaves_other_tests_alone(
    three: Project,
) -> None:
    (three.path / "tasks/test_other.py").write_text("def test_it(): pass\n")
    three.task("civil/narrow")
    make_dataset(three, "2.0.0", include="civil/*")
    three.run("-k", "narrow or test_it or ground", "--aec-dataset=mine").assert_outcomes(
        passed=2, deselected=0 if "-n2" in three.mode else 3
    )
    assert three.record()["task"]["task_id"] == "civil/narrow"


def test_a_task_that_differs_is_refused_by_file_before_anything_runs(three: Project) -> None:
    (three.path / "tasks/civil/a/instruction.md").write_text("Otherwise.")
    (three.path / "tasks/civil/a/tests/extra.py").write_text("")
    line = refusal(three.run("--aec-dataset=mine"))
    assert line.startswith("ERROR: --aec-dataset: the tasks differ from mine@1.0.0: ")
    assert "civil/a: instruction.md changed, tests/extra.py added; restore them" in line
    assert three.records() == []
    assert not (three.path / "jobs").exists()


def test_a_task_that_is_missing_is_refused_before_anything_runs(three: Project) -> None:
    (three.path / "tasks/civil/b").rename(three.path / "elsewhere")
    assert "civil/b: missing" in refusal(three.run("--aec-dataset=mine"))
    assert three.records() == []


def test_drift_that_is_allowed_marks_every_record(three: Project) -> None:
    (three.path / "tasks/civil/a/notes.md").write_text("new")
    result = three.run("--aec-dataset=mine", "--aec-allow-drift")
    result.assert_outcomes(passed=2, deselected=0 if "-n2" in three.mode else 1)
    assert "aec: not as in the dataset: civil/a: notes.md added" in result.stdout.str()
    assert [record["dataset"]["drifted"] for record in three.records()] == [True, True]


def test_a_task_that_changes_during_the_run_is_an_error(project: Project) -> None:
    project.task("civil/a")
    project.task("civil/b")
    make_dataset(project)
    changed = project.path / "tasks/civil/b/notes.md"
    project.pytester.makeconftest(
        f"""
        import pathlib
        import pytest

        @pytest.fixture
        def aec_sandbox(aec_sandbox):
            pathlib.Path({str(changed)!r}).write_text("new")
            return aec_sandbox
        """
    )
    result = project.run("--aec-dataset=mine")
    result.assert_outcomes(passed=1, errors=1)
    assert "TaskError: civil/b: changed since the run began" in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--aec-dataset=nope"], "--aec-dataset: dataset 'nope' not found in "),
        (["--aec-dataset=nope"], "; there are mine@1.0.0"),
        (["--aec-dataset=mine@2.0.0"], "dataset 'mine@2.0.0' not found in "),
        (["--aec-dataset=mine@two"], "--aec-dataset: 'two' is not a semantic version; use"),
        (["--aec-dataset=../mine"], "--aec-dataset: '../mine' does not name a dataset; use NAME"),
        (["--aec-allow-drift"], "--aec-allow-drift: is about a dataset; add --aec-dataset="),
    ],
)
def test_a_bad_dataset_is_one_line(project: Project, arguments: list[str], message: str) -> None:
    project.task()
    make_dataset(project)
    assert message in refusal(project.run(*arguments))
    assert project.records() == []


def test_a_broken_manifest_is_one_line(anyhow: Project) -> None:
    anyhow.task()
    make_dataset(anyhow)
    manifest = anyhow.path / "artefacts/datasets/mine/1.0.0/manifest.json"
    manifest.write_bytes(b"{" * 1000)
    assert "manifest.json: " in refusal(anyhow.run("--aec-dataset=mine"))
    assert anyhow.records() == []


def test_datasets_can_be_elsewhere(project: Project) -> None:
    project.task()
    make_dataset(project)
    Path(project.path / "artefacts/datasets").rename(project.path / "sets")
    project.pytester.makeini("[pytest]\naec_datasets_root = sets\n")
    project.run("--aec-dataset=mine").assert_outcomes(passed=1)
