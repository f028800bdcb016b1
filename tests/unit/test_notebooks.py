"""Records for notebooks and other programs: a sequence, tables and files of the same columns."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import pytest_aecbench
from pytest_aecbench.errors import LedgerError, SettingsError
from pytest_aecbench.ledger.record import AgentOutcome, Cost, DatasetIdentity, TrialRecord
from pytest_aecbench.ledger.store import Ledger
from pytest_aecbench.reports.columns import EXPORTED
from pytest_aecbench.reports.leaderboard import leaderboard
from pytest_aecbench.reports.rankings import board_cells
from pytest_aecbench.reports.records import Records
from tests.ledgers import records as made_up
from tests.unit.test_leaderboard import record
from tests.unit.test_record import STARTED, scored

DATASET = DatasetIdentity(name="d", version="1.0.0", content_hash="h", drifted=True)
# What a column of each kind is in either library.
PANDAS = {
    "boolean": "boolean",
    "category": "category",
    "integer": "Int64",
    "number": "float64",
    "text": "string",
    "time": "datetime64[us, UTC]",
}
ARROW = {
    "boolean": "bool",
    "category": "dictionary<values=string, indices=int32, ordered=0>",
    "integer": "int64",
    "number": "double",
    "text": "string",
    "time": "timestamp[us, tz=UTC]",
}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A project's ledger: a trial that passed, an error, and an attempt that made it good."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(tmp_path / "artefacts/ledger")
    ledger.append(
        record(
            "a",
            "civil/x",
            experiment_id="one",
            evaluation=scored(1.0, details={"slope": 1.0, "width": 0.5}),
            dataset=DATASET,
            agent_result=AgentOutcome(status="completed", end="submitted", turns=7),
            cost=Cost(tokens_in=10, usd=0.5, price_source="own"),
        )
    )
    more: dict[str, Any] = {"experiment_id": "two", "agent_result": None, "cost": Cost()}
    ledger.append(record("b", "water/y", None, minute=1, trial_key="c" * 64, **more))
    second = record("b", "water/y", 0.25, minute=2, trial_key="c" * 64, attempt=2, **more)
    details = scored(0.25, details={"head": 0.25})
    ledger.append(second.model_copy(update={"evaluation": details}))
    (ledger.root / "two/broken.json").write_text("{")
    return ledger


def rewards(records: Records) -> list[float | None]:
    return [one.evaluation.reward for one in records]


@pytest.mark.usefixtures("ledger")
def test_records_are_a_sequence_the_oldest_first() -> None:
    found = pytest_aecbench.records()
    assert len(found) == 3
    assert rewards(found) == [1.0, None, 0.25]
    assert isinstance(found[0], TrialRecord)
    assert (found[-1].attempt, found[-1].evaluation.details) == (2, {"head": 0.25})
    assert rewards(found[1:]) == [None, 0.25]
    assert found.index(found[1]) == 1
    with pytest.raises(IndexError):
        found[3]
    (problem,) = found.problems
    assert problem.path.name == "broken.json"
    assert repr(found) == "<Records: 3 attempts of 2 experiments, 1 problem>"
    assert repr(found[:1]) == "<Records: 1 attempt of 1 experiment, 1 problem>"


@pytest.mark.usefixtures("ledger")
def test_a_trial_has_one_final_attempt() -> None:
    assert rewards(pytest_aecbench.records().final()) == [1.0, 0.25]
    assert rewards(pytest_aecbench.records("two", outcome="error").final()) == [None]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"experiment": "one"}, [1.0]),
        ({"experiment": "two", "outcome": "error"}, [None]),
        ({"agent": "b"}, [None, 0.25]),
        ({"task": "civil/*"}, [1.0]),
        ({"domain": "water"}, [None, 0.25]),
        ({"dataset": "d@1.0.0"}, [1.0]),
        ({"since": "2026-04-12T10:02"}, [0.25]),
        ({"since": STARTED + timedelta(minutes=1)}, [None, 0.25]),
        ({"since": datetime(2026, 4, 12, 10, 2)}, [0.25]),
        ({"since": "7d", "outcome": None}, []),
    ],
)
def test_records_are_chosen_as_by_the_command(
    ledger: Ledger, asked: dict[str, Any], expected: list[float | None]
) -> None:
    assert rewards(pytest_aecbench.records(**asked)) == expected
    os.chdir("/")
    for where in (ledger, ledger.root, str(ledger.root)):
        assert rewards(pytest_aecbench.records(**asked, ledger=where)) == expected


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"experiment": "tow"}, "experiment: experiment 'tow' not found in artefacts/ledger; did"),
        ({"outcome": "bad"}, "outcome: 'bad' is not valid; use one of 'error', 'failed', 'passed'"),
        ({"since": "soon"}, "since: 'soon' is not a time; use one such as"),
        ({"ledger": "no/such"}, "ledger: 'no/such' is not a directory; use the ledger's"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_a_mistake_is_one_line(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        pytest_aecbench.records(**asked)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_a_record_that_is_gone_by_now_is_one_line(ledger: Ledger, tmp_path: Path) -> None:
    found = pytest_aecbench.records("one")
    (file,) = (ledger.root / "one").glob("*.json")
    file.unlink()
    for action in (lambda: found[0], lambda: found.to_jsonl(tmp_path / "out.jsonl")):
        with pytest.raises(LedgerError) as caught:
            action()
        path = f"artefacts/ledger/one/{file.name}"
        assert str(caught.value) == f"{path}: cannot be read, No such file or directory"
    assert not list(tmp_path.glob("*out*"))
    assert not list(tmp_path.glob(".*"))


@pytest.mark.usefixtures("ledger")
def test_dicts_have_every_column_and_unknown_is_none() -> None:
    first, second, third = pytest_aecbench.records().to_dicts()
    names = [column.name for column in EXPORTED]
    assert list(first) == [*names, "details.slope", "details.width"]
    assert list(second) == names
    assert first["started_at"] == STARTED
    assert (first["dataset"], first["dataset_drifted"]) == ("d@1.0.0", True)
    assert (first["tokens_in"], first["tokens_out"], first["turns"]) == (10, None, 7)
    unknown = ("reward", "passed", "dataset", "agent_status", "turns", "usd", "tokens_in")
    assert {second[name] for name in unknown} == {None}
    assert (second["outcome"], second["error_cause"]) == ("error", "launch")
    assert (third["reward"], third["duration_sec"], third["details.head"]) == (0.25, 30.0, 0.25)
    assert "details.slope" not in pytest_aecbench.records().to_dicts(details=False)[0]


@pytest.mark.needs("pandas")
@pytest.mark.usefixtures("ledger")
def test_a_data_frame_has_types_in_which_unknown_is_not_zero() -> None:
    frame = pytest_aecbench.records().to_pandas()
    found = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    expected = {column.name: PANDAS[column.kind] for column in EXPORTED}
    parts = dict.fromkeys(["details.head", "details.slope", "details.width"], "float64")
    assert found == {**expected, **parts}
    _same_values(frame.astype(object).where(frame.notna(), None).to_dict("records"))
    assert frame["started_at"][0] == STARTED
    assert (frame["tokens_in"].sum(), frame["tokens_in"].count()) == (10, 1)
    assert frame["reward"].mean() == 0.625
    assert frame.groupby("agent", observed=True)["reward"].count().to_dict() == {"a": 1, "b": 1}


def _same_values(found: list[dict[str, Any]]) -> None:
    """Compare rows of a library with the dictionaries, which have no parts of others' rewards."""
    known = [{k: v for k, v in row.items() if v is not None} for row in found]
    expected = pytest_aecbench.records().to_dicts()
    assert known == [{k: v for k, v in row.items() if v is not None} for row in expected]


