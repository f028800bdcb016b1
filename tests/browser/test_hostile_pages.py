"""Whatever agents write is shown as text, and damage is told."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.ledger.record import AgentIdentity, Failure, TaskIdentity, TrialRecord
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


def test_ten_thousand_turns_and_damage_are_bearable(opened: Open, tmp_path: Path) -> None:
    long, torn, gone = (
        record(trial_id=f"{n:08x}-0000-4000-8000-000000000000", repetition=n, minute=n)
        for n in (1, 2, 3)
    )
    turns = [{"role": "assistant", "content": f"I say {n}.", "turn": n} for n in range(1, 10_001)]
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
    page = opened_.go(f"trial={long.trial_id}&turn=9000")
    assert page.locator(".turn.current").get_attribute("data-turn") == "9000"
    page = opened_.go(f"trial={torn.trial_id}")
    assert "1 damaged line left out" in page.locator("#single").inner_text()
    assert page.locator(".turn").count() == 4
    page = opened_.go(f"trial={gone.trial_id}")
    text = page.locator("#single").inner_text()
    assert "the files of this trial are not there any more" in text
    assert "not stored" in text
