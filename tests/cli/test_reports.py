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
    names = ("civil/a", "civil/b", "civil/c", "civil/d", "water/e", "water/f")
    for number, task in enumerate(names, start=1):
        for minute, experiment, agent, reward in (
            (0, "first", "it", 1.0),
            (10, "second", "it", 0.12 * number),
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
    assert row[:4] == ["it", "6", "0", "0.42"]
    assert "wall time 30.0 s" in ended.out
    (agent,) = aec_bench("report", "summary", "second", "--json").json()["agents"]
    assert agent["overall"]["mean"]["mean"] == pytest.approx(0.42)
    markdown = aec_bench("report", "summary", "second", "--format", "markdown").out
    assert markdown.startswith("<!-- aec-bench -->\n## aec: `second`\n")


def test_summary_is_of_the_latest_experiment_by_default(ledger: Ledger, aec_bench: Run) -> None:
    ledger.append(record("newest", experiment_id="aaa", minute=40))
    assert aec_bench("report", "summary").out.splitlines()[0] == "aec: aaa"


@pytest.mark.usefixtures("ledger")
def test_leaderboard_has_a_row_per_agent(aec_bench: Run) -> None:
    ended = aec_bench("report", "leaderboard")
    head, *body, blank, pair_head, pair = ended.out.splitlines()
    assert head.split()[:4] == ["agent", "scored", "trials", "errors"]
    assert [line.split()[:4] for line in body] == [
        ["it", "6", "of", "6"],
        ["other", "6", "of", "6"],
    ]
    assert "  0.71 " in body[0]
    assert (blank, pair_head.split()) == (
        "",
        ["agent", "less", "tasks", "difference", "95", "%", "interval", "SE", "Holm's", "p"],
    )
    assert pair.split()[:4] == ["it", "other", "6", "+0.21"]
    assert pair.endswith("  0.031")
    data = aec_bench("report", "leaderboard", "--json").json()
    assert [(one["agent"], one["trials"], one["experiments"]) for one in data["agents"]] == [
        ("it", 12, 2),
        ("other", 6, 1),
    ]
    assert data["agents"][0]["usd"] == pytest.approx(6.0)
    (pair,) = data["pairs"]
    assert (pair["agent"], pair["other"], pair["tasks"]) == ("it", "other", 6)
    assert pair["difference"] == pytest.approx(0.21)
    assert pair["p"] == 2 / 64
    assert pair["low"] < pair["difference"] < pair["high"]


@pytest.mark.usefixtures("ledger")
def test_leaderboard_can_be_narrowed_and_split(aec_bench: Run) -> None:
    one = aec_bench("report", "leaderboard", "--experiment", "first", "--json").json()
    assert [agent["agent"] for agent in one["agents"]] == ["it"]
    split = aec_bench("report", "leaderboard", "--by", "domain", "--json").json()
    assert {name: group["trials"] for name, group in split["agents"][0]["by_domain"].items()} == {
        "civil": 8,
        "water": 4,
    }
    table = aec_bench("report", "leaderboard", "--by", "domain", "--by", "difficulty").out
    assert [line.split()[1] for line in table.splitlines() if line.startswith("agent")] == [
        "scored",
        "difficulty",
        "domain",
        "less",
    ]
    water = aec_bench("report", "leaderboard", "--domain", "water", "--json").json()
    assert water["tasks"] == 2


@pytest.mark.usefixtures("ledger")
def test_leaderboard_is_markdown_and_csv_too(aec_bench: Run) -> None:
    markdown = aec_bench("report", "leaderboard", "--format", "markdown", "--by", "domain").out
    assert "| `it` | 6 of 6 | 12 | 0 | 0.71 |" in markdown
    assert "| `it` | `water` | 4 |" in markdown
    assert "| `it` | `other` | 6 | +0.21 |" in markdown
    text = aec_bench("report", "leaderboard", "--format", "csv", "--by", "domain").out
    found = list(csv.DictReader(io.StringIO(text)))
    assert [(row["agent"], row["by"], row["group"], row["trials"]) for row in found] == [
        ("it", "", "", "12"),
        ("it", "domain", "civil", "8"),
        ("it", "domain", "water", "4"),
        ("other", "", "", "6"),
        ("other", "domain", "civil", "4"),
        ("other", "domain", "water", "2"),
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
    assert counted["tasks"] == 7


@pytest.mark.usefixtures("ledger")
def test_compare_shows_what_changed_and_from_what(aec_bench: Run) -> None:
    ended = aec_bench("report", "compare", "first", "second")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "aec: second compared with first"
    assert lines[2].split()[:5] == ["it", "6", "1.00", "0.42", "-0.58"]
    assert lines[2].endswith(" 0.031")
    assert lines[3].startswith("  6 tasks: differences from ")
    assert lines[4] == "  worse: civil/a 1.00 to 0.12"
    assert "paired: 6 (same task files, agent and repetition)" in lines
    data = aec_bench("report", "compare", "first", "second", "--json").json()
    assert data["agents"][0]["change"] == pytest.approx(-0.58)
    assert data == aec_bench("report", "compare", "first", "second", "--json").json()
    markdown = aec_bench("report", "compare", "first", "second", "--format", "markdown").out
    assert "| `it` | 6 | 1.00 | 0.42 | -0.58 |" in markdown


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
        (["summary", "nope"], "EXPERIMENT: experiment 'nope' not found in "),
        (["summary", "first", "--format", "csv"], "--format: 'csv' is not valid; use one of"),
        (["leaderboard", "--by", "agent"], "--by: 'agent' is not valid; use one of"),
        (["leaderboard", "--k", "0"], "--k: 0 is not valid; use a whole number from 1"),
        (["leaderboard", "--since", "x"], "--since: 'x' is not a time; use one such as"),
        (["compare", "first", "nope"], "EXPERIMENT: experiment 'nope' not found in "),
        (["compare", "first", "first"], "B: 'first' is compared with itself; name another"),
        (
            ["compare", "first", "second", "--tolerance", "0.2"],
            "--tolerance: has no effect by itself",
        ),
        (
            ["compare", "first", "second", "--max-error-rate", "0.2"],
            "--max-error-rate: has no effect by itself; add --fail-on-regression",
        ),
        (["power", "--tasks", "0"], "--tasks: 0 is not valid; use a whole number from 1 to"),
        (["power", "--tasks", "9", "--repetitions", "-1"], "--repetitions: -1 is not valid; use"),
        (["power", "--tasks", "9", "--mean", "1"], "--mean: 1.0 is not valid; use a number"),
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


def test_missing_scores_are_said_in_every_format(ledger: Ledger, aec_bench: Run) -> None:
    for number, task in enumerate(("civil/a", "civil/b", "civil/c", "civil/d", "water/e")):
        ledger.append(
            record("lucky", task, None if number else 1.0, experiment_id="lucky", minute=60)
        )
    table = aec_bench("report", "leaderboard").out
    (row,) = [line for line in table.splitlines() if line.startswith("lucky ")]
    assert row.split()[:4] == ["lucky", "1", "of", "6"]
    assert "  0.20 " in row
    assert "ranked last: lucky; 83.33 % of scores are missing, at most 5 % may be" in table
    assert "lucky" in table.splitlines()[3]
    markdown = aec_bench("report", "leaderboard", "--format", "markdown").out
    assert "| `lucky` | 1 of 6 | 5 | 4 | 1.00 | 0.03 to 1.00 | - | 1.00 | 0.20 |" in markdown
    assert "ranked last: `lucky`; 83.33 % of scores are missing" in markdown
    text = aec_bench("report", "leaderboard", "--format", "csv").out
    (lucky,) = [row for row in csv.DictReader(io.StringIO(text)) if row["agent"] == "lucky"]
    assert (lucky["tasks"], lucky["tasks_scored"], lucky["errors_as_zeros"]) == ("5", "1", "0.2")
    data = aec_bench("report", "leaderboard", "--json").json()["agents"][-1]
    assert (data["tasks_scored"], data["errors_as_zeros"]) == (1, 0.2)
    assert data["missing"] == pytest.approx(5 / 6)
    summary = aec_bench("report", "summary", "lucky")
    assert "  with errors as zeros: 0.20, scored 1 of 5 tasks" in summary.out.splitlines()
    (agent,) = aec_bench("report", "summary", "lucky", "--json").json()["agents"]
    assert agent["overall"]["errors_as_zeros"] == 0.2


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 1, "unknown against first: 16.67 % of scores are missing, at most 5 % may be; "),
        (["--max-error-rate", "0.2"], 1, "5 tasks: too few tasks to tell, at least 6 are needed"),
        (["--max-error-rate", "0.2", "--tolerance", "0.1"], 0, "did not regress against first"),
    ],
)
def test_a_regression_that_cannot_be_told_exits_with_1(
    ledger: Ledger, aec_bench: Run, options: list[str], code: int, said: str
) -> None:
    for number in range(1, 7):
        task = next(
            one.task.task_id
            for one in ledger.records("first")
            if one.trial_key == f"{number:x}" * 64
        )
        reward = 1.0 if number > 1 else None
        ledger.append(
            record("it", task, reward, experiment_id="b", minute=60, trial_key=f"{number:x}" * 64)
        )
    ended = aec_bench("report", "compare", "first", "b", "--fail-on-regression", *options)
    assert ended.code == code
    assert said in ended.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tasks", "14"], "14 tasks, 1 repetition: differences from 0.59 on are likely"),
        (["--tasks", "14", "--repetitions", "3"], "14 tasks, 3 repetitions: differences from 0.51"),
        (["--tasks", "14"], "14 tasks, any number of repetitions: differences from 0.51 on are"),
        (["--tasks", "5"], "5 tasks, 1 repetition: too few tasks to tell, at least 6 are needed"),
    ],
)
def test_power_is_the_least_detectable_difference_of_a_design(
    aec_bench: Run, options: list[str], said: str
) -> None:
    ended = aec_bench("report", "power", *options)
    assert (ended.code, ended.err) == (0, "")
    assert said in ended.out
    data = aec_bench("report", "power", *options, "--json").json()
    assert (data["level"], data["power"], data["min_tasks"]) == (0.05, 0.8, 6)
    assert (data["least_detectable"] is None) is (data["tasks"] < 6)


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
    assert lines[-1] == "tasks: all pass 0, none passes 0, luck 6, tells apart 0, one agent 0"
    data = aec_bench("report", "saturation", "--json").json()
    assert data == aec_bench("report", "saturation", "--format", "json").json()
    assert data["verdicts"]["luck"] == 6
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
    text = aec_bench("report", "saturation", "--format", "csv", "--task", "water/e").out
    (row,) = csv.DictReader(io.StringIO(text))
    assert list(row) == list(data["tasks"][0])
    assert (row["task"], row["trials"]) == ("water/e", "3")


