"""The index of a ledger: as right as the records themselves, whatever happens to its file."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import uuid
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.ledger import index_file, indexing
from pytest_aecbench.ledger.entry import EntryCost, pack
from pytest_aecbench.ledger.identity import agent_key
from pytest_aecbench.ledger.index import open_index
from pytest_aecbench.ledger.index_file import IndexFile, index_path
from pytest_aecbench.ledger.query import outcome_of
from pytest_aecbench.ledger.record import (
    AgentIdentity,
    AgentOutcome,
    Cost,
    DatasetIdentity,
    Evaluated,
    TrialRecord,
)
from pytest_aecbench.ledger.store import Ledger
from pytest_aecbench.reports.results import TrialResult
from tests.unit.test_ledger import run_python_in_tmpfs
from tests.unit.test_record import a_record, failed, scored

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.index import Indexed


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Ledger(tmp_path / "ledger")


def made(ledger: Ledger, **fields: Any) -> TrialRecord:
    record = a_record(**{"trial_id": str(uuid.uuid4()), **fields})
    ledger.append(record)
    return record


def file_of(ledger: Ledger, record: TrialRecord) -> Path:
    return ledger.root / record.experiment_id / f"{record.trial_id}.json"


def load(ledger: Ledger, experiment_id: str | None = None) -> Indexed:
    with open_index(ledger.root) as index:
        return index.load(experiment_id)


def rewards(ledger: Ledger) -> list[tuple[str, float | None]]:
    return [(entry.trial_id, entry.evaluation.reward) for entry in load(ledger).entries]


def path_of(ledger: Ledger) -> Path:
    path = index_path(ledger.root)
    assert path is not None
    return path


def figures(record: TrialRecord | Entry) -> dict[str, object]:
    names = ("experiment_id", "trial_id", "trial_key", "run_id", "repetition", "attempt", "scored")
    evaluates, dataset, result = record.evaluates, record.dataset, record.agent_result
    return {
        **{name: getattr(record, name) for name in (*names, "completeness", "started_sec")},
        "result": TrialResult.from_record(record),
        "agent": (record.agent.name, agent_key(record.agent)),
        "outcome": (outcome_of(record), record.evaluation.validity, record.evaluation.threshold),
        "evaluates": evaluates and (evaluates.experiment_id, evaluates.trial_id),
        "dataset": dataset and (dataset.name, dataset.version, dataset.drifted),
        "result_of_agent": result and (result.status, result.end, result.turns),
        "times": (record.timing.started_at, record.timing.finished_at, record.timing.spent_sec),
        "cost": attrgetter(*EntryCost._fields)(record.cost),
        "backend": record.environment.backend,
        "details": record.evaluation.details,
    }


def test_an_entry_has_the_figures_of_its_record(ledger: Ledger) -> None:
    first = made(ledger)
    agent = AgentIdentity(
        name="é", harness="tool_loop", model="m", parameters={"b": [1, {"c": None}], "a": 2.5}
    )
    others = [
        made(ledger, evaluation=failed(), experiment_id="exp-2", attempt=2),
        made(
            ledger,
            agent=agent,
            repetition=7,
            dataset=DatasetIdentity(name="d", version="1.0.0", content_hash="h", drifted=True),
            evaluates=Evaluated(experiment_id="exp-1", trial_id=first.trial_id),
            agent_result=AgentOutcome(status="limit_reached", end="max_turns", turns=12),
            cost=Cost(tokens_in=10**30, usd=0.1 + 0.2, price_source="own"),
            completeness="partial",
        ),
    ]
    expected = [figures(record) for record in (first, *others)]
    expected.sort(key=lambda one: (str(one["experiment_id"]), str(one["trial_id"])))
    for _ in range(2):  # as it is read, and as it is kept
        assert [figures(entry) for entry in load(ledger).entries] == expected
    (only,) = load(ledger, "exp-2").entries
    assert only.trial_id == others[0].trial_id
    assert load(ledger, "exp-3").entries == []


def test_a_file_that_stayed_as_it_was_is_not_read_again(ledger: Ledger) -> None:
    record = made(ledger)
    before = rewards(ledger)
    file = file_of(ledger, record)
    stamp = file.stat()
    file.write_bytes(b"x" * stamp.st_size)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert rewards(ledger) == before
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert rewards(ledger) == []


def test_what_comes_goes_or_changes_is_seen_at_once(ledger: Ledger) -> None:
    first, second = (made(ledger, evaluation=scored(0.25)) for _ in range(2))
    other = made(ledger, experiment_id="exp-2")
    assert len(rewards(ledger)) == 3
    third = made(ledger)
    file_of(ledger, first).unlink()
    changed = second.model_copy(update={"evaluation": scored(0.75)})
    file_of(ledger, second).write_bytes(changed.to_json())
    shutil.rmtree(file_of(ledger, other).parent)
    expected = [(second.trial_id, 0.75), (third.trial_id, third.evaluation.reward)]
    assert rewards(ledger) == sorted(expected)
    ledger.append(first)  # which was only moved away
    assert rewards(ledger) == sorted([*expected, (first.trial_id, 0.25)])


def test_problems_are_those_of_the_ledger_every_time(ledger: Ledger) -> None:
    record = made(ledger)
    directory = file_of(ledger, record).parent
    (directory / "broken.json").write_text("{")
    shutil.copy(file_of(ledger, record), directory / "copy.json")
    (directory / "unreadable.json").mkdir()
    with (directory / os.fsdecode(b"\xff.json")).open("w") as file:
        file.write("{")
    expected = [str(problem) for problem in ledger.load().problems]
    assert len(expected) == 4
    for _ in range(2):
        assert sorted(map(str, load(ledger).problems)) == sorted(expected)
    (directory / "unreadable.json").rmdir()
    (directory / "broken.json").unlink()
    assert len(load(ledger).problems) == 2


def spoil_with_another_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE records (name TEXT)")
    connection.close()


def spoil_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)


SPOILS: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, 8192),
    "cut within its head": lambda path: os.truncate(path, 50),
    "overwritten": lambda path: path.write_bytes(b"not a database " * 1000),
    "overwritten but for its head": spoil_the_middle,
    "of another program": spoil_with_another_database,
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())
def test_a_broken_file_is_made_anew(ledger: Ledger, spoil: Callable[[Path], object]) -> None:
    for _ in range(30):
        made(ledger)
    expected = rewards(ledger)
    spoil(path_of(ledger))
    assert rewards(ledger) == expected
    file = IndexFile(ledger.root)
    assert file.is_kept
    assert file.connection.execute("SELECT count(*) FROM records").fetchone() == (30,)
    file.close()


def test_a_broken_file_that_another_process_uses_is_left_to_it(ledger: Ledger) -> None:
    record = made(ledger)
    with open_index(ledger.root) as other:
        other.load()
        path_of(ledger).write_bytes(b"not a database " * 1000)
        assert [entry.trial_id for entry in load(ledger).entries] == [record.trial_id]
        assert path_of(ledger).read_bytes().startswith(b"not a database")


def block_with_a_file(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("")


def block_with_a_directory(path: Path) -> None:
    path.mkdir(parents=True)


def block_with_a_pipe(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


def block_the_lock(path: Path) -> None:
    path.with_suffix(".lock").mkdir(parents=True)


@pytest.mark.parametrize(
    "block", [block_with_a_file, block_with_a_directory, block_with_a_pipe, block_the_lock]
)
def test_without_a_file_everything_is_the_same(
    ledger: Ledger, block: Callable[[Path], None]
) -> None:
    block(path_of(ledger))
    record = made(ledger)
    with open_index(ledger.root) as index:
        assert [entry.trial_id for entry in index.load().entries] == [record.trial_id]
        mark = index.changes().mark
        second = made(ledger)
        assert [entry.trial_id for entry in index.changes(mark).entries] == [second.trial_id]


def test_a_cache_that_cannot_be_written_or_is_nowhere_does_no_harm(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = made(ledger)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/1/none")
    assert [entry.trial_id for entry in load(ledger).entries] == [record.trial_id]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert index_path(ledger.root) is None
    assert [entry.trial_id for entry in load(ledger).entries] == [record.trial_id]


LOAD = """
import os, sys
from pathlib import Path
from pytest_aecbench.ledger.index import open_index

