"""``aec-bench ledger show --trajectory``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.agents.trajectory import FILE, Trajectory
from pytest_aecbench.ledger.record import Outputs
from pytest_aecbench.ledger.store import Ledger
from tests.cli.conftest import Run
from tests.unit.test_leaderboard import record

TRIAL = "3f0c9a52-7d1e-4b86-9c55-0a6d2f4e8b17"
JOBS = f"jobs/one/{TRIAL}"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The trajectory of a trial with two turns, in a project of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    made = record("a", "civil/x", experiment_id="one", trial_id=TRIAL)
    made = made.model_copy(update={"outputs": Outputs(jobs_dir=JOBS)})
    Ledger(tmp_path / "artefacts/ledger").append(made)
    trajectory = Trajectory(tmp_path / JOBS / "agent")
    trajectory.add("system", "Be brief.")
    trajectory.add("user", "\n".join(map(str, range(100))))
    for turn, command in enumerate(("ls", "printf '\\033[2J'"), 1):
        about = {"model": "m", "tokens_in": 100, "tokens_out": 20, "cost_usd": 0.0006}
        trajectory.add("assistant", "I look.", turn=turn, duration_ms=2100, metadata=about)
        call: dict[str, Any] = {"turn": turn, "call_id": f"c{turn}", "tool_name": "bash"}
        trajectory.add("tool_call", arguments={"command": command}, **call)
        trajectory.add("tool_result", stdout="\x1b[2Jé\n", stderr="", exit_code=0, **call)
    trajectory.close()
    return tmp_path / JOBS / "agent" / FILE


@pytest.mark.usefixtures("path")
def test_the_trajectory_is_shown_turn_by_turn(aec_bench: Run) -> None:
    ended = aec_bench("ledger", "show", TRIAL[:8], "--trajectory")
    assert (ended.code, ended.err) == (0, "")
    shown = ended.out.splitlines()
    assert shown[:5] == ["", "system", "Be brief.", "", "user"]
    assert "[88 lines left out; --turn 0 shows them]" in shown
    assert shown[-6:] == [
        "",
        "turn 2: m, 100 in, 20 out, 0.0006 USD, 2.1 s",
        "I look.",
        "$ printf '\\033[2J'",
        "  exit 0",
        "  \ufffd[2Jé",
    ]


@pytest.mark.usefixtures("path")
def test_one_turn_is_shown_whole(aec_bench: Run) -> None:
    ended = aec_bench("ledger", "show", TRIAL, "--trajectory", "--turn", "0")
    assert ended.out.splitlines() == ["", "system", "Be brief.", "", "user", *map(str, range(100))]
    shown = aec_bench("ledger", "show", TRIAL, "--trajectory", "--turn", "1").out
    assert shown.splitlines()[1].startswith("turn 1: ")
    assert "turn 2" not in shown


@pytest.mark.usefixtures("path")
def test_a_turn_that_is_not_there_is_one_line(aec_bench: Run) -> None:
    ended = aec_bench("ledger", "show", TRIAL, "--trajectory", "--turn", "3", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "aec-bench: --turn: 3 is not a turn of this trajectory; "
        "use a number from 0, the task, to 2\n"
    )


def test_raw_prints_the_entries_and_json_one_document(aec_bench: Run, path: Path) -> None:
    _, *stored = [json.loads(line) for line in path.read_text().splitlines()]
    raw = aec_bench("ledger", "show", TRIAL, "--trajectory", "--raw").out
    assert raw.isascii()
    assert [json.loads(line) for line in raw.splitlines()] == stored
    document = aec_bench("ledger", "show", TRIAL, "--trajectory", "--json").json()
    assert document == {"trial_id": TRIAL, "entries": stored}
    (call,) = [
        json.loads(line)["arguments"]["command"]
        for line in aec_bench("ledger", "show", TRIAL, "--raw", "--turn", "1").out.splitlines()
        if "tool_call" in line
    ]
    assert call == "ls"


def test_a_torn_trajectory_is_shown_and_a_damaged_one_is_told(aec_bench: Run, path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    torn = aec_bench("ledger", "show", TRIAL, "--trajectory")
    assert (torn.code, torn.err) == (0, "")
    assert torn.out.splitlines()[-1] == "$ printf '\\033[2J'"
    path.write_bytes(whole.replace(b'"role": "system"', b'"role": 7'))
    damaged = aec_bench("ledger", "show", TRIAL, "--trajectory")
    assert damaged.code == 0
    assert damaged.err == (f"aec-bench: {path}: line 2 is not an entry of a trajectory; skipped\n")
    assert damaged.out.splitlines()[:2] == ["", "user"]


def test_a_trial_without_a_trajectory_says_so(aec_bench: Run, path: Path) -> None:
    path.unlink()
    ended = aec_bench("ledger", "show", TRIAL, "--trajectory")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"aec-bench: TRIAL: {TRIAL} has no trajectory in {JOBS}/agent; only agents that call a "
        "model keep one, such as tool_loop, and it lasts as long as the trial's files\n"
    )


def test_a_trajectory_that_cannot_be_read_is_one_line(aec_bench: Run, path: Path) -> None:
    path.unlink()
    path.mkdir()
    ended = aec_bench("ledger", "show", TRIAL, "--trajectory")
    assert ended.code == 1
    assert ended.err == f"aec-bench: {path}: not a regular file\n"