def test_saturation_without_trials_says_so_and_a_wrong_format_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aec_bench: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    assert aec_bench("report", "saturation").out == "no scored trials of agents to judge tasks by\n"
    assert aec_bench("report", "saturation", "--format", "csv").out.startswith("task,verdict,")
    ended = aec_bench("report", "saturation", "--format", "xml")
    assert ended.code == 2
    assert ended.err.startswith("aec-bench: --format: 'xml' is not valid; use one of 'csv'")


@pytest.mark.usefixtures("ledger")
def test_a_wide_terminal_shows_intervals(aec_bench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    head, row, *_ = aec_bench("report", "leaderboard", "--experiment", "third").out.splitlines()
    assert head.split()[:4] == ["agent", "0", "to", "1"]
    assert "┼" in row
    monkeypatch.setenv("COLUMNS", "119")
    assert "┼" not in aec_bench("report", "leaderboard").out


@pytest.mark.usefixtures("ledger")
def test_badge_is_of_one_agent(aec_bench: Run, tmp_path: Path) -> None:
    ended = aec_bench("report", "badge", "second", "-o", "b.svg")
    assert (ended.code, ended.out) == (0, "")
    assert "reward: 0.42 (" in (tmp_path / "b.svg").read_text()
    data = aec_bench("report", "badge", "second", "--metric", "tasks", "--format", "json").json()
    assert (data["label"], data["message"]) == ("tasks", "6 of 6 scored")
    assert (
        "--agent: 'them' has no trial"
        in aec_bench("report", "badge", "second", "--agent", "them").err
    )
    assert "--metric: 'x' is not valid" in aec_bench("report", "badge", "--metric", "x").err


def test_badge_of_several_agents_asks_for_one(ledger: Ledger, aec_bench: Run) -> None:
    ledger.append(record("other", experiment_id="second", minute=11))
    ended = aec_bench("report", "badge", "second")
    assert "--agent: is needed, because there are several; use one of 'it', 'other'" in ended.err
    assert aec_bench("report", "badge", "second", "--agent", "other").code == 0
