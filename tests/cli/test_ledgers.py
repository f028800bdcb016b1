"""``aec-bench ledger``."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

import pytest_aecbench
from pytest_aecbench.ledger.record import TrialRecord
from pytest_aecbench.ledger.store import Ledger
from tests.cli.conftest import Run
from tests.unit.test_leaderboard import record

IDS = [f"{digit}f0c9a52-7d1e-4b86-9c55-0a6d2f4e8b17" for digit in "123"]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger with two experiments and, in the second, a file that holds no record."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(tmp_path / "artefacts/ledger")
    ledger.append(record("a", "civil/x", 1.0, experiment_id="one", trial_id=IDS[0]))
    ledger.append(record("b", "civil/y", 0.25, minute=1, experiment_id="one", trial_id=IDS[1]))
    ledger.append(record("a", "water/z", None, minute=2, experiment_id="two", trial_id=IDS[2]))
    (ledger.root / "two/broken.json").write_text("{")
    return ledger


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.mark.usefixtures("ledger")
def test_list_shows_experiments_and_reports_broken_files(aec_bench: Run) -> None:
    ended = aec_bench("ledger", "list")
    assert ended.code == 0
    head, *body = rows(ended.out)
    assert head == ["experiment", "started", "attempts", "passed", "failed", "error", "agents"]
    assert [(row[0], row[3:]) for row in body] == [
        ("one", ["2", "1", "1", "0", "a,", "b"]),
        ("two", ["1", "0", "0", "1", "a"]),
    ]
    (line,) = ended.err.splitlines()
    assert "two/broken.json: " in line
    assert line.endswith("; skipped")


@pytest.mark.parametrize(
    ("filters", "trials"),
    [
        ([], IDS),
        (["--experiment", "one"], IDS[:2]),
        (["--agent", "a"], [IDS[0], IDS[2]]),
        (["--task", "civil/*"], IDS[:2]),
        (["--domain", "water"], IDS[2:]),
        (["--outcome", "passed"], IDS[:1]),
        (["--outcome", "failed"], IDS[1:2]),
        (["--outcome", "error"], IDS[2:]),
        (["--since", "2026-04-12T10:01"], IDS[1:]),
        (["--since", "2026-04-13"], []),
        (["--dataset", "nope"], []),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_trials_are_listed_and_exported_by_filters(
    aec_bench: Run, filters: list[str], trials: list[str]
) -> None:
    listed = aec_bench("ledger", "list", "--trials", "--json", *filters).json()
    assert [one["trial"] for one in listed] == trials
    exported = aec_bench("ledger", "export", *filters).out.splitlines()
    assert [TrialRecord.from_json(line.encode()).trial_id for line in exported] == trials


@pytest.mark.usefixtures("ledger")
def test_a_trial_is_a_line_with_its_outcome(aec_bench: Run) -> None:
    lines = aec_bench("ledger", "list", "--trials").out.splitlines()
    assert "passed" in lines[1]
    assert "civil/x[a-1]" in lines[1]
    assert "error (launch)" in lines[3]


def test_show_finds_a_trial_by_the_beginning_of_its_id(ledger: Ledger, aec_bench: Run) -> None:
    ended = aec_bench("ledger", "show", "2f0")
    assert ended.code == 0
    shown = dict(line.split(maxsplit=1) for line in ended.out.splitlines() if line[0] != " ")
    assert shown["trial_id"] == IDS[1]
    assert shown["evaluation.reward"] == "0.25"
    assert shown["record"] == f"artefacts/ledger/one/{IDS[1]}.json"
    assert shown["file"] == "jobs/exp-1/x/workspace/output.jsonl (12 bytes, gone)"
    stored = json.loads((ledger.root / f"one/{IDS[1]}.json").read_text())
    assert aec_bench("ledger", "show", IDS[1], "--json").json() == stored


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "9"], "TRIAL: trial '9' not found in "),
        (["show", ""], "TRIAL: trial '' not found in "),
        (["show", "../one"], "TRIAL: trial '../one' not found in "),
        (["list", "--experiment", "nope"], "--experiment: experiment 'nope' not found in "),
        (["list", "--outcome", "bad"], "--outcome: 'bad' is not valid; use one of 'error'"),
        (["list", "--since", "soon"], "--since: 'soon' is not a time; use one such as"),
        (["export", "--format", "xml"], "--format: 'xml' is not valid; use one of 'csv', 'jsonl'"),
        (["export", "--format", "parquet"], "--format: parquet is not text; name a file with"),
        (["export", "--details"], "--details: jsonl has them; use --format csv or parquet with it"),
        (["export", "--experiment", "one", "-o", "no/such"], "no/such: cannot be written, No such"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_a_mistake_is_one_line_and_exit_code_2(
    aec_bench: Run, arguments: list[str], said: str
) -> None:
    ended = aec_bench("ledger", *arguments)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert said in line


def test_a_prefix_of_several_ids_is_refused_with_them(ledger: Ledger, aec_bench: Run) -> None:
    other = IDS[0].replace("8b17", "8b18")
    ledger.append(record(experiment_id="two", trial_id=other))
    ended = aec_bench("ledger", "show", "1f0c")
    assert ended.code == 2
    assert f"TRIAL: '1f0c' begins 2 ids; use more of one: {IDS[0]}, {other}" in ended.err


def test_a_record_that_is_broken_is_one_line(ledger: Ledger, aec_bench: Run) -> None:
    ended = aec_bench("ledger", "show", "broken")
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert "aec-bench: artefacts/ledger/two/broken.json: " in line


@pytest.mark.usefixtures("ledger")
def test_csv_has_a_row_per_attempt(aec_bench: Run) -> None:
    assert aec_bench("ledger", "export", "--format", "csv", "-o", "out.csv").out == ""
    written = Path("out.csv").read_text()
    assert written == aec_bench("ledger", "export", "--format", "csv").out
    first, second, third = csv.DictReader(io.StringIO(written))
    assert (first["trial_id"], first["reward"], first["passed"]) == (IDS[0], "1.0", "True")
    assert (second["outcome"], second["usd"], second["duration_sec"]) == ("failed", "0.5", "30.0")
    assert (third["reward"], third["error_cause"], third["dataset"]) == ("", "launch", "")


@pytest.mark.needs("arrow")
@pytest.mark.usefixtures("ledger")
def test_parquet_is_that_of_python_and_details_are_on_demand(aec_bench: Run) -> None:
    import pyarrow.parquet

    assert aec_bench("ledger", "export", "--format", "parquet", "-o", "out.parquet").out == ""
    found = pytest_aecbench.records()
    assert pyarrow.parquet.read_table("out.parquet").equals(found.to_arrow(details=False))
    aec_bench("ledger", "export", "--agent", "a", "--format", "parquet", "--details", "-o", "a")
    assert pyarrow.parquet.read_table("a").equals(pytest_aecbench.records(agent="a").to_arrow())
    aec_bench("ledger", "export", "--format", "csv", "--details", "-o", "out.csv")
    found.to_csv("expected.csv")
    assert Path("out.csv").read_bytes() == Path("expected.csv").read_bytes()


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
@pytest.mark.usefixtures("ledger")
def test_a_pipe_or_device_is_written_to_and_not_replaced(aec_bench: Run, format_: str) -> None:
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    aec_bench("ledger", "export", "--format", format_, "-o", "pipe")
    assert IDS[0] in os.read(reader, 65536).decode()
    os.close(reader)
    assert Path("pipe").is_fifo()


def test_control_characters_do_not_reach_the_terminal(ledger: Ledger, aec_bench: Run) -> None:
    ledger.append(record("a", "civil/\x1b[2J", experiment_id="three", trial_id=IDS[0]))
    for command in (["list", "--trials"], ["show", IDS[0]]):
        ended = aec_bench("ledger", *command)
        assert "\x1b" not in ended.out


def test_an_empty_ledger_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aec_bench: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    assert aec_bench("ledger", "list").out == "nothing in artefacts/ledger\n"
    assert aec_bench("ledger", "list", "--json").json() == []
