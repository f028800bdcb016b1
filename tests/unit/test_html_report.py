"""The HTML file has the figures of the other reports, the same bytes each time, and no more."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import subprocess
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_aecbench.reports.html as html
import pytest_aecbench.view as view
from pytest_aecbench.ledger.checks import CheckSummary
from pytest_aecbench.ledger.record import AgentOutcome, Cost, Failure, Timing, TrialRecord
from pytest_aecbench.reports.columns import PAIRED, TABLE, cells, number_text
from pytest_aecbench.reports.comparison import compare
from pytest_aecbench.reports.gates import Verdict
from pytest_aecbench.reports.html.charts import WIDE, ends_of, shape, trend
from pytest_aecbench.reports.html.columns import packed, why
from pytest_aecbench.reports.html.details import by_worth
from pytest_aecbench.reports.html.page import asset, render
from pytest_aecbench.reports.html.pages import matrix
from pytest_aecbench.reports.html.pages.errors import folded
from pytest_aecbench.reports.html.pages.rewards import spread
from pytest_aecbench.reports.html.source import Evidence, Figures, Source
from pytest_aecbench.reports.html.svg import element
from pytest_aecbench.reports.html.tasks import task_pages
from pytest_aecbench.reports.html.texts import shown, shown_in
from pytest_aecbench.reports.html.timeline import (
    PHASES,
    Attempts,
    Clock,
    lanes,
    spans,
    timeline,
    usage,
)
from pytest_aecbench.reports.leaderboard import leaderboard
from pytest_aecbench.reports.rankings import board_cells
from pytest_aecbench.reports.reliability import reliability
from pytest_aecbench.reports.results import TrialResult, final_results
from pytest_aecbench.reports.saturation import saturation
from tests.ledgers import records
from tests.tables import tables
from tests.unit.test_leaderboard import record
from tests.unit.test_record import STARTED, failed, scored

ASSETS = Path(html.__file__).parent / "assets"
VIEWER = Path(view.__file__).parent / "assets"
RECORDS = list(records(90))
TIMED_OUT = AgentOutcome(status="timed_out")


def unpacked(page: bytes, name: str) -> Any:
    (text,) = re.findall(rb'id="%s">([^<]*)</script>' % name.encode(), page)
    return json.loads(gzip.decompress(base64.b64decode(text)))


@pytest.fixture(scope="module")
def page() -> bytes:
    return render(Source(RECORDS)).text


def test_the_same_records_give_the_same_bytes_in_any_order(page: bytes) -> None:
    assert render(Source(RECORDS)).text == page
    assert render(Source(RECORDS[::-1])).text == page


def test_the_leaderboard_is_that_of_the_command(page: bytes) -> None:
    board = leaderboard(RECORDS)
    _, *rows = tables(page).found["leaderboard"]
    for found, row in zip(rows, board.rows, strict=True):
        expected = board_cells(board, row)
        assert [found[0], *found[2:]][: len(expected)] == list(expected)
    _, *pairs = tables(page).found["pairs"]
    assert [row[2:] for row in pairs] == [list(cells(PAIRED, pair)) for pair in board.pairs]
    _, *domains = tables(page).found["by-domain"]
    assert [row[2:] for row in domains] == [
        list(cells(TABLE, group)) for row in board.rows for group in row.summary.by_domain.values()
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["civil/x", "civil/y", "water/z"]),
            st.sampled_from([0.0, 0.25, 1.0, None]),
            st.integers(1, 3),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_the_records_the_figures_are_those_of_the_command(
    made: list[tuple[str, str, float | None, int]],
) -> None:
    found = [
        record(
            agent,
            task,
            reward,
            repetition=repetition,
            minute=minute,
            trial_id=f"{minute:08x}-0000-4000-8000-000000000000",
        )
        for minute, (agent, task, reward, repetition) in enumerate(made)
    ]
    board = leaderboard(found)
    shown_ = tables(render(Source(found)).text).found
    for cells_, row in zip(shown_["leaderboard"][1:], board.rows, strict=True):
        expected = board_cells(board, row)
        assert [cells_[0], *cells_[2:]][: len(expected)] == list(expected)
    groups = [group for row in board.rows for group in row.summary.by_domain.values()]
    assert ("by-domain" in shown_) is (len({one.task.domain for one in found}) > 1)
    if "by-domain" in shown_:
        assert [row[2:] for row in shown_["by-domain"][1:]] == [
            list(cells(TABLE, group)) for group in groups
        ]
    assert [row[2:] for row in shown_.get("pairs", [])[1:]] == [
        list(cells(PAIRED, pair)) for pair in board.pairs
    ]
    assert {row[0]: row[2] for row in shown_["matrix"][1:]} == {
        **{one.task.task_id: "" for one in found},
        **{task.task_id: task.verdict for task in saturation(found).tasks},
    }
    for cells_, row in zip(shown_["cost"][1:], board.rows, strict=True):
        mean = row.summary.overall.mean
        assert cells_[:2] == [row.agent, number_text(mean.mean if mean else None)]
    curves = {row.agent: reliability(final_of(found, row.agent)) for row in board.rows}
    for agent, n, _, *values in shown_["reliability"][1:]:
        of = curves[agent]
        assert of
        at, hat = [f"{one:.2f}" for one in of.pass_at], [f"{one:.2f}" for one in of.pass_hat[1:]]
        assert (n, [one for one in values if one]) == (f"{of.n}", at + hat)
    errors = sum(row.summary.overall.errors for row in board.rows)
    counts = [int(cell or 0) for row in shown_.get("errors", [])[1:] for cell in row[1:]]
    assert sum(counts) == errors
    assert len(shown_["trials"]) == len(found) + 1


def final_of(found: list[TrialRecord], agent: str) -> list[TrialResult]:
    results = final_results(TrialResult.from_record(one) for one in found)
    return [result for result in results if result.agent == agent]


def test_every_section_has_a_table_and_every_attempt_is_a_row(page: bytes) -> None:
    found = tables(page)
    assert [name for name, inner in found.sections.items() if not inner] == ["overview"]
    assert len(found.found["trials"]) == len(RECORDS) + 1


def test_a_comparison_is_that_of_the_command() -> None:
    before = list(records(90, experiment="before", seed=2, shift=0.2))
    sides = ([TrialResult.from_record(one) for one in side] for side in (before, RECORDS))
    comparison = compare(*sides, names=("before", "nightly"))
    text = render(Source(RECORDS, comparison=comparison)).text
    _, *rows = tables(text).found["compare"]
    assert [[*row[:2], *row[5:]] for row in rows] == [
        [
            agent.name,
            f"{agent.change:+.2f}",
            f"{agent.before:.2f}",
            f"{agent.after:.2f}",
            f"{agent.pairs}",
        ]
        for agent in comparison.agents
    ]
    worse = comparison.agents[0].worse[0]
    assert tables(text).found[f"changed-{comparison.agents[0].name}"][1][0] == worse.task_id


def test_the_verdict_of_the_gate_stands_at_the_top() -> None:
    verdict = Verdict(False, ("mean = 0.10 (1 task), needs >= 0.5: does not hold",))
    text = render(Source(RECORDS, verdict=verdict)).text.decode()
    assert text.index("The gate failed.") < text.index("does not hold") < text.index("not scored")


SECRET_ANSWER = "the-expected-answer"


def with_answers(include: str) -> str:
    one = record(
        evaluation=scored(0.5, details={"part-of-it": 0.5}, breakdown={"x": SECRET_ANSWER}),
        outputs={"output_excerpt": "what-it-wrote"},
        warnings=("a-warning-text",),
    )
    broken = record(
        "other", evaluation=failed(Failure(cause="launch", type="X", message="message-of-it"))
    )
    evidence = Evidence(
        instruction="do-this-please",
        entries=[{"role": "user", "content": "it-was-said"}],
        files=[("a.txt", 3, "in-the-file")],
        verifier_output="verifier-said",
    )
    source = Source([one, broken], include=include, evidence=lambda record: evidence)
    page = render(source).text
    packs = re.findall(rb'application/gzip" id="[^"]+">([^<]*)</script>', page)
    inner = "".join(gzip.decompress(base64.b64decode(pack)).decode() for pack in packs)
    return page.decode() + inner


@pytest.mark.parametrize(
    ("include", "has", "lacks"),
    [
        ("figures", (), (SECRET_ANSWER, "part-of-it", "what-it-wrote", "message-of-it")),
        ("figures", (), ("a-warning-text", "do-this-please", "it-was-said", "contains answers")),
        ("results", (SECRET_ANSWER, "part-of-it", "what-it-wrote", "message-of-it"), ()),
        ("results", ("contains answers",), ("do-this-please", "it-was-said", "in-the-file")),
        ("all", ("do-this-please", "it-was-said", "in-the-file", "verifier-said"), ()),
    ],
)
def test_a_level_has_no_more_than_it_says(
    include: str, has: tuple[str, ...], lacks: tuple[str, ...]
) -> None:
    text = with_answers(include)
    assert [word for word in has if word not in text] == []
    assert [word for word in lacks if word in text] == []


def test_held_out_tasks_are_counted_and_not_named_unless_asked_for() -> None:
    hidden = record("it", "secret/task", visibility="holdout", minute=1)
    found = [record(), hidden]
    source = Source(found, evidence=lambda record: Evidence(instruction=record.task.task_id))
    text = render(source).text.decode()
    inner = json.dumps([unpacked(text.encode(), name) for name in ("columns", "tasks-data", "b-0")])
    assert "secret" not in text + inner
    assert hidden.trial_id not in text
    assert "not counted: 1 of held-out tasks" in text
    assert "secret/task" in render(replace(source, holdout=True)).text.decode()


def test_details_go_in_by_worth_until_the_page_is_full() -> None:
    def evidence(record: TrialRecord) -> Evidence:
        noise = random.Random(record.trial_id).randbytes(3000).hex()
        return Evidence(entries=[{"role": "assistant", "content": noise}])

    source = Source(RECORDS, evidence=evidence)
    whole = render(source)
    assert whole.detailed == whole.trials == len(RECORDS)
    limit = (len(whole.text) + len(render(replace(source, include="figures")).text)) // 2
    small = render(source, max_bytes=limit)
    assert 0 < small.detailed < small.trials
    assert len(small.text) <= limit
    places = unpacked(small.text, "places")
    order = by_worth(Figures(source))
    assert {index for index, place in enumerate(places) if place >= 0} == set(
        order[: small.detailed]
    )


def test_errors_come_first_then_failed_then_one_passed_of_each() -> None:
    found = [
        record(reward=1.0, minute=0, repetition=1),
        record(reward=1.0, minute=1, repetition=2),
        record(reward=0.0, minute=2, repetition=3),
        record(reward=None, minute=3, repetition=4),
    ]
    numbered = [
        one.model_copy(update={"trial_id": f"{n:08x}-0000-4000-8000-000000000000"})
        for n, one in enumerate(found)
    ]
    assert by_worth(Figures(Source(numbered))) == [3, 2, 0, 1]


def test_secrets_are_removed_once_more() -> None:
    def scrub(data: Any) -> Any:
        return json.loads(json.dumps(data).replace("sk-secret", "<KEY>"))

    evidence = Evidence(
        instruction="say sk-secret", entries=[{"role": "user", "content": "sk-secret"}]
    )
    source = Source([record()], evidence=lambda record: evidence, scrub=scrub)
    text = render(source).text
    (key,) = re.findall(rb'id="i-(\w+)"', text)
    assert unpacked(text, f"i-{key.decode()}") == "say <KEY>"
    assert unpacked(text, "b-0")[0]["entries"][0]["text"] == "<KEY>"


def test_a_number_that_json_has_not_costs_no_page() -> None:
    arguments = {"x": float("nan")}
    call = {"role": "tool_call", "tool_name": "bash", "arguments": arguments}
    text = render(Source([record()], evidence=lambda _: Evidence(entries=[call]))).text
    assert "nan" in str(unpacked(text, "b-0")[0]["entries"])


def test_the_page_loads_nothing_and_runs_only_its_own_script(page: bytes) -> None:
    text = page.decode()
    addresses = set(re.findall(r"https?://[^\s\"'<)]*", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe" not in policy[1]
    assert re.findall(r"<[^>]* (?:on\w+|style)=", text) == []


def test_markup_is_made_of_nothing_but_our_own_drawings_and_files() -> None:
    template = (ASSETS / "page.html").read_text()
    assert "safe" not in template
    assert template.count("| drawn") == 1
    sources = [path.read_text() for path in Path(html.__file__).parent.rglob("*.py")]
    assert sum(source.count("Markup(") for source in sources) == 4
    script = (ASSETS / "app.js").read_text()
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
        "document.write",
        "Function(",
    ):
        assert way not in script


def test_script_and_style_are_small() -> None:
    sizes = {name: len(asset(name).encode()) for name in ("app.js", "style.css")}
    assert sizes["app.js"] <= 40_000
    assert sum(sizes.values()) <= 60_000


@pytest.mark.needs("node")
@pytest.mark.parametrize(
    "script", [ASSETS / "app.js", VIEWER / "view.js"], ids=lambda one: one.name
)
def test_a_script_has_no_mistakes_of_grammar(script: Path) -> None:
    done = subprocess.run(["node", "--check", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31mred\x1b[0m\0\ud800=1+1"


def test_foreign_text_is_text() -> None:
    assert shown("a\x1b[1mb\x1b]0;title\x07c\r\nd\te") == "abc\nd\te"
    assert shown("\u202e\0\ud800\U000e0041") == "\\u202e\\u0000\\ud800\\U000e0041"
    assert shown("naïve 日本 \u00a0€") == "naïve 日本 \u00a0€"
    assert shown_in({"\u202ek": ["\0", 1, None]}) == {"\\u202ek": ["\\u0000", 1, None]}
    assert element("text", "<b>&", x=1) == '<text x="1">&lt;b&gt;&amp;</text>'


def test_hostile_names_stay_text_in_the_page() -> None:
    text = render(Source([record(HOSTILE.replace("\ud800", ""), f"civil/{HOSTILE[:30]}")])).text
    assert b"<img" not in text
    assert b"\x1b" not in text
    assert "\u202e" not in text.decode()


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_in_charts_and_on_shades_can_be_read_in_both_schemes() -> None:
    style = (ASSETS / "style.css").read_text()
    pairs = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", style))
    colours = {name: value.split(", ") for name, value in pairs.items()}
    for scheme in (0, 1):
        for ink, ground in (
            *(("ink", ground) for ground in ("card", "page", "faint", "line", "accent-soft")),
            *(("soft", ground) for ground in ("card", "page")),
            ("ink", "range"),
            *((f"{kind}", f"{kind}-soft") for kind in ("good", "bad", "warn")),
            *((kind, "card") for kind in ("good", "bad", "warn", "accent")),
        ):
            found = contrast(colours[ink][scheme], colours[ground][scheme])
            assert found >= 4.5, (ink, ground, scheme, round(found, 2))
        for series in range(8):
            assert contrast(colours[f"c{series}"][scheme], colours["card"][scheme]) >= 3
    shades = re.findall(r", \.s\d+ \{ background: (#\w{6}); \}", style)
    assert len(shades) == 11
    assert min(contrast(shade, "#10151b") for shade in shades) >= 4.5


def test_why_is_one_line() -> None:
    one = record(evaluation=scored(0.35, details={"compliance": 0, "current": 1}))
    assert why(one) == "reward 0.35, needed 1 (compliance 0)"
    assert why(one, with_results=False) == "reward 0.35, needed 1"
    broken = record(evaluation=failed(Failure(cause="launch", type="X", message="a\nb")))
    assert why(broken) == "launch: a\ufffdb"
    passed = record(evaluation=scored(1.0))
    assert why(passed) == ""
    assert why(passed.model_copy(update={"agent_result": TIMED_OUT})) == "agent: timed out"


def test_messages_that_differ_by_digits_and_ids_are_the_same() -> None:
    one = folded("container 4f1c2ab9d0e1 gave up after 12 s")
    assert (
        one == folded("container 9a8b7c6d5e4f gave up after 3 s") == "container … gave up after … s"
    )


def test_a_message_of_any_shape_is_folded_at_once() -> None:
    assert folded("a sandbox deadbeef-cafe died") == "a sandbox deadbeef-cafe died"
    started = time.process_time()
    for part in ("a-", "aaaaaaa-aaaa", "aaaaaaa-aaaaz", "1-", "a"):
        folded(part * 50_000 + "z")
    assert time.process_time() - started < 5  # it took the square of the length: minutes


LAUNCH = Failure(cause="launch", type="X", message="no room for 12", phase="launch")


def test_errors_are_counted_by_cause_agent_phase_backend_and_day() -> None:
    key = "a" * 64
    found = [
        record("a", evaluation=failed(LAUNCH), trial_key=key),
        record("a", attempt=2, minute=1, trial_key=key),
        record("a", "civil/b", evaluation=failed(LAUNCH), minute=2),
        record("b", "civil/b", evaluation=failed(Failure(cause="provider", type="X", message="m"))),
    ]
    page = render(Source(found)).text
    shown_ = tables(page).found
    # One of the two was made good by a retry, and is no error of its trial.
    assert shown_["errors"] == [["cause", "a", "b"], ["launch", "1", ""], ["provider", "", "1"]]
    day = f"{found[0].timing.started_at:%Y-%m-%d}"
    assert shown_["error-places"][1:] == [
        ["launch", "launch", "docker", day, "2"],
        ["provider", "-", "docker", day, "1"],
    ]
    assert shown_["error-messages"][1] == ["launch", "no room for …", found[0].trial_id[:8], "2"]
    assert b"1 error did not matter: a retry was scored." in page


def test_the_overview_counts_each_outcome_and_says_for_how_many_the_cost_is_known() -> None:
    found = [
        record(reward=1.0, warnings=()),
        record(task_id="civil/b", reward=0.5, cost=Cost(), warnings=()),
        record(task_id="civil/c", reward=None, warnings=("w",)),
    ]
    text = render(Source(found, not_run=7, problems=["torn.json: is torn"])).text.decode()
    tiles = re.findall(r'"name">([^<]*)</span> <b>([^<]*)</b> <small>([^<]*)', text)
    found_ = {name: (value, remark) for name, value, remark in tiles}
    assert found_["trials"] == ("3", "3 tasks")
    assert (found_["passed"], found_["failed"]) == (("1", "33%"), ("1", "33%"))
    assert (found_["errors"], found_["not run"]) == (("1", "not scored"), ("7", ""))
    assert found_["cost in USD"] == ("1.00", "known for 2 of 3 attempts")
    assert "Warnings in 1 attempt" in text
    assert "torn.json: is torn; skipped" in text


def test_a_cell_of_the_matrix_says_how_trials_ended_and_very_many_tasks_are_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        record("a", "civil/x", 1.0, repetition=1),
        record("a", "civil/x", 0.0, repetition=2, minute=1, trial_key="1" * 64),
        record("a", "water/y", 1.0, minute=2),
        record("a", "water/y", None, repetition=2, minute=3, trial_key="2" * 64),
        record("b", "civil/x", None, minute=4),
    ]
    text = render(Source(found)).text.decode()
    shown_ = {row[0]: row[3:] for row in tables(text).found["matrix"]}
    agents = shown_["task"][2:]
    assert dict(zip(agents, shown_["civil/x"][2:], strict=True)) == {"a": "0.50±", "b": "!"}
    assert dict(zip(agents, shown_["water/y"][2:], strict=True)) == {"a": "1.00!", "b": ""}
    assert ('class="n hatched">!' in text, 'class="n s5">0.50±' in text) == (True, True)
    monkeypatch.setattr(matrix, "_MAX_TASKS", 1)
    page = render(Source(found)).text
    by_domain = tables(page).found
    assert [row[0] for row in by_domain["matrix-civil"]] == ["task", "civil/x"]
    assert [row[0] for row in by_domain["matrix-water"]] == ["task", "water/y"]
    assert b"<details><summary>civil: 1 task</summary>" in page


def test_a_task_has_its_parts_by_agent_its_versions_and_its_checks() -> None:
    def checks(digest: str) -> CheckSummary | None:
        if digest != "new":
            return None
        at = STARTED
        return CheckSummary(digest, ("schema", "image"), ("oracle",), (), ("nop",), ("local",), at)

    parts = {"slope": 1.0, "width": 0.0}, {"slope": 0.5, "width": 0.0}
    found = [
        record("a", digest="old", minute=0),
        record("a", evaluation=scored(0.5, details=parts[0]), digest="new", minute=1),
        record("b", evaluation=scored(0.25, details=parts[1]), digest="new", minute=2),
    ]
    (task,) = task_pages(Figures(Source(found, checks=checks))).values()
    facts = dict(task["facts"])
    assert facts["versions"] == "old (1); new (2)"
    assert facts["checks"] == "failed: oracle; 2 checks passed; 1 not possible"
    assert [one["agent"] for one in task["agents"]] == ["a", "b"]
    # Those that are missed most come first.
    assert task["parts"] == [["width", "0.00", "0.00"], ["slope", "1.00", "0.50"]]


def test_exact_zeros_and_ones_are_apart_from_the_bins() -> None:
    bins, zeros, ones = spread([0, 0, 1, 0.01, 0.5, 0.999])
    assert (zeros, ones) == (2, 1)
    assert [n for n, count in enumerate(bins) if count] == [0, 10, 20]


def test_without_trials_a_page_says_so_and_has_no_empty_sections() -> None:
    hidden = record(visibility="holdout")
    text = render(Source([hidden])).text
    assert list(tables(text).sections) == ["overview", "trials"]
    assert "No trials." in text.decode()
    assert "counted, not shown" in text.decode()


def test_without_scores_no_plot_is_empty() -> None:
    broken = [
        record(evaluation=failed(Failure(cause="launch", type="X", message="m")), minute=minute)
        for minute in range(2)
    ]
    text = render(Source(broken)).text.decode()
    assert text.count("No trial has a score.") == 2
    assert 'data-name="rewards"><div class="scroll wide"' not in text


def test_sixty_four_agents_have_marks_of_their_own() -> None:
    assert len({shape(series, 0, 0) for series in range(64)}) == 64
    assert shape(64, 0, 0) == shape(0, 0, 0)


def test_names_that_differ_at_their_ends_stay_different() -> None:
    found = {ends_of(f"an-agent-with-many-parameters-{n}", 20) for n in range(20)}
    assert {len(name) for name in found} == {20}
    assert len(found) == 20
    assert ends_of("short", 20) == "short"


def test_lanes_hold_one_attempt_at_a_time() -> None:
    assert lanes([(0, 10), (1, 5), (5, 9), (9, 12), (10, 11)]) == [0, 1, 1, 1, 0]


def test_very_many_attempts_are_drawn_as_columns_of_the_phase_that_took_most() -> None:
    few, many = (Attempts([one.timing for one in records(n)]) for n in (500, 501))
    bars = [timeline(WIDE, "lanes", one).count("z") for one in (few, many)]
    assert (few.is_binned, many.is_binned) == (False, True)
    assert bars[0] == sum(map(len, few.bars.values()))
    assert bars[1] < bars[0]
    # No more than the columns of each lane, however many attempts there are.
    short = [replace_times(one, seconds=2) for one in records(501)]
    assert timeline(WIDE, "lanes", Attempts(short)).count("z") <= 1200 * Attempts(short).lanes


def replace_times(one: TrialRecord, *, seconds: float) -> Timing:
    ended = one.timing.started_at + timedelta(seconds=seconds)
    return one.timing.model_copy(update={"finished_at": ended})


def test_attempts_at_once_are_stacked_by_phase() -> None:
    attempts = Attempts([record.timing for record in RECORDS])
    drawn = usage(WIDE, "at once", attempts)
    assert "8 at once" in drawn
    phases = re.findall(r"phase p-(\w+)", drawn)
    assert phases == [phase for phase in reversed(PHASES) if phase in attempts.bars]
    tops = [min(map(float, re.findall(r"V([\d.]+)", path))) for path in drawn.split("<path")[1:]]
    assert tops == sorted(tops)  # what is drawn later does not hide what it stands on
    assert len(tops) > 4


def test_a_line_of_history_goes_through_each_point_that_is_known() -> None:
    of = Figures(Source(RECORDS)).board.rows[0].summary.overall.mean
    drawn = trend(WIDE, "history", [("04-12", [of, None]), ("04-19", [of, of])], ["a", "b"])
    lines = re.findall(r'<polyline points="([^"]*)"', drawn)
    assert [len(line.split()) for line in lines] == [2, 1]
    assert ("04-12" in drawn, "04-19" in drawn) == (True, True)


def test_times_without_an_attempt_are_left_out() -> None:
    clock = Clock([(0, 10), (5, 20), (1000, 1010)])
    assert clock.total_sec == 30
    assert clock.gaps_sec == [980]
    assert [clock(moment) for moment in (0, 20, 500, 1005, 2000)] == [0, 20, 20, 25, 30]


def test_phases_are_where_they_began_and_the_rest_is_other() -> None:
    timing = RECORDS[0].timing.model_copy(
        update={
            "finished_at": RECORDS[0].timing.started_at + timedelta(seconds=10),
            "agent": 4.0,
            "verify": 2.0,
            "starts": {"agent": 1.0, "verify": 6.0},
            **dict.fromkeys(("wait", "build", "launch", "collect")),
        }
    )
    begun = timing.started_at.timestamp()
    assert [(s.phase, s.start - begun, s.end - begun) for s in spans(timing)] == [
        ("other", 0, 1),
        ("agent", 1, 5),
        ("other", 5, 6),
        ("verify", 6, 8),
        ("other", 8, 10),
    ]
    older = timing.model_copy(update={"starts": {}})
    assert [s.phase for s in spans(older)] == ["agent", "verify", "other"]


def test_packed_data_is_the_same_each_time() -> None:
    assert packed({"a": [1, None]}) == packed({"a": [1, None]})
