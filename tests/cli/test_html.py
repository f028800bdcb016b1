"""``aec-bench report html``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_aecbench.ledger.store import Ledger
from tests.cli.conftest import Run
from tests.ledgers import records, write_files
from tests.tables import tables


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(tmp_path / "artefacts/ledger")
    for experiment, seed in (("before", 2), ("nightly", 1)):
        for number, record in enumerate(records(30, experiment=experiment, seed=seed)):
            ledger.append(record)
            write_files(tmp_path / "jobs", record, number // 15)
    return tmp_path


def test_the_file_has_the_figures_of_the_other_commands(project: Path, aec_bench: Run) -> None:
    ended = aec_bench("report", "html", "nightly", "--baseline", "before", "-o", "out/r.html")
    assert (ended.code, ended.err) == (0, "")
    page = (project / "out/r.html").read_bytes()
    size = f"{len(page) / 1e6:.1f} MB"
    assert ended.out == f"out/r.html: 30 attempts, all details, {size}\n"
    found = tables(page).found
    board = aec_bench("report", "leaderboard", "--experiment", "nightly", "--json").json()
    head, *rows = found["leaderboard"]
    at = {name: head.index(name) for name in ("agent", "reward", "pass@1", "trials", "errors")}
    assert [tuple(row[index] for index in at.values()) for row in rows] == [
        (
            one["agent"],
            f"{one['mean']:.2f}",
            f"{one['pass_at_1']:.2f}",
            str(one["trials"]),
            str(one["errors"]),
        )
        for one in board["agents"]
    ]
    compared = aec_bench("report", "compare", "before", "nightly", "--json").json()
    assert [(row[0], row[1]) for row in found["compare"][1:]] == [
        (one["after_agent"], f"{one['change']:+.2f}") for one in compared["agents"]
    ]
    saturated = aec_bench("report", "saturation", "--experiment", "nightly", "--json").json()
    verdicts = {row[0]: row[2] for row in found["matrix"][1:]}
    assert verdicts == {task["task"]: task["verdict"] for task in saturated["tasks"]}


def test_two_writes_are_equal_bytes_and_the_latest_is_the_default(
    project: Path, aec_bench: Run
) -> None:
    for name in ("a.html", "b.html"):
        assert aec_bench("report", "html", "-o", name, "--include", "results").code == 0
    assert (project / "a.html").read_bytes() == (project / "b.html").read_bytes()


def test_several_experiments_are_one_report(project: Path, aec_bench: Run) -> None:
    assert aec_bench("report", "html", "before", "nightly", "-o", "both.html").code == 0
    page = (project / "both.html").read_bytes()
    assert len(tables(page).found["trials"]) == 61
    assert b"before, nightly" in page


def test_a_torn_record_is_told_and_the_rest_is_there(project: Path, aec_bench: Run) -> None:
    (project / "artefacts/ledger/nightly/torn.json").write_text('{"schema_version": 1')
    ended = aec_bench("report", "html", "nightly", "-o", "r.html")
    assert ended.code == 0
    assert "torn.json" in ended.err
    page = (project / "r.html").read_text()
    assert "torn.json" in page
    assert len(tables(page).found["trials"]) == 31


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none",), "EXPERIMENT: experiment 'none' not found"),
        (("nightly", "--include", "most"), "--include: 'most' is not valid"),
        (("nightly", "--max-size", "big"), "--max-size: 'big' is not a size"),
        (("nightly", "--baseline", "nightly"), "--baseline: 'nightly' is compared with itself"),
        (("nightly", "-o", "jobs"), "jobs: cannot be written"),
        (("nightly", "-o", "/dev/full"), "/dev/full: cannot be written, No space left on device"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    aec_bench: Run, arguments: tuple[str, ...], message: str
) -> None:
    ended = aec_bench("report", "html", *arguments)
    assert ended.code != 0
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_details_are_left_out_above_the_size(project: Path, aec_bench: Run) -> None:
    aec_bench("report", "html", "nightly", "-o", "r.html")
    limit = (project / "r.html").stat().st_size - 10_000
    out = aec_bench("report", "html", "nightly", "-o", "r.html", "--max-size", f"{limit}").out
    assert "30 attempts, details of " in out
    assert (project / "r.html").stat().st_size <= limit


@pytest.mark.usefixtures("project")
def test_a_device_is_written_to_and_not_replaced(aec_bench: Run) -> None:
    Path("null").symlink_to("/dev/null")
    assert aec_bench("report", "html", "nightly", "-o", "null").code == 0
    assert Path("null").is_symlink()
    assert Path("/dev/null").is_char_device()


def test_trials_that_saw_files_of_the_host_count_if_asked_for(
    project: Path, aec_bench: Run
) -> None:
    for path in (project / "artefacts/ledger/nightly").glob("*.json"):
        record = json.loads(path.read_bytes())
        if record["agent"]["name"] == "codex":
            record["environment"]["mounts"] = ["/data:/data:ro"]
            path.write_text(json.dumps(record))
    boards = {}
    for more in ((), ("--mounted",)):
        assert aec_bench("report", "html", "nightly", "-o", "r.html", *more).code == 0
        page = (project / "r.html").read_bytes()
        board = tables(page).found["leaderboard"][1:]
        found = aec_bench("report", "leaderboard", "--experiment", "nightly", "--json", *more)
        assert [row[0] for row in board] == [one["agent"] for one in found.json()["agents"]]
        assert len(tables(page).found["trials"]) == 31
        boards[more] = {row[0] for row in board}, b"not counted: 6 with --aec-mount" in page
    assert boards[()][0] == boards["--mounted",][0] - {"codex"}
    assert (boards[()][1], boards["--mounted",][1]) == (True, False)
