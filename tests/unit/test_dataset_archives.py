"""Archives of datasets: the same bytes for the same content, and nothing taken on trust."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench import verify
from pytest_aecbench.datasets import archive as archives
from pytest_aecbench.datasets.archive import write_archive
from pytest_aecbench.datasets.drift import drift
from pytest_aecbench.datasets.importer import import_dataset
from pytest_aecbench.datasets.store import Datasets
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.digest import task_digest
from tests.tasks import write_tree
from tests.unit.test_datasets import make_tasks, manifest_of

Member = tuple[tarfile.TarInfo, bytes]


class Site:
    """A project that archives come from or go to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tasks = path / "tasks"
        self.datasets = Datasets(path / "artefacts/datasets")

    def take_in(self, archive: Path) -> list[str]:
        return list(import_dataset(archive, self.datasets, self.tasks).new_tasks)

    def tree(self) -> dict[str, bytes]:
        """Return all files, and directories as nothing."""
        return {
            path.relative_to(self.path).as_posix(): path.read_bytes() if path.is_file() else b""
            for path in sorted(self.path.rglob("*"))
        }

    def refuses(self, archive: Path) -> str:
        """Return why the archive is refused, which changes nothing."""
        before = self.tree()
        with pytest.raises(SettingsError) as raised:
            self.take_in(archive)
        assert self.tree() == before
        text = str(raised.value)
        assert len(text.splitlines()) == 1
        return text


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "site").mkdir()
    return Site(tmp_path / "site")


def export(root: Path, target: Path, version: str = "1.0.0") -> Path:
    manifest = manifest_of(root, version=version)
    write_archive(manifest, manifest.to_json(), root, target)
    return target


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return export(make_tasks(tmp_path / "origin"), tmp_path / "mine.tar.gz")


def members(archive: Path) -> list[Member]:
    with tarfile.open(archive) as tar:
        return [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]


def rewrite(archive: Path, content: list[Member]) -> Path:
    target = archive.with_name("rewritten.tar.gz")
    with tarfile.open(target, "w:gz") as tar:
        for member, data in content:
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return target


def member(name: str, data: bytes = b"", **more: object) -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def test_an_archive_carries_a_dataset_to_another_project(archive: Path, site: Site) -> None:
    assert site.take_in(archive) == ["civil/a", "electrical/b"]
    (ref,) = site.datasets.refs()
    manifest = site.datasets.load(ref)
    assert str(ref) == "mine@1.0.0"
    assert drift(manifest, site.tasks) == []
    assert os.access(site.tasks / "civil/a/tests/test.sh", os.X_OK)
    assert not os.access(site.tasks / "civil/a/task.toml", os.X_OK)
    assert sorted(path.name for path in site.tasks.iterdir()) == ["civil", "electrical"]


def make_helped_task(root: Path, **files: bytes) -> Path:
    """Make a task whose verifier imports the module that the package supplies."""
    make_tasks(root, "civil/a")
    write_tree(root / "civil/a/tests", {"verify.py": b"import aec_verify\n", **files})
    return root


def test_an_archive_has_the_file_that_the_package_supplies(tmp_path: Path, site: Site) -> None:
    root = make_helped_task(tmp_path / "origin")
    archive = export(root, tmp_path / "mine.tar.gz")
    names = [info.name for info, _ in members(archive)]
    assert "tasks/civil/a/tests/aec_verify.py" in names
    assert site.take_in(archive) == ["civil/a"]
    copy = site.tasks / "civil/a/tests/aec_verify.py"
    assert copy.read_bytes() == Path(verify.__file__).read_bytes()
    assert not (root / "civil/a/tests/aec_verify.py").exists()
    assert task_digest(site.tasks / "civil/a") == task_digest(root / "civil/a")


def test_a_task_with_a_copy_and_one_without_make_the_same_archive(tmp_path: Path) -> None:
    manifest = manifest_of(make_helped_task(tmp_path / "without"))
    copy = {"aec_verify.py": Path(verify.__file__).read_bytes()}
    make_helped_task(tmp_path / "with", **copy)
    for name in ("with", "without"):
        write_archive(manifest, manifest.to_json(), tmp_path / name, tmp_path / f"{name}.tar.gz")
    archives = {(tmp_path / f"{name}.tar.gz").read_bytes() for name in ("with", "without")}
    assert len(archives) == 1