@pytest.mark.needs("pandas", "arrow")
def test_tables_of_many_records_have_the_values_of_each(ledger: Ledger) -> None:
    for one in made_up(90, experiment="many"):
        ledger.append(one)
    found = pytest_aecbench.records()
    table, frame = found.to_arrow(), found.to_pandas()
    _same_values(table.to_pylist())
    _same_values(frame.astype(object).where(frame.notna(), None).to_dict("records"))
    some = found.final()[10:60]
    assert some.to_arrow().to_pylist() == [
        {**dict.fromkeys(some.to_arrow().column_names), **row} for row in some.to_dicts()
    ]


@pytest.mark.needs("arrow")
@pytest.mark.usefixtures("ledger")
def test_an_arrow_table_has_types_in_which_unknown_is_null(tmp_path: Path) -> None:
    import pyarrow.parquet

    table = pytest_aecbench.records().to_arrow()
    found = {field.name: str(field.type) for field in table.schema}
    expected = {column.name: ARROW[column.kind] for column in EXPORTED}
    parts = dict.fromkeys(["details.head", "details.slope", "details.width"], "double")
    assert found == {**expected, **parts}
    _same_values(table.to_pylist())
    pytest_aecbench.records().to_parquet(tmp_path / "out.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").equals(table)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artefacts", "out.parquet"]


