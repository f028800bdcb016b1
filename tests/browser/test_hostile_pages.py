"""Whatever agents write is shown as text, and damage is told."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.ledger.record import (
    AgentIdentity,
    Evaluated,
    Failure,
    TaskIdentity,
    TrialRecord,
)
from pytest_aecbench.reports.html.page import render
from pytest_aecbench.settings.layers import settings_at
from pytest_aecbench.trials.reporting import report_source
from tests.browser.conftest import Open
from tests.ledgers import trajectory
from tests.unit.test_leaderboard import record
from tests.unit.test_record import STARTED, a_record, failed, scored

pytestmark = pytest.mark.needs("browser")

TEXTS = (
    "</script><script>alert(1)</script>",
    "</noscript><img src=x onerror=alert(2)>",
    "<!--",
    "]]><svg onload=alert(3)>",
    "{{ 7 * 7 }} {% raw %}",
    "javascript:alert(4)",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b]0;title\x07",
    "nul\0and\ud800half",
    "=cmd|' /C calc'!A0",
    "&lt;b&gt;&#x3c;",
    "x" * 1_000_000,
)


def hostile(number: int, text: str) -> TrialRecord:
    """Return a record with the text in every field that takes one."""
    short = text[:2000]
    outcome = (
        scored(0.5, details={short: 0.5}, breakdown={"fields": {short: {short: short}}})
        if number % 2
        else failed(Failure(cause="launch", type=short, message=text))
    )
    started = STARTED + timedelta(minutes=number)
    return a_record(
        trial_id=f"{number:08x}-0000-4000-8000-000000000000",
        task=TaskIdentity(
            task_id=f"civil/{short}", digest=short, domain=short, difficulty=short, tags=(short,)
        ),
        agent=AgentIdentity(name=short, harness=short, model=short, parameters={short: short}),
        evaluation=outcome,
        agent_result={"status": short, "error": text, "end": short},
        environment={"backend": short, "image": short},
        outputs={"output_excerpt": short, "output_path": short},
        warnings=(short,),
        run_id=short,
        harness_version=short,
        timing={"started_at": started, "finished_at": started + timedelta(seconds=9)},
    )


def write_hostile_files(directory: Path, text: str) -> None:
    name = text[:60].replace("/", "_").replace("\0", "_").replace("\ud800", "_")
    files: dict[str, str] = {
        f"workspace/{name}": text[:5000],
        "logs/verifier/test-stdout.txt": text,
    }
    entries: list[dict[str, Any]] = [
        {"role": "user", "content": text},
        {
            "role": "assistant",
            "content": text,
            "turn": 1,
            "metadata": {"reasoning": text, "model": text},
        },
        {"role": "tool_call", "tool_name": text, "arguments": {text: text}, "turn": 1},
        {"role": "tool_result", "stdout": text, "stderr": text, "exit_code": 1, "turn": 1},
    ]
    files["agent/trajectory.jsonl"] = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8", errors="surrogatepass")


def page_of(root: Path, made: list[TrialRecord]) -> Path:
    path = root / "report.html"
    path.write_bytes(render(report_source(settings_at(root), made)).text)
    return path


def test_no_text_of_an_agent_becomes_markup_or_runs(opened: Open, tmp_path: Path) -> None:
    made = [hostile(number, text) for number, text in enumerate(TEXTS)]
    for one, text in zip(made, TEXTS, strict=True):
        write_hostile_files(tmp_path / "jobs" / one.experiment_id / one.trial_id, text)
    report = opened(page_of(tmp_path, made))
    page = report.go()
    title = page.title()
    scripts = page.locator("script:not([type])").count()
    assert scripts == 1
    for record_ in made:
        page = report.go(f"trial={record_.trial_id}")
        page.wait_for_selector("#single .turn")
        assert page.locator("img, iframe, object, embed, #single script").count() == 0
        assert page.title() == title
        assert page.locator("script:not([type])").count() == scripts
        shown = page.locator("#single").inner_text()
        assert "\u202e" not in shown
        assert "\x1b" not in shown
    page = report.go(f"trial={made[0].trial_id}")
    assert "</script><script>alert(1)</script>" in page.locator("#trajectory").inner_text()
    page = report.go("trials")
    with page.expect_download() as download:
        page.get_by_label("Save trials as CSV").click()
    rows = csv.reader(io.StringIO(Path(download.value.path()).read_text()))
    cells = [cell for row in rows for cell in row]
    assert "'=cmd|' /C calc'!A0" in cells
    assert [cell for cell in cells if cell[:1] in tuple("=+-@\t\r")] == []


def test_ten_thousand_turns_and_damage_are_bearable(opened: Open, tmp_path: Path) -> None:
    long, torn, gone = (
        record(trial_id=f"{n:08x}-0000-4000-8000-000000000000", repetition=n, minute=n)
        for n in (1, 2, 3)
    )
    evaluated = Evaluated(experiment_id=long.experiment_id, trial_id=long.trial_id)
    gone = gone.model_copy(update={"evaluates": evaluated})
    turns = [{"role": "assistant", "content": f"I say {n}.", "turn": n} for n in range(1, 10_001)]
    turns[2]["content"] = "line\n" * 99 + "end"
    lines = trajectory(3, random.Random(2)).splitlines(keepends=True)
    texts = {
        long.trial_id: "".join(f"{json.dumps(turn)}\n" for turn in turns),
        torn.trial_id: "".join([*lines[:3], "no json\n", *lines[3:]])[:-80],
    }
    for trial_id, text in texts.items():
        place = tmp_path / "jobs" / long.experiment_id / trial_id / "agent/trajectory.jsonl"
        place.parent.mkdir(parents=True)
        place.write_text(text)
    opened_ = opened(page_of(tmp_path, [long, torn, gone]))
    page = opened_.go(f"trial={long.trial_id}")
    assert page.locator(".turn").count() == 50
    page.get_by_role("button", name="more of 10,00").click()
    assert page.locator(".turn").count() == 100
    folded = page.locator("#turn-3 .said")
    assert "end" not in folded.inner_text()
    page.get_by_role("button", name="Show all: 100 lines, 498 B").click()
    assert "end" in folded.inner_text()
    page.get_by_role("link", name=gone.trial_id).click()  # evaluated by
    page.wait_for_selector("#single h2:focus")
    assert "evaluates" in page.locator("#single dl").first.inner_text()
    page.get_by_role("link", name=long.trial_id).click()
    page.locator("#single dl", has_text="evaluated by").wait_for()
    page = opened_.go(f"trial={long.trial_id}&turn=9000")
    assert page.locator(".turn.current").get_attribute("data-turn") == "9000"
    page = opened_.go(f"trial={torn.trial_id}")
    assert "1 damaged line left out" in page.locator("#single").inner_text()
    assert page.locator(".turn").count() == 4
    page = opened_.go(f"trial={gone.trial_id}")
    text = page.locator("#single").inner_text()
    assert "the files of this trial are not there any more" in text
    assert "not stored" in text


def test_the_matrix_of_one_task_shows_the_agent_that_is_filtered_for(
    opened: Open, tmp_path: Path
) -> None:
    made = [record("a", reward=0.25), record("b", reward=0.5, minute=1)]
    page = opened(page_of(tmp_path, made)).go("agent=a")
    shown = page.locator("table.matrix :is(th, td):visible").all_inner_texts()
    assert ("a" in shown, "b" in shown) == (True, False)
    assert ("0.25" in shown, "0.50" in shown) == (True, False)


def test_a_narrow_matrix_of_one_task_has_room_for_its_agents(opened: Open, tmp_path: Path) -> None:
    names = [f"an-agent-with-a-long-name-{letter}" for letter in "abcde"]
    made = [record(name, reward=0.5, minute=minute) for minute, name in enumerate(names)]
    for script in (True, False):
        one = opened(
            page_of(tmp_path, made),
            viewport={"width": 360, "height": 800},
            java_script_enabled=script,
        )
        one.has_script = script
        page = one.go("matrix")
        region = page.locator(".scroll:has(> table.matrix)").bounding_box()
        table = page.locator("table.matrix").bounding_box()
        assert region
        assert table
        assert table["width"] <= region["width"]


def test_a_trial_without_its_details_says_how_to_see_them(opened: Open, tmp_path: Path) -> None:
    one = record()
    source = report_source(settings_at(tmp_path), [one])
    for include, words in (("all", "not in this file"), ("figures", "has figures only")):
        path = tmp_path / f"{include}.html"
        path.write_bytes(render(replace(source, include=include), max_bytes=1).text)
        page = opened(path).go(f"trial={one.trial_id}")
        text = page.locator("#single").inner_text()
        assert words in text
        assert f"aec-bench view {one.trial_id[:8]}" in text