def test_a_task_graded_by_another_version_of_the_file_is_not_the_datasets(
    tmp_path: Path, site: Site
) -> None:
    older = make_helped_task(tmp_path / "older", **{"aec_verify.py": b"# older\n"})
    archive = export(older, tmp_path / "mine.tar.gz")
    make_helped_task(site.tasks)
    assert "civil/a: civil/a: tests/aec_verify.py changed; " in site.refuses(archive)
    (site.tasks / "civil/a").rename(tmp_path / "away")
    site.take_in(archive)
    assert (site.tasks / "civil/a/tests/aec_verify.py").read_bytes() == b"# older\n"


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    root = make_tasks(tmp_path / "one")
    manifest = manifest_of(root)
    first, second = tmp_path / "1.tar.gz", tmp_path / "deeper" / "2.tar.gz"
    second.parent.mkdir()
    write_archive(manifest, manifest.to_json(), root, first)
    copy = make_tasks(tmp_path / "two")
    for path in sorted(copy.rglob("*"), reverse=True):
        os.utime(path, (1, 1))
        path.chmod(path.stat().st_mode & 0o700)
    write_archive(manifest, manifest.to_json(), copy, second)
    assert first.read_bytes() == second.read_bytes()
    for info, _ in members(first):
        assert (info.uid, info.gid, info.uname, info.gname, info.mtime) == (0, 0, "", "", 0)
        assert info.mode in (0o644, 0o755)


def test_an_imported_dataset_exports_to_the_archive_it_came_from(
    archive: Path, site: Site, tmp_path: Path
) -> None:
    site.take_in(archive)
    (ref,) = site.datasets.refs()
    again = tmp_path / "again.tar.gz"
    write_archive(site.datasets.load(ref), site.datasets.read(ref), site.tasks, again)
    assert again.read_bytes() == archive.read_bytes()


def test_tasks_that_drifted_are_not_exported(tmp_path: Path) -> None:
    root = make_tasks(tmp_path / "tasks")
    manifest = manifest_of(root)
    (root / "civil/a/instruction.md").write_text("Otherwise.")
    with pytest.raises(SettingsError, match=r"mine@1\.0\.0: civil/a: instruction.md changed"):
        write_archive(manifest, manifest.to_json(), root, tmp_path / "x.tar.gz")
    assert not list(tmp_path.glob("*x.tar.gz*"))


def test_importing_twice_changes_nothing(archive: Path, site: Site) -> None:
    site.take_in(archive)
    before = site.tree()
    assert site.take_in(archive) == []
    assert site.tree() == before


def test_tasks_that_are_there_and_equal_are_left_alone(archive: Path, site: Site) -> None:
    make_tasks(site.tasks, "civil/a")
    inode = (site.tasks / "civil/a/task.toml").stat().st_ino
    assert site.take_in(archive) == ["electrical/b"]
    assert (site.tasks / "civil/a/task.toml").stat().st_ino == inode


def test_a_task_that_differs_is_never_overwritten(archive: Path, site: Site) -> None:
    make_tasks(site.tasks, "electrical/b")
    (site.tasks / "electrical/b/instruction.md").write_text("Mine.")
    said = site.refuses(archive)
    assert "electrical/b: instruction.md changed; move it away" in said


def test_a_version_that_differs_is_never_overwritten(
    archive: Path, site: Site, tmp_path: Path
) -> None:
    site.take_in(archive)
    other = export(make_tasks(tmp_path / "other", "civil/z"), tmp_path / "other.tar.gz")
    assert "mine@1.0.0: exists already and differs" in site.refuses(other)