os.environ["XDG_CACHE_HOME"] = sys.argv[1]
with open_index(Path(os.environ["LEDGER"])) as index:
    print(len(index.load().entries), index._file.is_kept, len(index.load().entries))
"""


def test_a_full_disk_does_no_harm(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(200):
        made(ledger)
    monkeypatch.setenv("LEDGER", str(ledger.root))
    small = ledger.root.parent / "small"
    small.mkdir()
    assert run_python_in_tmpfs("size=96k", LOAD, small) == "200 False 200\n"


def test_a_writer_that_never_ends_does_no_harm(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "_BUSY_SEC", 0.05)
    first = made(ledger)
    load(ledger)
    file = IndexFile(ledger.root)
    file.connection.execute("BEGIN IMMEDIATE")
    assert len(rewards(ledger)) == 1  # nothing to write
    second = made(ledger)
    assert [name for name, _ in rewards(ledger)] == sorted([first.trial_id, second.trial_id])
    file.connection.execute("ROLLBACK")
    file.close()


def test_processes_that_use_it_at_once_all_see_what_is_there(ledger: Ledger) -> None:
    for _ in range(150):
        made(ledger)
    environ = {
        **os.environ,
        "LEDGER": str(ledger.root),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", LOAD, os.environ["XDG_CACHE_HOME"]]
    readers = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    removed = made(ledger)
    while any(reader.poll() is None for reader in readers):
        made(ledger, experiment_id="exp-2")
        file_of(ledger, removed).unlink()
        removed = made(ledger)
        load(ledger)
    for reader in readers:
        before, _, after = reader.communicate()[0].split()
        assert 150 <= int(before) <= int(after) + 1
    there = sorted(path.stem for path in ledger.root.glob("*/*.json"))
    assert sorted(name for name, _ in rewards(ledger)) == there


def test_changes_are_told_since_a_mark(ledger: Ledger) -> None:
    first, second = made(ledger), made(ledger)
    with open_index(ledger.root) as index:
        start = index.changes()
        assert start.is_all
        assert len(start.entries) == 2
        nothing = index.changes(start.mark)
        assert (nothing.is_all, nothing.entries, nothing.removed) == (False, [], [])
        third = made(ledger, experiment_id="exp-2")
        file_of(ledger, first).unlink()
        (file_of(ledger, second).parent / "broken.json").write_text("{")
        news = index.changes(nothing.mark)
    assert [entry.trial_id for entry in news.entries] == [third.trial_id]
    assert news.removed == [("exp-1", first.trial_id)]
    assert [problem.path.name for problem in news.problems] == ["broken.json"]
    with open_index(ledger.root) as index:  # another process, later
        assert not index.changes(news.mark).entries
        assert len(index.changes("of-another-index.7").entries) == 2
        assert index.changes("nonsense").is_all


def test_reading_stops_where_it_may_not_go_on_and_goes_on_from_there(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_BATCH", 2)
    for experiment, number in (("exp-1", 3), ("exp-2", 2)):
        for _ in range(number):
            made(ledger, experiment_id=experiment)
    os.utime(ledger.root / "exp-1", (0, 0))
    with open_index(ledger.root) as index:
        found = []
        while not index.catch_up(lambda: False):
            listed = index.experiments(known=True)
            found.append({one.name: sum(one.outcomes.values()) for one in listed})
        assert found == [{"exp-2": 2}, {"exp-1": 2, "exp-2": 2}, {"exp-1": 3, "exp-2": 2}]
        made(ledger)
        made(ledger, experiment_id="exp-2")
        assert (index.catch_up(), index.catch_up()) == (False, True)
        assert len(index.load().entries) == 7


def test_experiments_are_listed_with_what_became_of_them(ledger: Ledger) -> None:
    old = made(ledger, evaluation=scored(1.0))
    late = old.timing.model_copy(
        update={
            "started_at": old.timing.started_at + timedelta(days=1),
            "finished_at": old.timing.finished_at + timedelta(days=2),
        }
    )
    made(ledger, experiment_id="exp-2", timing=late)
    made(ledger, evaluation=failed(), agent=old.agent.model_copy(update={"name": "other"}))
    with open_index(ledger.root) as index:
        latest, first = index.experiments()
    assert (latest.name, latest.started_at) == ("exp-2", late.started_at)
    assert latest.finished_at == late.finished_at
    assert (first.name, first.outcomes) == ("exp-1", {"passed": 1, "error": 1})
    assert first.agents == tuple(sorted((old.agent.name, "other")))


def spent(record: TrialRecord, seconds: float) -> dict[str, object]:
    timing = record.timing
    finished_at = timing.started_at + timedelta(seconds=seconds)
    return {"timing": timing.model_copy(update={"finished_at": finished_at, "wait": None})}


def test_past_durations_are_medians_of_scored_trials_in_recent_experiments(ledger: Ledger) -> None:
    record = a_record()
    work = (record.task.task_id, record.agent.name)
    for seconds in (10, 20, 60):
        made(ledger, **spent(record, seconds))
    made(ledger, **spent(record, 1000), evaluation=failed())
    evaluated = Evaluated(experiment_id="exp-1", trial_id=record.trial_id)
    made(ledger, **spent(record, 1000), evaluates=evaluated)
    made(ledger, **spent(record, 1000), experiment_id="long-ago")
    os.utime(ledger.root / "long-ago", (0, 0))
    for number in range(9):
        (ledger.root / f"later-{number}").mkdir()
    with open_index(ledger.root) as index:
        assert index.past_durations([work, ("no/task", "oracle")], most=100) == {work: 20.0}


def test_past_durations_are_not_worth_reading_all_files_for(ledger: Ledger) -> None:
    record = a_record()
    work = (record.task.task_id, record.agent.name)
    for number in range(20):
        at = made(ledger, **spent(record, 100 + number))
        os.utime(file_of(ledger, at), ns=(0, number))
    with open_index(ledger.root) as index:
        assert index.past_durations([work], most=3) == {work: 118.0}  # the newest
        assert index.past_durations([work], most=0) == {work: 118.0}
        assert index.past_durations([work], most=100) == {work: 109.5}


def test_an_index_holds_nothing_that_others_may_read(ledger: Ledger) -> None:
    made(ledger)
    load(ledger)
    assert path_of(ledger).parent.stat().st_mode & 0o077 == 0


def test_ledgers_and_versions_have_files_of_their_own(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = path_of(ledger)
    assert index_path(ledger.root.parent / "other") != here
    assert index_path(ledger.root.parent / "x" / ".." / "ledger") == here
    monkeypatch.setattr(index_file, "__version__", "99")
    assert path_of(ledger) != here


def test_the_layout_is_raised_with_what_is_stored() -> None:
    sizes = [len(json.loads(text)) for text in pack(a_record())]
    # If these change, an index of an earlier layout cannot be read: raise it too.
    assert (index_file._LAYOUT, sizes) == (4, [18, 1, 6, 6, 12, 13])
