"""``aec-bench report``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from pytest_aecbench.ledger.store import Ledger
from tests.cli.conftest import Run
from tests.unit.test_leaderboard import record


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Two experiments of the same agent, which got worse, and a third of another agent."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(tmp_path / "artefacts/ledger")
    for number, task in enumerate(("civil/a", "civil/b", "water/c"), start=1):
        for minute, experiment, agent, reward in (
            (0, "first", "it", 1.0),
            (10, "second", "it", 0.2 * number),
            (20, "third", "other", 0.5),
        ):
            key = f"{number:x}" * 64 if agent == "it" else f"{number + 8:x}" * 64
            ledger.append(
                record(agent, task, reward, experiment_id=experiment, minute=minute, trial_key=key)
            )
    return ledger


@pytest.mark.usefixtures("ledger")
def test_summary_is_pytests_own(aec_bench: Run) -> None:
    ended = aec_bench("report", "summary", "second")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == "aec: second"
    (row,) = [line.split() for line in ended.out.splitlines() if line.startswith("it ")]
    assert row[:4] == ["it", "3", "0", "0.40"]
    assert "wall time 30.0 s" in ended.out
    (agent,) = aec_bench("report", "summary", "second", "--json").json()["agents"]
    assert agent["overall"]["mean"]["mean"] == pytest.approx(0.4)
    markdown = aec_bench("report", "summary", "second", "--format", "markdown").out
    assert markdown.startswith("## aec: `second`\n")


def test_summary_is_of_the_latest_experiment_by_default(ledger: Ledger, aec_bench: Run) -> None:
    ledger.append(record("newest", experiment_id="aaa", minute=40))
    assert aec_bench("report", "summary").out.splitlines()[0] == "aec: aaa"


@pytest.mark.usefixtures("ledger")
def test_leaderboard_has_a_row_per_agent(aec_bench: Run) -> None:
    ended = aec_bench("report", "leaderboard")
    head, *body = ended.out.splitlines()
    assert head.split()[:4] == ["agent", "tasks", "trials", "errors"]
    assert [line.split()[0] for line in body] == ["it", "other"]
    assert "  0.70 " in body[0]
    data = aec_bench("report", "leaderboard", "--json").json()
    assert [(one["agent"], one["trials"], one["experiments"]) for one in data["agents"]] == [
        ("it", 6, 2),
        ("other", 3, 1),
    ]
    assert data["agents"][0]["usd"] == pytest.approx(3.0)


@pytest.mark.usefixtures("ledger")
def test_leaderboard_can_be_narrowed_and_split(aec_bench: Run) -> None:
    one = aec_bench("report", "leaderboard", "--experiment", "first", "--json").json()
    assert [agent["agent"] for agent in one["agents"]] == ["it"]
    split = aec_bench("report", "leaderboard", "--by", "domain", "--json").json()
    assert {name: group["trials"] for name, group in split["agents"][0]["by_domain"].items()} == {
        "civil": 4,
        "water": 2,
    }
    table = aec_bench("report", "leaderboard", "--by", "domain", "--by", "difficulty").out
    assert [line.split()[1] for line in table.splitlines() if line.startswith("agent")] == [
        "tasks",
        "difficulty",
        "domain",
    ]
    water = aec_bench("report", "leaderboard", "--domain", "water", "--json").json()
    assert water["tasks"] == 1


@pytest.mark.usefixtures("ledger")
def test_leaderboard_is_markdown_and_csv_too(aec_bench: Run) -> None:
    markdown = aec_bench("report", "leaderboard", "--format", "markdown", "--by", "domain").out
    assert "| `it` | 3 of 3 | 6 | 0 | 0.70 |" in markdown
    assert "| `it` | `water` | 2 |" in markdown
    text = aec_bench("report", "leaderboard", "--format", "csv", "--by", "domain").out
    found = list(csv.DictReader(io.StringIO(text)))
    assert [(row["agent"], row["by"], row["group"], row["trials"]) for row in found] == [
        ("it", "", "", "6"),
        ("it", "domain", "civil", "4"),
        ("it", "domain", "water", "2"),
        ("other", "", "", "3"),
        ("other", "domain", "civil", "2"),
        ("other", "domain", "water", "1"),
    ]


def test_leaderboard_says_what_it_does_not_count(ledger: Ledger, aec_bench: Run) -> None:
    ledger.append(record("it", "civil/a", 0.0, digest="new", experiment_id="fourth", minute=50))
    ledger.append(
        record("it", "secret/s", 0.0, visibility="holdout", experiment_id="fourth", minute=51)
    )
    out = aec_bench("report", "leaderboard").out
    assert "not counted: 3 of earlier versions of civil/a" in out
    assert "not counted: 1 of held-out tasks; --holdout counts them" in out
    assert "secret" not in out
    counted = aec_bench("report", "leaderboard", "--holdout", "--json").json()
    assert counted["held_out"] == 0
    assert counted["tasks"] == 4


@pytest.mark.usefixtures("ledger")
def test_compare_shows_what_changed_and_from_what(aec_bench: Run) -> None:
    ended = aec_bench("report", "compare", "first", "second")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "aec: second compared with first"
    assert lines[2].split()[:5] == ["it", "3", "1.00", "0.40", "-0.60"]
    assert lines[3] == "  worse: civil/a 1.00 to 0.20"
    assert "paired: 3 (same task files, agent and repetition)" in lines
    data = aec_bench("report", "compare", "first", "second", "--json").json()
    assert data["agents"][0]["change"] == pytest.approx(-0.6)
    assert data == aec_bench("report", "compare", "first", "second", "--json").json()
    markdown = aec_bench("report", "compare", "first", "second", "--format", "markdown").out
    assert "| `it` | 3 | 1.00 | 0.40 | -0.60 |" in markdown


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["first", "second"], 1),
        (["second", "first"], 0),
        (["first", "second", "--tolerance", "0.7"], 0),
        (["first", "second", "--tolerance", "0.5"], 1),
        (["third", "first"], 0),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_a_regression_exits_with_1_and_a_line(
    aec_bench: Run, arguments: list[str], code: int
) -> None:
    ended = aec_bench("report", "compare", *arguments, "--fail-on-regression")
    assert ended.code == code
    (line,) = ended.err.splitlines()
    assert (" regressed against " in line) is bool(code)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["summary", "nope"], "EXPERIMENT: 'nope' is not an experiment in "),
        (["summary", "first", "--format", "csv"], "--format: 'csv' is not valid; use one of"),
        (["leaderboard", "--by", "agent"], "--by: 'agent' is not valid; use one of"),
        (["leaderboard", "--k", "0"], "--k: 0 is not valid; use a whole number from 1"),
        (["leaderboard", "--since", "x"], "--since: 'x' is not a time; use one such as"),
        (["compare", "first", "nope"], "EXPERIMENT: 'nope' is not an experiment in "),
        (["compare", "first", "first"], "B: 'first' is compared with itself; name another"),
        (
            ["compare", "first", "second", "--tolerance", "0.2"],
            "--tolerance: has no effect by itself",
        ),
        (
            ["compare", "first", "second", "--fail-on-regression", "--tolerance", "2"],
            "--tolerance: 2.0 is not valid; use a number from 0 to 1",
        ),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_a_mistake_is_one_line_and_exit_code_2(
    aec_bench: Run, arguments: list[str], said: str
) -> None:
    ended = aec_bench("report", *arguments)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert said in line


def test_what_cannot_be_compared_is_no_pass(ledger: Ledger, aec_bench: Run) -> None:
    ledger.append(record("it", "other/x", 1.0, experiment_id="apart"))
    ended = aec_bench("report", "compare", "first", "apart", "--fail-on-regression")
    assert ended.code == 2
    assert "B: no trial of 'apart' pairs with one of 'first'" in ended.err
    assert aec_bench("report", "compare", "first", "apart").code == 0


def test_no_records_are_no_error_for_a_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aec_bench: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    assert aec_bench("report", "leaderboard").out == "no trials to rank\n"
    assert aec_bench("report", "leaderboard", "--format", "csv").code == 0


@pytest.mark.usefixtures("ledger")
def test_saturation_lists_tasks_in_every_format(aec_bench: Run) -> None:
    ended = aec_bench("report", "saturation")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["task", "verdict", "agents", "trials", "passed", "undecided"]
    assert lines[1].split() == ["civil/a", "luck", "2", "3", "33%", "1", "of", "1"]
    assert lines[-1] == "tasks: all pass 0, none passes 0, luck 3, tells apart 0, one agent 0"
    data = aec_bench("report", "saturation", "--json").json()
    assert data == aec_bench("report", "saturation", "--format", "json").json()
    assert data["verdicts"]["luck"] == 3
    assert data["tasks"][0] == {
        "task": "civil/a",
        "verdict": "luck",
        "agents": 2,
        "trials": 3,
        "passed": 1,
        "pass_rate": pytest.approx(1 / 3),
        "undecided": 1,
        "repeated": 1,
    }
    markdown = aec_bench("report", "saturation", "--format", "markdown").out
    assert "| `civil/a` | luck | 2 | 3 | 33% | 1 of 1 |" in markdown
    text = aec_bench("report", "saturation", "--format", "csv", "--task", "water/*").out
    (row,) = csv.DictReader(io.StringIO(text))
    assert list(row) == list(data["tasks"][0])
    assert (row["task"], row["trials"]) == ("water/c", "3")


def test_saturation_without_trials_says_so_and_a_wrong_format_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aec_bench: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    assert aec_bench("report", "saturation").out == "no scored trials of agents to judge tasks by\n"
    assert aec_bench("report", "saturation", "--format", "csv").out.startswith("task,verdict,")
    ended = aec_bench("report", "saturation", "--format", "xml")
    assert ended.code == 2
    assert ended.err.startswith("aec-bench: --format: 'xml' is not valid; use one of 'csv'")