@pytest.mark.needs("pandas", "arrow")
@pytest.mark.usefixtures("ledger")
def test_tables_of_no_records_have_the_same_columns() -> None:
    none = pytest_aecbench.records(agent="nobody")
    assert {name: str(dtype) for name, dtype in none.to_pandas().dtypes.items()} == {
        column.name: PANDAS[column.kind] for column in EXPORTED
    }
    assert {field.name: str(field.type) for field in none.to_arrow().schema} == {
        column.name: ARROW[column.kind] for column in EXPORTED
    }
    assert (none.to_dicts(), none.final().entries) == ([], [])


@pytest.mark.usefixtures("ledger")
def test_files_of_text_have_the_same_values(tmp_path: Path) -> None:
    found = pytest_aecbench.records()
    found.to_jsonl(tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [TrialRecord.from_json(line.encode()) for line in lines] == list(found)
    found.to_csv(tmp_path / "out.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    expected = found.to_dicts()
    names = [column.name for column in EXPORTED]
    assert list(rows[0]) == [*names, "details.head", "details.slope", "details.width"]
    for row, values in zip(rows, expected, strict=True):
        shown = {
            name: value.isoformat() if isinstance(value, datetime) else str(value)
            for name, value in values.items()
            if value is not None
        }
        assert {name: text for name, text in row.items() if text} == shown
    found.to_csv(tmp_path / "out.csv", details=False)
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == ",".join(names)


@pytest.mark.needs("pandas", "arrow")
def test_a_number_of_more_than_64_bits_is_one_line_and_no_file(
    ledger: Ledger, tmp_path: Path
) -> None:
    huge = record(experiment_id="three", cost=Cost(tokens_in=2**63))
    ledger.append(huge)
    found = pytest_aecbench.records("three")
    (tmp_path / "out.parquet").write_text("before")
    for action in (
        found.to_pandas,
        found.to_arrow,
        lambda: found.to_parquet(tmp_path / "out.parquet"),
    ):
        with pytest.raises(LedgerError) as caught:
            action()
        assert str(caught.value) == (
            f"three/{huge.trial_id}.json: tokens_in {2**63} has more than 64 bits; "
            "export as csv or jsonl, or delete the record"
        )
    assert (tmp_path / "out.parquet").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artefacts", "out.parquet"]
    assert found.to_dicts()[0]["tokens_in"] == 2**63


@pytest.mark.parametrize(
    ("library", "extra", "method"),
    [("pandas", "pandas", "to_pandas"), ("pyarrow", "arrow", "to_arrow")],
)
@pytest.mark.usefixtures("ledger")
def test_a_library_that_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, library: str, extra: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SettingsError) as caught:
        getattr(pytest_aecbench.records(), method)()
    right = f"pip install 'pytest-aecbench[{extra}]'"
    assert str(caught.value) == f"{library}: is not installed; {right}"


@pytest.mark.usefixtures("ledger")
def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        pytest_aecbench.records().to_csv(tmp_path / "no/such.csv")
    assert str(caught.value) == "no/such.csv: cannot be written, No such file or directory"


@pytest.mark.usefixtures("ledger")
def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.jsonl").symlink_to("elsewhere/real.jsonl")
    pytest_aecbench.records().to_jsonl(tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len((tmp_path / "elsewhere/real.jsonl").read_text().splitlines()) == 3
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    pytest_aecbench.records("one").to_jsonl(tmp_path / "pipe")
    assert json.loads(os.read(reader, 65536))["experiment_id"] == "one"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_notebook_shows_the_leaderboard(ledger: Ledger) -> None:
    ledger.append(record("<script>alert(1)</script>", "civil/x", 0.5, minute=3, model="\u202e"))
    found = pytest_aecbench.records()
    shown = found._repr_html_()
    board = leaderboard(found.entries)
    for row in board.rows[:1]:
        _, *figures = board_cells(board, row)
        assert "".join(f"<td>{figure}</td>" for figure in figures) in shown
    assert '<th scope="row">&lt;script&gt;alert(1)&lt;/script&gt;</th>' in shown
    assert "<script" not in shown
    none = pytest_aecbench.records(agent="nobody")
    assert none._repr_html_().endswith("; no trials to rank</p>")


def test_times_are_utc_to_the_microsecond(ledger: Ledger) -> None:
    begun = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
    one = record(experiment_id="old")
    timing = one.timing.model_copy(update={"started_at": begun})
    ledger.append(one.model_copy(update={"timing": timing}))
    assert pytest_aecbench.records("old").to_dicts()[0]["started_at"] == begun
