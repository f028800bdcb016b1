"""What checks leave in the ledger, and what it says of a task."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

from pytest_aecbench.ledger.checks import STANDARD, CheckRecord, checked, keep_check
from pytest_aecbench.ledger.store import Ledger

DIGEST = f"sha256:{'0' * 64}"
RECORD = CheckRecord("civil/a", DIGEST, "solution", "passed", "local")


def test_a_task_that_was_never_checked_has_no_summary(tmp_path: Path) -> None:
    assert checked(tmp_path, DIGEST) is None
    keep_check(tmp_path, RECORD)
    assert checked(tmp_path, f"sha256:{'1' * 64}") is None


def test_the_latest_word_of_each_check_counts(tmp_path: Path) -> None:
    early, late = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    keep_check(tmp_path, replace(RECORD, outcome="passed", finished_at=late))
    keep_check(tmp_path, replace(RECORD, outcome="failed", finished_at=early))
    keep_check(tmp_path, replace(RECORD, check="leaks", outcome="failed", finished_at=early))
    summary = checked(tmp_path, DIGEST)
    assert summary is not None
    assert (summary.passed, summary.failed) == (("solution",), ("leaks",))
    assert summary.last_at.isoformat() == late


def test_a_check_that_failed_on_one_backend_has_failed(tmp_path: Path) -> None:
    keep_check(tmp_path, replace(RECORD, backend="docker", outcome="failed"))
    keep_check(tmp_path, RECORD)
    summary = checked(tmp_path, DIGEST)
    assert summary is not None
    assert (summary.failed, summary.passed) == (("solution",), ())
    assert summary.backends == ("docker", "local")


def test_a_task_is_sound_when_every_standard_check_was_made_and_none_failed(
    tmp_path: Path,
) -> None:
    for check in STANDARD[:-1]:
        keep_check(tmp_path, replace(RECORD, check=check))
    summary = checked(tmp_path, DIGEST)
    assert summary is not None
    assert not summary.sound
    keep_check(tmp_path, replace(RECORD, check=STANDARD[-1], outcome="skipped"))
    summary = checked(tmp_path, DIGEST)
    assert summary is not None
    assert summary.sound
    keep_check(tmp_path, replace(RECORD, check="exploit:preload", outcome="failed"))
    summary = checked(tmp_path, DIGEST)
    assert summary is not None
    assert not summary.sound


def test_readers_of_trials_never_see_checks(tmp_path: Path) -> None:
    keep_check(tmp_path, RECORD)
    assert Ledger(tmp_path).experiments() == []
    loaded = Ledger(tmp_path).load()
    assert (loaded.records, loaded.problems) == ([], [])
    assert list(tmp_path.glob("*/*.json")) == []


def test_a_bad_file_is_passed_over_and_unknown_keys_are_ignored(tmp_path: Path) -> None:
    path = keep_check(tmp_path, RECORD)
    data = json.loads(path.read_text())
    later = {**data, "finished_at": "2999-01-01T00:00:00+00:00", "outcome": "failed"}
    for name, content in {
        "half.json": path.read_text()[:40],
        "list.json": "[]",
        "newer.json": json.dumps({**later, "schema_version": 2}),
        "timeless.json": json.dumps({**later, "finished_at": "soon"}),
        "other.json": json.dumps({**later, "task_digest": "sha256:1"}),
        "wrong.json": json.dumps({"schema_version": 1}),
    }.items():
        path.with_name(name).write_text(content)
    path.with_name("more.json").write_text(json.dumps({**data, "added_later": 1, "check": "leaks"}))
    summary = checked(tmp_path, DIGEST)
    assert summary is not None
    assert (summary.passed, summary.failed) == (("leaks", "solution"), ())


def test_every_key_of_a_record_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/ledger.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| key of a check \|.*?\n\n", page, re.DOTALL | re.MULTILINE)
    documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(documented) == sorted(field.name for field in fields(CheckRecord))
