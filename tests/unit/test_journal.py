"""Notes of attempts under way: of a dead one a record is kept, of a live one nothing is touched."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host import heartbeat
from pytest_aecbench.host.owner import Owner
from pytest_aecbench.ledger import journal
from pytest_aecbench.ledger.record import Cost, Failure, Timing, TrialRecord
from pytest_aecbench.ledger.store import Ledger
from tests.stopping import wait_until
from tests.unit.test_record import STARTED, a_record, failed

DEAD = replace(Owner.current(), started="1").labels()
OUT_OF_SIGHT = replace(Owner.current(), namespace="1").labels()
HOUR = 3600.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def begun(root: Path, **changes: Any) -> TrialRecord:
    """Note an attempt of this process; return the record that is to be kept should it die."""
    failure = Failure(cause="crashed", type="Crashed", message="the worker process died")
    evaluation = failed(failure).model_copy(update={"validity": "crashed"})
    record = a_record(evaluation=evaluation, **changes)
    journal.begin(root, record)
    return record


def note_of(root: Path, record: TrialRecord) -> Path:
    return root / record.experiment_id / f".{record.trial_id}.running"


def die(note: Path, labels: Mapping[str, str] = DEAD) -> None:
    """Make the note that of another process."""
    _, *rest = note.read_bytes().split(b"\n")
    note.write_bytes(b"\n".join([json.dumps(dict(labels)).encode(), *rest]))


def age(path: Path, seconds: float) -> None:
    found = path.stat().st_mtime - seconds
    os.utime(path, (found, found))


def test_a_live_attempt_is_shown_and_nothing_is_kept_of_it(root: Path) -> None:
    record = begun(root)
    journal.enter(root, record.experiment_id, record.trial_id, "agent")
    (attempt,) = journal.attempts(root, record.experiment_id, record.run_id)
    assert (attempt.task_id, attempt.phase) == (record.task.task_id, "agent")
    assert journal.attempts(root, record.experiment_id, "another") == []
    assert journal.recover(root) == []
    assert note_of(root, record).exists()
    journal.end(root, record.experiment_id, record.trial_id)
    assert list((root / record.experiment_id).iterdir()) == []


def test_a_dead_attempt_is_recorded_once_with_its_phase_and_its_cost(root: Path) -> None:
    record = begun(root)
    for usd, phase in ((0.5, "agent"), (0.75, "verify")):
        journal.enter(root, record.experiment_id, record.trial_id, phase)
        journal.spend(root, record.experiment_id, record.trial_id, Cost(usd=usd))
    note = note_of(root, record)
    die(note)
    with note.open("ab") as file:
        file.write(b'{"usd": 0.9')  # it died as it wrote this
    assert [one.trial_id for one in journal.recover(root, dry_run=True)] == [record.trial_id]
    assert note.exists()
    prepared: list[bool] = []
    path = note.with_name(f"{record.trial_id}.json")

    def prepare(one: TrialRecord) -> TrialRecord:
        prepared.append(path.exists())
        return one.model_copy(update={"warnings": ("prepared",)})

    (kept,) = journal.recover(root, prepare=prepare)
    assert prepared == [False], "files lose their secrets before there is a record"
    assert kept == TrialRecord.from_json(path.read_bytes())
    assert kept.warnings == ("prepared",)
    assert kept.evaluation.validity == "crashed"
    assert kept.evaluation.error is not None
    assert (kept.evaluation.error.phase, kept.cost.usd) == ("verify", 0.75)
    assert not note.exists()
    assert journal.recover(root) == []


def test_only_attempts_of_the_run_that_was_stopped_are_interrupted(root: Path) -> None:
    mine, others = begun(root, run_id="stopped"), begun(root, run_id="crashed")
    for record in (mine, others):
        die(note_of(root, record))
    kept = journal.recover(root, interrupted_run="stopped")
    validities = {one.run_id: one.evaluation.validity for one in kept}
    assert validities == {"stopped": "interrupted", "crashed": "crashed"}
    causes = {one.run_id: one.evaluation.error.cause for one in kept if one.evaluation.error}
    assert causes == {"stopped": "interrupted", "crashed": "crashed"}


def test_an_attempt_that_was_recorded_before_its_process_died_is_not_recorded_again(
    root: Path,
) -> None:
    record = begun(root)
    Ledger(root).append(record)
    die(note_of(root, record))
    assert journal.recover(root) == []
    assert not note_of(root, record).exists()


def test_a_record_that_cannot_be_kept_keeps_its_note(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = begun(root)
    die(note_of(root, record))

    def full(*args: object) -> None:
        raise LedgerError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("pytest_aecbench.ledger.journal.Ledger.append", full)
        assert journal.recover(root) == []
    assert note_of(root, record).exists()
    assert len(journal.recover(root)) == 1


def test_an_attempt_out_of_sight_is_dead_once_its_note_was_silent_for_an_hour(root: Path) -> None:
    record = begun(root)
    note = note_of(root, record)
    die(note, OUT_OF_SIGHT)
    assert journal.recover(root) == []
    age(note, 0.9 * HOUR)
    assert journal.recover(root) == []
    age(note, 0.2 * HOUR)
    assert len(journal.recover(root)) == 1


TORN = {
    "empty": lambda lines: b"",
    "in its owner": lambda lines: lines[0][:20],
    "after its owner": lambda lines: lines[0] + b"\n",
    "in its record": lambda lines: b"\n".join((lines[0], lines[1][:100])),
    "not JSON": lambda lines: b"\xff\xfe\n\xff",
    "not labels": lambda lines: b"[1]\n" + lines[1][:100],
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
def test_a_torn_note_is_removed_once_its_process_cannot_write_it_any_more(
    root: Path, tear: Any
) -> None:
    record = begun(root)
    note = note_of(root, record)
    alive = note.read_bytes().split(b"\n")
    note.write_bytes(tear(alive))
    assert journal.recover(root) == []
    assert note.exists(), "it is being written"
    assert journal.is_quiet(root, record.run_id)
    note.write_bytes(tear([json.dumps(DEAD).encode(), *alive[1:]]))
    if tear not in (TORN["after its owner"], TORN["in its record"]):  # it has no owner
        age(note, 1.1 * HOUR)
    assert journal.recover(root, dry_run=True) == []
    assert note.exists()
    assert journal.recover(root) == []
    assert not note.exists()
    assert list((root / record.experiment_id).iterdir()) == []


def test_a_note_without_a_phase_died_in_the_first(root: Path) -> None:
    record = begun(root)
    note = note_of(root, record)
    die(note)
    note.write_bytes(b"\n".join(note.read_bytes().split(b"\n")[:2]))
    (kept,) = journal.recover(root)
    assert kept.evaluation.error is not None
    assert kept.evaluation.error.phase == "build"


def test_a_note_of_another_version_is_left_to_that_version(root: Path) -> None:
    record = begun(root)
    note = note_of(root, record)
    die(note)
    lines = note.read_bytes().split(b"\n")
    data = {**json.loads(lines[1]), "schema_version": 99}
    note.write_bytes(b"\n".join([lines[0], json.dumps(data).encode(), *lines[2:]]))
    assert journal.recover(root) == []
    assert note.exists()


def test_nothing_that_is_no_dead_attempt_hides_one_that_is(root: Path) -> None:
    ids = [f"{n}0000000-0000-4000-8000-000000000000" for n in range(8)]
    records = [begun(root, trial_id=trial_id) for trial_id in ids]
    notes = [note_of(root, record) for record in records]
    notes[0].rename(notes[0].with_suffix(".tmp"))  # half-written
    notes[1].unlink()
    notes[1].mkdir()  # cannot be read
    notes[2].write_bytes(b"\n")  # being written
    notes[3].write_bytes(json.dumps(DEAD).encode())  # had not begun
    Ledger(root).append(records[4])  # has its record; the next is alive
    for note in (notes[4], *notes[6:]):
        die(note)
    assert [record.trial_id for record in journal.recover(root)] == ids[6:]


def test_attempts_are_found_among_all_records_the_oldest_first(root: Path) -> None:
    for n in range(20):
        Ledger(root).append(a_record(warnings=(f"{n}",)))
    for minute in (3, 1, 2):
        started = STARTED + timedelta(minutes=minute)
        begun(root, repetition=minute, timing=Timing(started_at=started, finished_at=started))
    found = journal.attempts(root, "exp-1", "run-1")
    assert [attempt.repetition for attempt in found] == [1, 2, 3]
    assert found[0].started_at == STARTED + timedelta(minutes=1)


def test_the_note_of_a_live_attempt_is_touched_again_and_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SEC", 0.01)
    monkeypatch.setattr(heartbeat, "_HEART", heartbeat._Heart())
    note = note_of(root, begun(root))
    age(note, HOUR)
    wait_until(lambda: heartbeat.silence(note) < 60)


def test_a_half_written_file_is_removed_when_it_is_old(root: Path) -> None:
    record = begun(root)
    half = root / record.experiment_id / ".0123456789abcdef.tmp"
    half.write_bytes(b"{")
    journal.recover(root)
    assert half.exists()
    age(half, 1.1 * HOUR)
    journal.recover(root, dry_run=True)
    assert half.exists()
    journal.recover(root)
    assert not half.exists()


def test_what_is_no_file_holds_nothing_up(root: Path) -> None:
    record = begun(root)
    note = note_of(root, record)
    note.unlink()
    os.mkfifo(note)
    assert journal.attempts(root, record.experiment_id, record.run_id) == []
    assert journal.recover(root) == []
    assert journal.is_quiet(root, record.run_id)
    journal.enter(root, record.experiment_id, record.trial_id, "agent")


def test_a_run_is_quiet_when_none_of_its_attempts_is_noted(root: Path) -> None:
    assert journal.is_quiet(root, "r")
    record = begun(root, run_id="r")
    begun(root, run_id="s")
    assert not journal.is_quiet(root, "r")
    journal.end(root, record.experiment_id, record.trial_id)
    assert journal.is_quiet(root, "r")
    assert not journal.is_quiet(root, "s")


def test_a_note_that_cannot_be_written_stops_its_attempt(root: Path) -> None:
    record = a_record()
    root.mkdir()
    (root / record.experiment_id).touch()
    with pytest.raises(LedgerError, match=r"\.running: cannot be written, "):
        journal.begin(root, record)


def test_no_reader_finds_half_of_a_note(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    place = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append([path.name for path in self.parent.iterdir() if path.suffix == ".running"])
        return place(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    begun(root)
    assert seen == [[]]


def test_noting_a_phase_leaves_no_file_open(root: Path) -> None:
    record = begun(root)
    before = set(Path("/proc/self/fd").iterdir())
    journal.enter(root, record.experiment_id, record.trial_id, "agent")
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_phase_of_an_attempt_whose_ledger_is_gone_is_not_noted(root: Path) -> None:
    record = begun(root)
    shutil.rmtree(root)
    journal.enter(root, record.experiment_id, record.trial_id, "agent")
    assert not root.exists()
    assert journal.attempts(root, record.experiment_id, record.run_id) == []


def test_attempts_of_all_runs_are_known_with_their_trial_and_owner(tmp_path: Path) -> None:
    for number, run in enumerate(("one", "two")):
        record = a_record(trial_id=_id(number), run_id=run, evaluation=failed())
        journal.begin(tmp_path, record)
    journal.enter(tmp_path, record.experiment_id, _id(1), "agent")
    found = journal.attempts(tmp_path, record.experiment_id)
    assert [(one.trial_id, one.run_id, one.phase) for one in found] == [
        (_id(0), "one", "build"),
        (_id(1), "two", "agent"),
    ]
    assert {one.owner for one in found} == {Owner.current()}
    assert [one.trial_id for one in journal.attempts(tmp_path, record.experiment_id, "two")] == [
        _id(1)
    ]


@pytest.mark.parametrize("note", [b"", b"{}\n{}\nbuild\n", b"1\n2\n3\n", b"[]\n[]\nx\n"])
def test_what_is_not_a_note_is_passed_over(tmp_path: Path, note: bytes) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/.x.running").write_bytes(note)
    assert journal.attempts(tmp_path, "mine") == []


def _id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"
