"""Datasets: names, versions, manifests believed in nothing, a store that never changes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.datasets.create import entry_of, selected_tasks
from pytest_aecbench.datasets.drift import differences, drift
from pytest_aecbench.datasets.manifest import MAX_MANIFEST_BYTES, Manifest
from pytest_aecbench.datasets.names import (
    DatasetRef,
    check_version,
    clash,
    parse_ref,
    precedence,
    problem_with,
)
from pytest_aecbench.datasets.store import Datasets
from pytest_aecbench.errors import SettingsError, TaskError, UserError
from pytest_aecbench.tasks.selection import Selection
from pytest_aecbench.tasks.task import Task
from tests.tasks import write_least, write_tree


def make_tasks(root: Path, *task_ids: str) -> Path:
    for task_id in task_ids or ("civil/a", "electrical/b"):
        write_least(root / task_id, '[metadata]\ndifficulty = "easy"\n', f"Do {task_id}.")
        (root / task_id / "tests/test.sh").chmod(0o755)
    return root


def manifest_of(root: Path, name: str = "mine", version: str = "1.0.0") -> Manifest:
    tasks = selected_tasks(Selection(), root)
    return Manifest.of(name, version, [entry_of(task, f"tasks/{task.task_id}") for task in tasks])


def message(raised: pytest.ExceptionInfo[UserError]) -> str:
    text = str(raised.value)
    assert "\n" not in text
    assert not text.endswith(".")
    return text


# names and versions


def test_versions_have_the_precedence_that_semver_gives_as_its_examples() -> None:
    ordered = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.9.0",
        "1.10.0",
        "2.0.0",
    ]
    shuffled = sorted(ordered, key=len)
    assert sorted(shuffled, key=precedence) == ordered


@pytest.mark.parametrize("version", ["1.0.0", "0.0.4", "1.0.0-x.7.z.92", "1.2.3+b.1", "1.0.0--a"])
def test_semantic_versions_are_accepted(version: str) -> None:
    assert check_version(version, "--version") == version


@pytest.mark.parametrize(
    "version",
    [
        "",
        "1",
        "1.0",
        "v1.0.0",
        "01.0.0",
        "1.0.0-01",
        "1.0.0-",
        "1.0.0+",
        "1.0.0\n",
        "\u0661.0.0",
        "1.0.0" * 50,
    ],
)
def test_what_is_no_semantic_version_is_refused(version: str) -> None:
    with pytest.raises(SettingsError) as raised:
        check_version(version, "--version")
    assert "is not a semantic version; use one such as '1.0.0'" in message(raised)


@pytest.mark.parametrize(
    "text", ["", "@1.0.0", "../x", "a/b", "a b", ".x", "a@", "a@x", "a@1.0.0@2"]
)
def test_what_names_no_dataset_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_ref(text, "--aec-dataset")
    assert message(raised).startswith("--aec-dataset: ")


# paths


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "./a",
        "a/.",
        "",
        "a\\b",
        "C:/x",
        "c:x",
        "a\x00b",
        "a\nb",
        "a\u202eb",
        "nul",
        "a/CON.txt",
        "a.",
        "a ",
        "x" * 300,
        "x/" * 600 + "x",
        "a\udc80",
    ],
)
def test_a_path_that_is_not_safe_everywhere_is_refused(path: str) -> None:
    assert problem_with(path)


@pytest.mark.parametrize("path", ["task.toml", "a/b.c/d-e_f", "Überlauf/größe.csv", "a b", ".env"])
def test_an_ordinary_path_is_fine(path: str) -> None:
    assert problem_with(path) is None


@pytest.mark.parametrize(
    "paths",
    [
        ["a", "a"],
        ["a", "A"],
        ["a/b", "A/c"],
        ["a", "a/b"],
        ["a/b", "a"],
        ["a/b/c", "A"],
        ["é", "e\u0301"],
        ["straße", "STRASSE"],
        ["x/a/b", "x/a/c", "x/A/d"],
    ],
)
def test_paths_that_some_filesystem_takes_for_the_same_are_refused(paths: list[str]) -> None:
    assert clash(paths)


@given(st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)))
def test_lower_case_paths_clash_exactly_when_one_is_inside_another(paths: set[str]) -> None:
    inside = any(other.startswith(f"{path}/") for path in paths for other in paths)
    assert bool(clash(sorted(paths))) is inside
    assert bool(clash(sorted(paths, reverse=True))) is inside


# manifests


def test_a_manifest_has_the_documented_shape(tmp_path: Path) -> None:
    data = json.loads(manifest_of(make_tasks(tmp_path)).to_json())
    assert list(data) == [
        "name",
        "version",
        "content_hash",
        "created_at",
        "description",
        "tasks",
        "source",
    ]
    assert data["created_at"].endswith("Z")
    assert data["description"] == {
        "summary": "",
        "purpose": "",
        "standards": [],
        "domains": ["civil", "electrical"],
        "difficulty_distribution": {"easy": 2},
        "task_count": 2,
    }
    origin: dict[str, object] = {"method": "manual", "suite_config": {}, "seed": None}
    assert data["source"] == {**origin, "template_versions": {}}
    task = data["tasks"][0]
    assert (task["task_id"], task["task_path"]) == ("civil/a", "tasks/civil/a")
    assert task["content_hash"] == Task.load(tmp_path / "civil/a").digest
    assert list(task["files"]) == ["instruction.md", "task.toml", "tests/test.sh"]
    assert task["programs"] == ["tests/test.sh"]


def test_a_manifest_survives_being_stored_and_read(tmp_path: Path) -> None:
    manifest = manifest_of(make_tasks(tmp_path))
    assert Manifest.from_json(manifest.to_json(), "x") == manifest


def test_the_hash_is_of_the_tasks_and_of_nothing_else(tmp_path: Path) -> None:
    root = make_tasks(tmp_path)
    one, other = manifest_of(root, "a", "1.0.0"), manifest_of(root, "b", "2.0.0")
    assert one.content_hash == other.content_hash
    (root / "civil/a/instruction.md").write_text("Do it otherwise.")
    assert manifest_of(root).content_hash != one.content_hash


def changed(data: Any, key: str, value: Any) -> Any:
    *path, last = key.split("/")
    place = data
    for step in path:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value
    return data


H = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("name", "../x", "name: '../x'"),
        ("version", "1", "version: '1': is not a semantic version"),
        ("content_hash", H, "content_hash is not that of the tasks"),
        ("content_hash", "md5:0", "content_hash: 'md5:0'"),
        ("created_at", "yesterday", "created_at: 'yesterday'"),
        ("created_at", "2026-04-12T00:00:00", "created_at"),
        ("tasks", [], "tasks: "),
        ("tasks", {}, "tasks: "),
        ("tasks/0", 3, "tasks.0: 3"),
        ("tasks/0/task_id", "../../etc", "tasks.0.task_id: '../../etc': leaves its directory"),
        ("tasks/0/task_id", "/etc", "tasks.0.task_id: '/etc': is absolute"),
        ("tasks/0/task_path", "/tasks/civil/a", "tasks.0.task_path: '/tasks/civil/a': is absolute"),
        ("tasks/0/task_path", "tasks/civil/b", "does not end with the task's id"),
        ("tasks/0/task_id", "electrical/b", "tasks.0"),
        ("tasks/0/content_hash", H, "content_hash is not that of the tasks"),
        ("tasks/0/files", {}, "tasks.0.files: "),
        ("tasks/0/files", {"x": H}, "files has no task.toml"),
        ("tasks/0/files", {"task.toml": H, "../x": H}, "leaves its directory"),
        (
            "tasks/0/files",
            {"task.toml": H, "tests/test.sh": H, "A": H, "a": H},
            "cannot be beside each other",
        ),
        ("tasks/0/files", {"task.toml": H, ".git/hooks/x": H}, "is not part of a task"),
        ("tasks/0/files", {"task.toml": "x"}, "tasks.0.files"),
        ("tasks/0/programs", ["nope"], "programs lists files that are not in files"),
        ("tasks/0/visibility", "secret", "tasks.0.visibility: 'secret'"),
        ("description/task_count", 7, "description.task_count is 7, but there are 2"),
        ("source/seed", "x", "source.seed: 'x'"),
    ],
)
def test_a_manifest_that_is_wrong_is_one_line(
    tmp_path: Path, key: str, value: object, said: str
) -> None:
    data = changed(json.loads(manifest_of(make_tasks(tmp_path)).to_json()), key, value)
    with pytest.raises(SettingsError) as raised:
        Manifest.from_json(json.dumps(data).encode(), "here.json")
    assert message(raised).startswith("here.json: ")
    assert said in message(raised)


def test_a_task_inside_another_is_refused(tmp_path: Path) -> None:
    data = json.loads(manifest_of(make_tasks(tmp_path)).to_json())
    changed(data, "tasks/1/task_id", "civil/a/inner")
    changed(data, "tasks/1/task_path", "tasks/civil/a/inner")
    with pytest.raises(SettingsError, match="'civil/a/inner' is inside the task 'civil/a'"):
        Manifest.from_json(json.dumps(data).encode(), "here.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [
    *("name", "version", "content_hash", "created_at", "description", "tasks", "source"),
    *("description/domains", "description/difficulty_distribution", "description/task_count"),
    *("tasks/0", "tasks/0/task_id", "tasks/0/task_path", "tasks/0/files", "tasks/0/programs"),
    *("tasks/1/tags", "tasks/1/difficulty", "tasks/1/domain", "source/suite_config"),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return manifest_of(make_tasks(tmp_path_factory.mktemp("tasks"))).to_json()


def refusal(data: bytes) -> str:
    """Return why the bytes are no manifest, or nothing if they are one."""
    try:
        Manifest.from_json(data, "here.json")
    except SettingsError as error:
        return str(error)
    return ""


@given(st.lists(st.tuples(st.sampled_from(KEYS), JSON), min_size=1, max_size=3))
def test_whatever_a_manifest_holds_it_is_read_or_refused_in_one_line(
    stored: bytes, changes: list[tuple[str, Any]]
) -> None:
    data = json.loads(stored)
    for key, value in changes:
        try:
            changed(data, key, value)
        except (TypeError, KeyError, IndexError, ValueError):
            continue  # an earlier change took the place away
    said = refusal(json.dumps(data).encode("utf-8", "surrogatepass"))
    assert len(said.splitlines()) <= 1
    assert len(said) < 1000


@given(st.data())
def test_damaged_bytes_are_read_or_refused_in_one_line(stored: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(stored)))
    end = data.draw(st.integers(start, min(len(stored), start + 50)))
    damaged = stored[:start] + data.draw(st.binary(max_size=20)) + stored[end:]
    assert len(refusal(damaged).splitlines()) <= 1


# the store


@pytest.fixture
def datasets(tmp_path: Path) -> Datasets:
    return Datasets(tmp_path / "artefacts/datasets")


def test_a_dataset_is_one_file_named_after_name_and_version(
    tmp_path: Path, datasets: Datasets
) -> None:
    manifest = manifest_of(make_tasks(tmp_path / "tasks"))
    path = datasets.add(manifest)
    assert path == datasets.root / "mine/1.0.0/manifest.json"
    assert path.read_bytes() == manifest.to_json()
    assert sorted(p.name for p in (datasets.root / "mine").iterdir()) == ["1.0.0"]
    assert datasets.load(DatasetRef("mine", "1.0.0")) == manifest


def test_a_dataset_is_never_replaced(tmp_path: Path, datasets: Datasets) -> None:
    root = make_tasks(tmp_path / "tasks")
    before = datasets.add(manifest_of(root)).read_bytes()
    (root / "civil/a/instruction.md").write_text("Do it otherwise.")
    with pytest.raises(SettingsError) as raised:
        datasets.add(manifest_of(root))
    assert message(raised) == "mine@1.0.0: exists already and never changes; use another version"
    assert (datasets.root / "mine/1.0.0/manifest.json").read_bytes() == before
    assert sorted(p.name for p in (datasets.root / "mine").iterdir()) == ["1.0.0"]


def test_of_many_writers_of_one_version_exactly_one_succeeds(
    tmp_path: Path, datasets: Datasets
) -> None:
    manifest = manifest_of(make_tasks(tmp_path / "tasks"))
    start, kept, refused = threading.Barrier(6), [], []

    def write() -> None:
        start.wait()
        try:
            kept.append(datasets.add(manifest))
        except SettingsError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(kept), len(refused)) == (1, 5)
    assert all("never changes" in line for line in refused)


def test_a_bare_name_means_the_highest_version(tmp_path: Path, datasets: Datasets) -> None:
    root = make_tasks(tmp_path / "tasks")
    for version in ("1.9.0", "1.10.0", "1.10.0-rc.1", "1.2.0"):
        datasets.add(manifest_of(root, version=version))
    assert datasets.find("mine", "x") == DatasetRef("mine", "1.10.0")
    assert datasets.find("mine@1.2.0", "x") == DatasetRef("mine", "1.2.0")
    assert [ref.version for ref in datasets.refs()] == ["1.2.0", "1.9.0", "1.10.0-rc.1", "1.10.0"]


def test_an_unknown_dataset_is_one_line_with_those_that_there_are(
    tmp_path: Path, datasets: Datasets
) -> None:
    with pytest.raises(SettingsError) as raised:
        datasets.find("nope", "--aec-dataset")
    assert message(raised).endswith("; make one with 'aec-bench dataset create'")
    root = make_tasks(tmp_path / "tasks")
    datasets.add(manifest_of(root, "one"))
    datasets.add(manifest_of(root, "two"))
    with pytest.raises(SettingsError) as raised:
        datasets.find("nope", "--aec-dataset")
    assert message(raised) == (
        f"--aec-dataset: dataset 'nope' not found in {datasets.root}; "
        "there are one@1.0.0, two@1.0.0"
    )
    with pytest.raises(SettingsError) as raised:
        datasets.find("one@2.0.0", "--aec-dataset")
    assert message(raised).endswith("; there are one@1.0.0")


def place(datasets: Datasets, kind: str) -> Path:
    path = datasets.root / "mine/1.0.0/manifest.json"
    path.parent.mkdir(parents=True)
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(50 << 20)
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 10)
    elif kind == "empty":
        path.touch()
    return path


@pytest.mark.parametrize("kind", ["directory", "fifo", "huge", "binary", "empty", "missing"])
def test_what_is_no_manifest_file_is_refused_in_one_line(datasets: Datasets, kind: str) -> None:
    path = place(datasets, kind)
    with pytest.raises(SettingsError) as raised:
        datasets.load(DatasetRef("mine", "1.0.0"))
    assert message(raised).startswith(f"{path}: ")
    assert MAX_MANIFEST_BYTES < 50 << 20


def test_a_manifest_in_anothers_place_is_refused(tmp_path: Path, datasets: Datasets) -> None:
    path = datasets.add(manifest_of(make_tasks(tmp_path / "tasks")))
    path.parent.rename(path.parent.with_name("2.0.0"))
    with pytest.raises(SettingsError, match=r"belongs to mine@1\.0\.0; move it to mine@1\.0\.0"):
        datasets.load(DatasetRef("mine", "2.0.0"))


# tasks


def test_tasks_are_selected_by_pattern_domain_difficulty_and_lifecycle(tmp_path: Path) -> None:
    root = make_tasks(tmp_path, "civil/a", "civil/b", "electrical/c")
    write_least(root / "water/d", '[metadata]\ndifficulty = "hard"\nlifecycle = "retired"\n')

    def ids(**conditions: tuple[str, ...]) -> list[str]:
        return [task.task_id for task in selected_tasks(Selection(**conditions), root)]

    assert ids() == ["civil/a", "civil/b", "electrical/c", "water/d"]
    assert ids(include_patterns=("civil/*", "*/c")) == ["civil/a", "civil/b", "electrical/c"]
    assert ids(include_patterns=("civil/*",), exclude_patterns=("*/b",)) == ["civil/a"]
    assert ids(domains=("electrical", "water")) == ["electrical/c", "water/d"]
    assert ids(difficulties=("hard",)) == ["water/d"]
    assert ids(lifecycle=("active",), domains=("water",)) == []


def test_a_broken_task_is_an_error_unless_patterns_leave_it_out(tmp_path: Path) -> None:
    root = make_tasks(tmp_path)
    write_least(root / "water/bad", "[metadata]\ndifficulty = 3\n")
    with pytest.raises(TaskError, match="difficulty"):
        list(selected_tasks(Selection(), root))
    assert len(list(selected_tasks(Selection(exclude_patterns=("water/*",)), root))) == 2


def test_a_task_with_a_link_or_an_unsafe_name_cannot_be_in_a_dataset(tmp_path: Path) -> None:
    root = make_tasks(tmp_path)
    (root / "civil/a/passwd").symlink_to("/etc/passwd")
    with pytest.raises(TaskError) as raised:
        manifest_of(root)
    assert "civil/a: 'passwd' is not a regular file; replace it with a copy" in message(raised)
    (root / "civil/a/passwd").unlink()
    write_tree(root / "civil/a", {"a\\b": "x"})
    with pytest.raises(TaskError, match="rename it"):
        manifest_of(root)


def test_drift_is_named_by_file(tmp_path: Path) -> None:
    root = make_tasks(tmp_path, "civil/a", "civil/b", "civil/c", "civil/d")
    manifest = manifest_of(root)
    assert drift(manifest, root) == []
    (root / "civil/a/instruction.md").write_text("Otherwise.")
    write_tree(root / "civil/a", {"notes.md": "new", "__pycache__/x.pyc": "never counts"})
    (root / "civil/b/tests/test.sh").chmod(0o644)
    (root / "civil/c").rename(root / "civil/moved")
    assert list(map(str, drift(manifest, root))) == [
        "civil/a: instruction.md changed, notes.md added",
        "civil/b: tests/test.sh changed",
        "civil/c: missing",
    ]
    after = manifest_of(root, version="1.1.0")
    assert [(change.task_id, change.how) for change in differences(manifest, after)] == [
        ("civil/a", "changed"),
        ("civil/b", "changed"),
        ("civil/c", "removed"),
        ("civil/moved", "added"),
    ]
    assert differences(manifest, manifest) == []
