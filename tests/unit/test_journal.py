"""Attempts under way are known to other processes, whichever run they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.host.owner import Owner
from pytest_aecbench.ledger import journal
from tests.unit.test_record import a_record, failed


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
