"""Queries: which records of the ledger are asked for, and what is refused in one line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.ledger.index import open_index
from pytest_aecbench.ledger.query import OUTCOMES, Query, outcome_of, parse_since
from pytest_aecbench.ledger.record import DatasetIdentity
from pytest_aecbench.ledger.store import Ledger
from tests.unit.test_leaderboard import UNVERIFIED, record
from tests.unit.test_record import STARTED


def test_every_condition_narrows_and_all_must_hold() -> None:
    used = DatasetIdentity(name="mine", version="1.0.0", content_hash="x")
    records = [
        record("a", "civil/x", 1.0),
        record("b", "civil/y", 0.0, minute=1, dataset=used),
        record("a", "water/z", None, minute=2),
        record("c", "water/z", minute=3, evaluation=UNVERIFIED),
    ]

    def tasks(**conditions: Any) -> list[str]:
        return [one.task.task_id for one in Query(**conditions).select(reversed(records))]

    assert tasks() == ["civil/x", "civil/y", "water/z", "water/z"]
    assert tasks(agent="a") == ["civil/x", "water/z"]
    assert tasks(task="civil/*") == ["civil/x", "civil/y"]
    assert tasks(domain="civil") == ["civil/x", "civil/y"]
    assert tasks(dataset="mine") == tasks(dataset="mine@1.0.0") == ["civil/y"]
    assert tasks(dataset="mine@2.0.0") == []
    assert tasks(since=STARTED + timedelta(minutes=2)) == ["water/z", "water/z"]
    assert tasks(outcome="error") == ["water/z"]
    assert tasks(agent="a", outcome="passed") == ["civil/x"]
    assert [outcome_of(one) for one in records] == ["passed", "failed", "error", "unverified"]


@pytest.mark.parametrize(
    "text", ["2026-04-12T10:00:00Z", "2026-04-12T10:00", "2026-04-12T12:00:00+02:00"]
)
def test_times_are_utc_unless_they_say_otherwise(text: str) -> None:
    assert parse_since(text, "--since") == STARTED


def test_how_long_ago_is_a_time_too() -> None:
    now = datetime.now(timezone.utc)
    for text, ago in (("2d", {"days": 2}), ("47h", {"hours": 47}), ("30m", {"minutes": 30})):
        since = parse_since(text, "x")
        assert timedelta(0) <= since + timedelta(**ago) - now < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7y", "-7d", "2026-13-01", "999999d"])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_since(text, "--since")
    assert str(raised.value).startswith(f"--since: {text!r} is not a time; use one such as")


def test_conditions_are_read_as_a_user_writes_them() -> None:
    given = {"agent": "a", "task": "civil/*", "domain": "civil", "dataset": "mine"}
    query = Query.parse({**given, "outcome": "failed", "since": "2026-04-12"}, "--{}".format)
    midnight = datetime(2026, 4, 12, tzinfo=timezone.utc)
    assert query == Query(**given, outcome="failed", since=midnight)
    assert Query.parse({}, str) == Query.parse({"outcome": "", "since": ""}, str) == Query()
    assert [Query.parse({"outcome": one}, str).outcome for one in OUTCOMES] == [*OUTCOMES]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"outcome": "won"},
            "--outcome: 'won' is not valid; use one of 'error', 'failed', 'passed', 'unverified'",
        ),
        ({"since": "soon"}, "--since: 'soon' is not a time; use one such as"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Query.parse(given, "--{}".format)
    assert str(raised.value).startswith(message)


def test_entries_are_selected_as_records_are_the_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ledger = Ledger(tmp_path / "ledger")
    records = [record("ab"[n % 2], f"civil/{n}", minute=9 - n) for n in range(6)]
    for one in records:
        ledger.append(one)
    with open_index(ledger.root) as index:
        sheet = index.load().sheet
    for query in (Query(), Query(agent="b"), Query(since=STARTED + timedelta(minutes=6))):
        found = [entry.trial_id for entry in query.rows(sheet.take(range(6))).entries]
        assert found == [one.trial_id for one in query.select(records)]