@pytest.mark.parametrize("obstacle", ["file", "link", "task", "directory"])
def test_what_is_in_the_way_is_left_alone(
    archive: Path, site: Site, tmp_path: Path, obstacle: str
) -> None:
    site.tasks.mkdir()
    (tmp_path / "elsewhere").mkdir()
    if obstacle == "file":
        (site.tasks / "civil").write_text("")
    elif obstacle == "link":
        (site.tasks / "civil").symlink_to(tmp_path / "elsewhere")
    elif obstacle == "task":
        make_tasks(site.path, "tasks/civil")
    else:
        write_tree(site.tasks, {"civil/a/notes.md": "mine"})
    said = site.refuses(archive)
    assert said.startswith(f"{site.tasks}/civil")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def insert(name: str, **more: object) -> Callable[[list[Member]], None]:
    return lambda content: content.insert(2, member(name, b"", **more))


def replace_content(content: list[Member]) -> None:
    info, data = content[2]
    content[2] = (info, b"x" * len(data))


def change_mode(content: list[Member]) -> None:
    content[1][0].mode = 0o755


def rename(name: str) -> Callable[[list[Member]], None]:
    def change(content: list[Member]) -> None:
        content[1][0].name = name

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (insert("/etc/cron.d/x"), "'/etc/cron.d/x' is absolute"),
        (insert("../../x"), "'../../x' leaves its directory"),
        (insert("tasks/../x"), "'tasks/../x' leaves its directory"),
        (
            insert("tasks/civil/a/x"),
            "it has 'tasks/civil/a/x' in place of 'tasks/civil/a/task.toml'",
        ),
        (insert("tasks/civil/A/task.toml"), "it has 'tasks/civil/A/task.toml' in place of"),
        (
            insert("tasks/s", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
            "'tasks/s' is not a regular file",
        ),
        (
            insert("tasks/h", type=tarfile.LNKTYPE, linkname="manifest.json"),
            "'tasks/h' is not a regular file",
        ),
        (insert("tasks/c", type=tarfile.CHRTYPE), "'tasks/c' is not a regular file"),
        (insert("tasks/p", type=tarfile.FIFOTYPE), "'tasks/p' is not a regular file"),
        (insert("tasks/d", type=tarfile.DIRTYPE), "'tasks/d' is not a regular file"),
        (lambda content: content.insert(2, content[1]), "it has 'tasks/civil/a/instruction.md'"),
        (lambda content: content.append(member("tasks/x", b"")), "in place of the end"),
        (lambda content: content.reverse(), "in place of 'manifest.json'"),
        (lambda content: content.pop(), "it ends before 'tasks/electrical/b/tests/test.sh'"),
        (lambda content: content.clear(), "it ends before 'manifest.json'"),
        (replace_content, "'tasks/civil/a/task.toml' differs from the manifest"),
        (change_mode, "the task 'civil/a' differs from the manifest"),
        (rename("tasks/civil/a/Instruction.md"), "in place of 'tasks/civil/a/instruction.md'"),
    ],
)
def test_an_archive_that_is_not_what_export_writes_is_refused(
    archive: Path, site: Site, change: Callable[[list[Member]], None], said: str
) -> None:
    content = members(archive)
    change(content)
    assert said in site.refuses(rewrite(archive, content))


def test_a_manifest_that_lies_about_its_task_is_refused(archive: Path, site: Site) -> None:
    content = members(archive)
    data = json.loads(content[0][1])
    data["tasks"][0]["visibility"] = "holdout"
    content[0] = member("manifest.json", json.dumps(data).encode())
    said = site.refuses(rewrite(archive, content))
    assert "civil/a: differs from manifest.json" in said


def test_right_hashes_do_not_make_a_task(tmp_path: Path, site: Site) -> None:
    root = make_tasks(tmp_path / "origin", "civil/a")
    manifest = json.loads(manifest_of(root).to_json())
    bad = b"[metadata]\ndifficulty = 3\n"
    (root / "civil/a/task.toml").write_bytes(bad)
    (task,) = manifest["tasks"]
    task["files"]["task.toml"] = f"sha256:{hashlib.sha256(bad).hexdigest()}"
    task["content_hash"] = task_digest(root / "civil/a")
    framed = b"".join(
        len(part).to_bytes(8, "big") + part for part in (b"civil/a", task["content_hash"].encode())
    )
    manifest["content_hash"] = f"sha256:{hashlib.sha256(framed).hexdigest()}"
    content = [member("manifest.json", json.dumps(manifest).encode())]
    for name in sorted(task["files"]):
        mode = 0o755 if name in task["programs"] else 0o644
        content.append(
            member(f"tasks/civil/a/{name}", (root / "civil/a" / name).read_bytes(), mode=mode)
        )
    said = site.refuses(rewrite(tmp_path / "x", content))
    assert "civil/a/task.toml: metadata.difficulty: 3 is not valid" in said
    assert ".import-" not in said


