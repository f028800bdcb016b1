from __future__ import annotations

import errno
import gc
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, get_args

import pytest
from pydantic import BaseModel

from pytest_aecbench.errors import LedgerError, SettingsError
from pytest_aecbench.ledger.record import TrialRecord
from pytest_aecbench.ledger.store import (
    Ledger,
    LedgerProblem,
    check_experiment_id,
    remove_half_written,
)
from tests.unit.test_record import a_record, scored

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).parents[2] / "docs" / "ledger.md"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "artefacts" / "ledger")


@pytest.fixture
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> NoReturn:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), source, None, target)

    monkeypatch.setattr(os, "link", link)


def files(directory: Path) -> list[str]:
    return sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())


def run_python(script: str, *arguments: object, within: tuple[str, ...] = ()) -> str:
    """Run code in a process of its own and return what it prints."""
    command = [*within, sys.executable, "-c", script, *map(str, arguments)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout


def run_python_in_tmpfs(options: str, script: str, directory: Path) -> str:
    """Run code while ``directory`` is a filesystem of its own, and return what it prints."""
    unshare = ("unshare", "--user", "--map-root-user", "--mount")
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("needs unshare and user namespaces")
    mount = f'mount -t tmpfs -o {options} none "{directory}" && exec "$@"'
    return run_python(script, directory, within=(*unshare, "sh", "-c", mount, "sh"))


def test_a_record_is_one_file_named_after_experiment_and_trial(ledger: Ledger) -> None:
    record = a_record()
    path = ledger.append(record)
    assert path == ledger.root / "exp-1" / f"{record.trial_id}.json"
    assert path.read_bytes() == record.to_json()
    assert files(ledger.root) == [f"exp-1/{record.trial_id}.json"]


def test_a_record_is_on_disk_before_it_has_its_name_and_the_name_before_append_returns(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.check_writable("exp-1")
    directory = (ledger.root / "exp-1").stat().st_ino
    events: list[str] = []
    fsync, link = os.fsync, os.link
    record = a_record()

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        if os.fstat(descriptor).st_ino == directory:
            events.append("names")
        else:
            events.append(f"{os.fstat(descriptor).st_size} bytes")

    def watched_link(source: Path, target: Path) -> None:
        link(source, target)
        events.append(target.name)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    path = ledger.append(record)
    assert events == [f"{len(record.to_json())} bytes", path.name, "names"]


def test_new_directories_are_on_disk_before_append_returns(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    fsync = os.fsync

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    path = ledger.append(a_record())
    assert {directory.stat().st_ino for directory in path.parents[:4]} <= synced


@pytest.mark.parametrize(
    ("number", "kept"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)]
)
def test_names_that_a_filesystem_cannot_sync_are_kept_but_a_broken_disk_is_an_error(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, number: int, kept: bool
) -> None:
    ledger.check_writable("exp-1")
    fsync = os.fsync

    def failing_fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing_fsync)
    with nullcontext() if kept else pytest.raises(LedgerError, match="Input/output error"):
        ledger.append(a_record())


def test_a_disk_that_breaks_before_a_record_has_its_name_keeps_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: Path, target: Path) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO), source, None, target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(LedgerError, match="cannot be written, Input/output error; "):
        ledger.append(a_record())
    assert files(ledger.root) == []


def test_appending_leaves_no_file_open(ledger: Ledger) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    ledger.append(a_record())
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_an_experiment_is_kept_once_and_beside_what_it_was_where_it_changed(
    ledger: Ledger,
) -> None:
    first = ledger.keep_experiment("exp-1", b"# today\nagents: [a]\n")
    assert first == ledger.root / "exp-1" / "experiment.yaml"
    assert ledger.keep_experiment("exp-1", b"# tomorrow\nagents: [a]\n") == first
    second = ledger.keep_experiment("exp-1", b"agents: [b]\n")
    assert second == ledger.root / "exp-1" / "experiment-2.yaml"
    third = ledger.keep_experiment("exp-1", b"agents: [c]\n")
    assert third == ledger.root / "exp-1" / "experiment-3.yaml"
    assert ledger.keep_experiment("exp-1", b"agents: [b]\n") == second
    contents = [path.read_bytes() for path in (first, second, third)]
    assert contents == [b"# today\nagents: [a]\n", b"agents: [b]\n", b"agents: [c]\n"]
    assert len(files(ledger.root)) == 3


