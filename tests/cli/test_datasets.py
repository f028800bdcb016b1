"""``aec-bench dataset``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.tasks import write_least, write_tree
from tests.unit.test_datasets import make_tasks

MANIFEST = Path("artefacts/datasets/mine/1.0.0/manifest.json")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with three tasks, of which one is held out."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_tasks(Path("tasks"), "civil/a", "electrical/b")
    write_least(Path("tasks/secret/c"), '[metadata]\nvisibility = "holdout"\n')
    return tmp_path / "here"


@pytest.fixture
def mine(here: Path, aec_bench: Run) -> Path:
    """The project with a dataset of its public tasks."""
    assert aec_bench("dataset", "create", "mine", "--version", "1.0.0").code == 0
    return here


def test_create_says_what_it_made_and_leaves_held_out_tasks_out(here: Path, aec_bench: Run) -> None:
    ended = aec_bench("dataset", "create", "mine", "--version", "1.0.0", "--summary", "Mine")
    assert (ended.code, ended.err) == (0, "")
    first, second, third = ended.out.splitlines()
    assert first.startswith("mine@1.0.0: 2 tasks, sha256:")
    assert second == "left out: 1 held-out task; --holdout includes them"
    assert third == f"in {MANIFEST}"
    data = json.loads((here / MANIFEST).read_text())
    assert [task["task_id"] for task in data["tasks"]] == ["civil/a", "electrical/b"]
    assert data["description"]["summary"] == "Mine"
    everything = aec_bench("dataset", "create", "all", "--version", "1.0.0", "--holdout", "--json")
    assert [task["visibility"] for task in everything.json()["tasks"]] == [
        "public",
        "public",
        "holdout",
    ]


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        (["--include", "civil/*"], ["civil/a"]),
        (["--exclude", "civil/*"], ["electrical/b"]),
        (["--domain", "electrical", "--domain", "civil"], ["civil/a", "electrical/b"]),
        (["--difficulty", "easy", "--lifecycle", "active", "--include", "*b"], ["electrical/b"]),
    ],
)
@pytest.mark.usefixtures("here")
def test_create_takes_the_tasks_that_are_asked_for(
    aec_bench: Run, options: list[str], tasks: list[str]
) -> None:
    made = aec_bench("dataset", "create", "x", "--version", "1.0.0", "--json", *options)
    assert [task["task_id"] for task in made.json()["tasks"]] == tasks


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["create", "mine", "--version", "1.0.0"],
            "mine@1.0.0: exists already and never changes",
        ),
        (["create", "mine", "--version", "1"], "--version: '1' is not a semantic version; use"),
        (["create", "../x", "--version", "1.0.0"], "NAME: '../x@1.0.0' does not name a dataset;"),
        (
            ["create", "x", "--version", "1.0.0", "--domain", "no"],
            "x: no task in tasks is selected",
        ),
        (
            ["create", "x", "--version", "1.0.0", "--difficulty", "esy"],
            "--difficulty: 'esy' is not",
        ),
        (
            ["create", "x", "--version", "1.0.0", "--lifecycle", "x"],
            "--lifecycle: 'x' is not valid",
        ),
        (["info", "nope"], "dataset: dataset 'nope' not found in"),
        (["info", "nope"], "; there are mine@1.0.0"),
        (["validate", "mine@2.0.0"], "dataset: dataset 'mine@2.0.0' not found in"),
        (["diff", "mine", "nope"], "dataset: dataset 'nope' not found in"),
        (["export", "mine", "-o", "no/such/place"], "no/such/place: cannot be written, No such"),
        (["export", "mine", "-o", "."], ".: cannot be written, "),
        (["import", "nope.tar.gz"], "nope.tar.gz: cannot be read, No such file or directory"),
        (["import", "tasks"], "tasks: cannot be read, not a regular file"),
    ],
)
@pytest.mark.usefixtures("mine")
def test_a_mistake_is_one_line_and_exit_code_2(
    aec_bench: Run, arguments: list[str], said: str
) -> None:
    before = sorted(Path().rglob("*"))
    ended = aec_bench("dataset", *arguments)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert said in line
    assert sorted(Path().rglob("*")) == before


def test_a_project_without_tasks_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aec_bench: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = aec_bench("dataset", "create", "mine", "--version", "1.0.0")
    assert ended.code == 2
    assert "tasks: cannot be read, No such file or directory" in ended.err
    assert aec_bench("dataset", "list").out == "no datasets in artefacts/datasets\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("civil/a/Task.toml", "'civil/a/Task.toml' and 'civil/a/task.toml' cannot be beside"),
        ("civil/a/a\\b", "has a character that no file should have in its name; rename it"),
        ("civil/a /task.toml", "'civil/a ': is not a valid file name on every system; rename it"),
    ],
)
def test_names_that_do_not_work_everywhere_are_one_line(
    here: Path, aec_bench: Run, name: str, said: str
) -> None:
    write_tree(here / "tasks", {name: ""})
    if name.endswith("/task.toml"):
        write_least(here / "tasks/civil/a ")
    ended = aec_bench("dataset", "create", "mine", "--version", "1.0.0")
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert said in line
    assert not (here / "artefacts").exists()


def test_list_and_info_show_what_there_is(mine: Path, aec_bench: Run) -> None:
    aec_bench("dataset", "create", "mine", "--version", "1.10.0", "--include", "civil/*")
    lines = aec_bench("dataset", "list").out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["mine@1.0.0", "2", "tasks"],
        ["mine@1.10.0", "1", "tasks"],
    ]
    assert [one["version"] for one in aec_bench("dataset", "list", "--json").json()] == [
        "1.0.0",
        "1.10.0",
    ]
    shown = aec_bench("dataset", "info", "mine").out
    assert "dataset:      mine@1.10.0" in shown
    assert "  civil/a (easy)" in shown
    stored = json.loads((mine / MANIFEST).read_text())
    assert aec_bench("dataset", "info", "mine@1.0.0", "--json").json() == stored


def test_a_broken_manifest_is_reported_and_skipped(mine: Path, aec_bench: Run) -> None:
    broken = mine / "artefacts/datasets/mine/2.0.0/manifest.json"
    broken.parent.mkdir()
    broken.write_bytes(bytes(range(256)))
    ended = aec_bench("dataset", "list")
    assert ended.code == 0
    assert ended.out.startswith("mine@1.0.0 ")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"aec-bench: {broken.relative_to(mine)}: ")


def test_validate_names_what_differs_and_exits_with_1(mine: Path, aec_bench: Run) -> None:
    ended = aec_bench("dataset", "validate", "mine")
    assert (ended.code, ended.out) == (0, "mine@1.0.0: 2 tasks, all unchanged\n")
    (mine / "tasks/civil/a/instruction.md").write_text("Otherwise.")
    (mine / "tasks/electrical/b").rename(mine / "elsewhere")
    ended = aec_bench("dataset", "validate", "mine")
    assert ended.code == 1
    assert ended.out.splitlines() == ["civil/a: instruction.md changed", "electrical/b: missing"]
    data = aec_bench("dataset", "validate", "mine", "--json").json()
    assert data["valid"] is False
    assert data["changes"][0] == {
        "task_id": "civil/a",
        "how": "changed",
        "files": {"instruction.md": "changed"},
    }


def test_a_dataset_travels_in_an_archive(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aec_bench: Run
) -> None:
    assert aec_bench("dataset", "export", "mine").out == (
        "mine@1.0.0: 2 tasks in mine-1.0.0.tar.gz\n"
    )
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    archive = str(mine / "mine-1.0.0.tar.gz")
    assert aec_bench("dataset", "import", archive).out == (
        "mine@1.0.0: 2 new tasks, 0 existed already\n"
    )
    assert aec_bench("dataset", "import", archive, "--json").json()["new_tasks"] == []
    assert aec_bench("dataset", "validate", "mine").code == 0


@pytest.mark.usefixtures("here")
def test_held_out_tasks_are_not_given_away_by_accident(aec_bench: Run) -> None:
    aec_bench("dataset", "create", "all", "--version", "1.0.0", "--holdout")
    ended = aec_bench("dataset", "export", "all")
    assert ended.code == 2
    assert "1 held-out task would become public" in ended.err
    assert not Path("all-1.0.0.tar.gz").exists()
    assert aec_bench("dataset", "export", "all", "--holdout").code == 0


def test_diff_names_tasks_and_files(mine: Path, aec_bench: Run) -> None:
    (mine / "tasks/civil/a/instruction.md").write_text("Otherwise.")
    aec_bench("dataset", "create", "mine", "--version", "2.0.0", "--exclude", "electrical/*")
    ended = aec_bench("dataset", "diff", "mine@1.0.0", "mine@2.0.0")
    assert ended.out.splitlines() == ["civil/a: instruction.md changed", "electrical/b: removed"]
    back = aec_bench("dataset", "diff", "mine@2.0.0", "mine@1.0.0", "--json").json()
    assert [change["how"] for change in back["changes"]] == ["changed", "added"]
    assert "have the same tasks" in aec_bench("dataset", "diff", "mine", "mine").out