@pytest.mark.parametrize("kind", ["directory", "fifo", "missing", "empty", "text", "binary"])
def test_what_is_no_archive_is_refused(tmp_path: Path, site: Site, kind: str) -> None:
    path = tmp_path / "thing"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes({"empty": b"", "text": b"hello", "binary": bytes(range(256))}[kind])
    assert site.refuses(path).startswith(f"{path}: ")


def bomb(kind: str) -> Iterator[bytes]:
    """Yield an archive that unpacks to far more than it should."""
    zeros = bytes(1 << 20)
    info = tarfile.TarInfo("manifest.json")
    if kind == "zeros":
        yield b"\x00"
    elif kind == "manifest":
        info.size = 1 << 32
        yield info.tobuf(tarfile.GNU_FORMAT)
    elif kind == "long name":
        info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
        yield info.tobuf(tarfile.GNU_FORMAT)
    elif kind == "pax header":
        info.type, info.size = tarfile.XHDTYPE, 1 << 32
        yield info.tobuf(tarfile.GNU_FORMAT)
    for _ in range(128):
        yield zeros


@pytest.mark.parametrize("kind", ["zeros", "manifest", "long name", "pax header"])
def test_a_bomb_is_refused_before_it_fills_the_memory(
    tmp_path: Path, site: Site, kind: str
) -> None:
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for chunk in bomb(kind):
            file.write(chunk)
    tracemalloc.start()
    try:
        site.refuses(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_more_than_an_archive_may_hold_is_refused(
    archive: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 20)
    assert "its files are more than" in site.refuses(archive)


def test_a_manifest_of_50_mb_is_refused(archive: Path, site: Site) -> None:
    content = members(archive)
    content[0] = member("manifest.json", content[0][1] + b" " * (50 << 20))
    assert "its manifest.json is more than 32 MiB" in site.refuses(rewrite(archive, content))


def test_every_truncated_archive_is_refused(archive: Path, site: Site, tmp_path: Path) -> None:
    data = archive.read_bytes()
    cut = tmp_path / "cut.tar.gz"
    for length in (*range(0, len(data) - 8, 37), *range(len(data) - 8, len(data))):
        cut.write_bytes(data[:length])
        site.refuses(cut)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("exported")
    return export(make_tasks(base / "tasks"), base / "mine.tar.gz")


@given(data=st.data(), inside=st.booleans())
def test_a_damaged_archive_is_refused_in_one_line_or_harmlessly_damaged(
    tmp_path_factory: pytest.TempPathFactory, exported: Path, data: st.DataObject, inside: bool
) -> None:
    base = tmp_path_factory.mktemp("damaged")
    whole = exported.read_bytes()
    content = gzip.decompress(whole) if inside else whole
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 600)))
    damaged = content[:start] + data.draw(st.binary(max_size=40)) + content[end:]
    path = base / "x.tar.gz"
    path.write_bytes(gzip.compress(damaged, 1) if inside else damaged)
    site = Site(base / "site")
    said = ""
    try:
        site.take_in(path)
    except SettingsError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1
    if said:
        assert not site.path.exists()
    else:  # what was damaged is nothing that counts, such as padding
        (ref,) = site.datasets.refs()
        assert drift(site.datasets.load(ref), site.tasks) == []


def test_an_import_that_cannot_be_finished_leaves_nothing(archive: Path, site: Site) -> None:
    write_tree(site.tasks, {"notes.md": "mine"})
    # A file where the manifest's directory should be: the very last step fails.
    write_tree(site.path, {"artefacts/datasets/mine": "in the way"})
    assert "cannot be written" in site.refuses(archive)