def test_what_an_experiment_is_is_on_disk_before_it_is_run(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.check_writable("exp-1")
    synced: list[int] = []
    fsync = os.fsync

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    path = ledger.keep_experiment("exp-1", b"agents: [a]\n")
    assert synced == [path.stat().st_ino, path.parent.stat().st_ino]


def test_the_names_of_new_directories_and_of_an_experiment_outlive_a_power_cut(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            synced.append((path.name, sorted(child.name for child in path.iterdir())))

    monkeypatch.setattr(os, "fsync", watched)
    ledger.keep_experiment("exp-1", b"agents: []")
    assert ("artefacts", ["ledger"]) in synced
    assert ("ledger", ["exp-1"]) in synced
    assert synced[-1] == ("exp-1", ["experiment.yaml"])


def test_records_are_readable_by_whom_the_umask_lets(ledger: Ledger) -> None:
    before = os.umask(0o027)
    try:
        path = ledger.append(a_record())
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_record_is_never_replaced(ledger: Ledger) -> None:
    record = a_record()
    path = ledger.append(record)
    other = record.model_copy(update={"evaluation": scored(1.0)})
    with pytest.raises(LedgerError) as raised:
        ledger.append(other)
    assert str(raised.value) == f"{path}: exists already; records are never replaced"
    assert path.read_bytes() == record.to_json()
    assert len(files(ledger.root)) == 1


@pytest.mark.usefixtures("no_hard_links")
def test_without_hard_links_records_are_kept_and_never_replaced_all_the_same(
    ledger: Ledger,
) -> None:
    record = a_record()
    path = ledger.append(record)
    with pytest.raises(LedgerError, match="exists already; records are never replaced"):
        ledger.append(record.model_copy(update={"evaluation": scored(1.0)}))
    assert path.read_bytes() == record.to_json()
    assert files(ledger.root) == [f"exp-1/{record.trial_id}.json"]


@pytest.mark.usefixtures("no_hard_links")
def test_without_hard_links_one_of_two_writers_is_refused(ledger: Ledger) -> None:
    record = a_record()
    ledger.check_writable("exp-1")
    claim = ledger.root / "exp-1" / f".{record.trial_id}.claim"
    claim.touch()
    with pytest.raises(LedgerError) as raised:
        ledger.append(record)
    assert str(raised.value) == (
        f"{claim}: another process is writing this record; remove the file if none is"
    )
    assert ledger.load().records == []
    claim.unlink()
    ledger.append(record)


def test_of_many_writers_of_one_record_exactly_one_succeeds(ledger: Ledger) -> None:
    record = a_record()
    start = threading.Barrier(8)
    kept: list[Path] = []
    refused: list[LedgerError] = []

    def write() -> None:
        start.wait()
        try:
            kept.append(ledger.append(record))
        except LedgerError as error:
            refused.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(kept), len(refused)) == (1, 7)
    assert ledger.load().records == [record]


@pytest.mark.parametrize("experiments", [1, 3])
def test_runs_that_start_at_once_agree_on_the_files_of_their_experiments(
    ledger: Ledger, experiments: int
) -> None:
    start = threading.Barrier(6)

    def keep(number: int) -> Path:
        start.wait()
        return ledger.keep_experiment("exp-1", b"agents: [%d]\n" % (number % experiments))

    with ThreadPoolExecutor(6) as pool:
        kept = list(pool.map(keep, range(6)))
    assert len(set(kept)) == experiments
    for number, path in enumerate(kept):
        assert path.read_bytes() == b"agents: [%d]\n" % (number % experiments)


def test_what_was_appended_is_loaded_in_the_order_of_names(ledger: Ledger) -> None:
    records = [a_record(experiment_id=f"exp-{n % 3}") for n in range(9)]
    for record in records:
        ledger.append(record)
    loaded = ledger.load()
    assert loaded.problems == []
    assert loaded.records == sorted(records, key=lambda r: (r.experiment_id, r.trial_id))
    assert list(ledger.records()) == loaded.records
    assert list(ledger.records("exp-1")) == ledger.load("exp-1").records
    assert {r.experiment_id for r in ledger.records("exp-1")} == {"exp-1"}


def test_experiments_are_the_directories_that_can_be_one(ledger: Ledger) -> None:
    assert ledger.experiments() == []
    for name in ("exp-b", "exp-a"):
        ledger.append(a_record(experiment_id=name))
    (ledger.root / ".git").mkdir()
    (ledger.root / "README").write_text("mine")
    assert ledger.experiments() == ["exp-a", "exp-b"]


def test_a_ledger_or_experiment_that_is_not_there_has_no_records(ledger: Ledger) -> None:
    assert ledger.load().records == []
    ledger.append(a_record())
    assert ledger.load("exp-2").records == []
    assert list(ledger.records("exp-2")) == []


def test_an_experiment_has_trials_if_it_has_a_record_or_a_note_of_one(ledger: Ledger) -> None:
    assert not ledger.has_trials("exp-1")
    ledger.keep_experiment("exp-1", b"agents: [a]\n")
    assert not ledger.has_trials("exp-1")
    note = ledger.root / "exp-1" / ".x.running"
    note.touch()
    assert ledger.has_trials("exp-1")
    note.unlink()
    ledger.append(a_record())
    assert ledger.has_trials("exp-1")
    assert not ledger.has_trials("exp-2")


def test_bad_files_are_reported_and_passed_over(ledger: Ledger) -> None:
    record = a_record()
    path = ledger.append(record)
    whole = path.read_bytes()
    directory = path.parent
    (directory / "a-half.json").write_bytes(whole[: len(whole) // 2])
    (directory / "b-empty.json").touch()
    (directory / "c-newer.json").write_text('{"schema_version": 9}')
    (directory / "d-directory.json").mkdir()
    os.mkfifo(directory / "e-fifo.json")
    (directory / "f-dangling.json").symlink_to("nowhere")
    (directory / "g-copy.json").write_bytes(whole)
    (directory / ".h-temporary.json").write_bytes(whole)
    (directory / "i-notes.txt").write_text("hello")
    (directory / "j-huge.json").touch()
    os.truncate(directory / "j-huge.json", (64 << 20) + 1)

    loaded = ledger.load()

    assert loaded.records == [record]
    reasons = {problem.path.name: problem.reason for problem in loaded.problems}
    assert sorted(reasons) == [
        "a-half.json",
        "b-empty.json",
        "c-newer.json",
        "d-directory.json",
        "e-fifo.json",
        "f-dangling.json",
        "g-copy.json",
        "j-huge.json",
    ]
    assert reasons["a-half.json"].startswith("Invalid JSON: EOF while parsing")
    assert reasons["c-newer.json"].startswith("schema_version: 9 is not known here")
    assert reasons["d-directory.json"] == "cannot be read, not a regular file"
    assert reasons["e-fifo.json"] == "cannot be read, not a regular file"
    assert reasons["f-dangling.json"] == "cannot be read, No such file or directory"
    assert reasons["g-copy.json"] == f"holds exp-1/{record.trial_id}.json"
    assert reasons["j-huge.json"] == "cannot be read, more than 64 MiB"
    assert list(ledger.records()) == [record]


def test_a_problem_reads_as_path_and_reason(tmp_path: Path) -> None:
    assert str(LedgerProblem(tmp_path / "x.json", "is empty")) == f"{tmp_path}/x.json: is empty"


def test_a_record_moved_to_another_experiment_is_not_counted_there(ledger: Ledger) -> None:
    path = ledger.append(a_record())
    (ledger.root / "exp-2").mkdir()
    path.rename(ledger.root / "exp-2" / path.name)
    loaded = ledger.load()
    assert loaded.records == []
    assert [problem.reason for problem in loaded.problems] == [f"holds exp-1/{path.name}"]


def test_reading_does_not_leave_the_ledger(ledger: Ledger) -> None:
    with pytest.raises(SettingsError, match=r"^experiment: '\.\./x' cannot name an experiment"):
        ledger.load("../x")


@pytest.mark.parametrize("value", ["a", "exp-20260412-001", "A.b_c-9", "x" * 128])
def test_an_experiment_id_is_returned_as_it_is(value: str) -> None:
    assert check_experiment_id(value, "--aec-experiment-id") == value


@pytest.mark.parametrize("value", ["", ".", "..", ".x", "-x", "a b", "a/b", "a\n", "é", "x" * 129])
def test_an_experiment_id_that_is_no_safe_directory_name_is_refused(value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        check_experiment_id(value, "--aec-experiment-id")
    assert str(raised.value) == (
        f"--aec-experiment-id: {value!r} cannot name an experiment; use 1 to 128 of the "
        "characters A-Z a-z 0-9 . _ - and start with a letter or digit"
    )


def test_checking_that_the_ledger_is_writable_leaves_no_file(ledger: Ledger) -> None:
    ledger.check_writable()
    ledger.check_writable("exp-1")
    assert files(ledger.root) == []


@pytest.mark.parametrize("blocked", ["artefacts", "artefacts/ledger", "artefacts/ledger/exp-1"])
def test_a_file_in_place_of_a_directory_is_named_in_one_line(
    ledger: Ledger, tmp_path: Path, blocked: str
) -> None:
    file = tmp_path / blocked
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    for attempt in (lambda: ledger.append(a_record()), lambda: ledger.check_writable("exp-1")):
        with pytest.raises(LedgerError) as raised:
            attempt()
        assert str(raised.value) == f"{file}: is not a directory; the ledger needs one there"
    assert file.read_text() == "mine"


def test_a_file_in_place_of_the_ledger_is_an_error_for_readers_too(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("mine")
    with pytest.raises(LedgerError, match="is not a directory"):
        Ledger(tmp_path / "ledger").load()


FILL_AND_APPEND = """
import sys
from pathlib import Path
from pytest_aecbench.errors import LedgerError
from pytest_aecbench.ledger.store import Ledger
from tests.unit.test_record import a_record, scored

root = Path(sys.argv[1])
ledger = Ledger(root)
kept = a_record()
ledger.append(kept)
large = scored(breakdown="x" * 4_000_000)
for attempt in (
    lambda: ledger.append(a_record(evaluation=large)),
    lambda: (root / "filler").write_bytes(b"x" * 4_000_000),
    lambda: ledger.check_writable("exp-1"),
):
    try:
        attempt()
    except LedgerError as error:
        print(error)
    except OSError:
        pass
(root / "filler").unlink()
assert ledger.load().records == [kept]
assert [path.name for path in (root / "exp-1").iterdir()] == [f"{kept.trial_id}.json"]
"""


def test_a_full_disk_is_one_line_and_leaves_no_half_written_file(tmp_path: Path) -> None:
    lines = run_python_in_tmpfs("size=1m", FILL_AND_APPEND, tmp_path).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"{tmp_path}/exp-1")
        assert ": cannot be written, No space left on device; the ledger needs " in line


APPEND_READ_ONLY = """
import sys
from pathlib import Path
from pytest_aecbench.errors import LedgerError
from pytest_aecbench.ledger.store import Ledger
from tests.unit.test_record import a_record

ledger = Ledger(Path(sys.argv[1]) / "ledger")
for attempt in (lambda: ledger.append(a_record()), ledger.check_writable):
    try:
        attempt()
    except LedgerError as error:
        print(error)
"""


def test_a_read_only_directory_is_one_line(tmp_path: Path) -> None:
    lines = run_python_in_tmpfs("ro", APPEND_READ_ONLY, tmp_path).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"{tmp_path}/ledger")
        assert ": cannot be written, Read-only file system; the ledger needs " in line


APPEND_UNTIL_KILLED = """
import os
import random
import signal
import sys
import time
from pathlib import Path
from pytest_aecbench.ledger.store import Ledger
from tests.unit.test_record import a_record, scored

ledger = Ledger(Path(sys.argv[1]))
evaluation = scored(breakdown="x" * 100_000)
records = [a_record(evaluation=evaluation) for _ in range(50)]
for _ in range(int(sys.argv[2])):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        for record in records:
            ledger.append(record.model_copy(update={"trial_id": a_record().trial_id}))
            os.write(write, b".")
        os._exit(0)
    os.read(read, 1)
    time.sleep(random.random() * 0.01)  # the random moment
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    os.close(write)
"""


def test_a_writer_killed_at_any_moment_leaves_whole_records_only(ledger: Ledger) -> None:
    rounds = 100
    run_python(APPEND_UNTIL_KILLED, ledger.root, rounds)
    loaded = ledger.load()
    assert loaded.problems == []
    assert len(loaded.records) >= rounds
    interrupted = [name for name in files(ledger.root) if not name.endswith(".json")]
    assert interrupted, "no writer was killed in the middle, so nothing was shown"
    assert all(name.startswith("exp-1/.") for name in interrupted)


def test_what_a_dead_process_left_of_a_file_is_removed_by_several_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "reports"
    directory.mkdir()
    left = [f".page.{number}.tmp" for number in range(500)]
    for name in (*left, "page.html", ".other.1.tmp"):
        (directory / name).touch()
    start = threading.Barrier(4)

    def remove(_: int) -> None:
        start.wait()
        remove_half_written(directory / "page.html")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(remove, range(4)))
    assert files(directory) == [".other.1.tmp", "page.html"]


def test_loading_pauses_garbage_collection_only_while_it_loads(ledger: Ledger) -> None:
    for _ in range(20):
        ledger.append(a_record())
    passes: list[str] = []
    thresholds = gc.get_threshold()
    gc.callbacks.append(lambda phase, _: passes.append(phase))
    gc.set_threshold(1)  # else so few records need no pass
    try:
        assert len(ledger.load().records) == 20
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
    assert passes.count("start") < 20
    assert gc.isenabled()
    gc.disable()
    try:
        ledger.load()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_importing_the_ledger_does_not_import_pydantic() -> None:
    script = "import sys, pytest_aecbench.ledger.store; print('pydantic' in sys.modules)"
    assert run_python(script) == "False\n"


def test_records_are_streamed(ledger: Ledger) -> None:
    for _ in range(2):
        ledger.append(a_record())
    records = ledger.records()
    assert isinstance(next(records), TrialRecord)
    for path in ledger.root.rglob("*.json"):
        path.unlink()
    assert list(records) == []


def blocks(language: str) -> list[str]:
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        candidates = (field.annotation, *get_args(field.annotation))
        parts = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not parts:
            yield f"{prefix}{name}"
        for part in parts:
            yield from leaves(part, f"{prefix}{name}.")


def test_the_documented_example_is_a_record_as_it_is_stored() -> None:
    [example] = blocks("json")
    assert TrialRecord.from_json(example.encode()).to_json() == example.encode()


def test_every_field_is_documented_in_order() -> None:
    [table] = re.findall(
        r"^\| key \|.*?\n\n", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    rows = re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)
    documented = [row for row in rows if not any(other.startswith(f"{row}.") for other in rows)]
    assert documented == list(leaves(TrialRecord))


def test_the_documented_ways_of_reading_print_what_is_documented(tmp_path: Path) -> None:
    [example] = blocks("json")
    record = TrialRecord.from_json(example.encode())
    Ledger(tmp_path / "artefacts" / "ledger").append(record)
    scripts, outputs = blocks("python"), blocks("text")
    assert len(scripts) == len(outputs) == 3
    for script, output in zip(scripts, outputs, strict=True):
        assert run_python(f"import os; os.chdir({str(tmp_path)!r})\n{script}") == output
