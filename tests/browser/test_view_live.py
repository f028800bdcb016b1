"""The viewer while a real run goes on: rows come, trajectories grow, and a death is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.test_view import Tab
from tests.costs import at_night, patience
from tests.project import VERIFY
from tests.tasks import write_indented
from tests.viewers import Client, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.needs("browser")

TURNS = 5
# From a record that is written to its row that is seen, on a machine that has nothing else to do.
SEEN_SEC = 3.0
# Notes when the number of rows changes, and to what.
WATCH = """() => {
  const host = document.getElementById("trials-app"), seen = window.seen = [];
  const look = () => {
    const text = host.querySelector(".count")?.firstChild?.textContent ?? "0";
    const now = Number.parseInt(text, 10);
    if (now !== seen.at(-1)?.[1]) seen.push([Date.now() / 1000, now]);
  };
  new MutationObserver(look).observe(host, { childList: true, subtree: true });
  look();
}"""


def write_project(root: Path, seconds: float) -> None:
    """Write two tasks, and a script of turns that each take so long."""
    for name in ("one", "two"):
        contents = {
            "task.toml": '[metadata]\ndifficulty = "easy"\n',
            "instruction.md": "Write current_a and power_w to `/workspace/output.jsonl`.",
            "tests/verify.py": VERIFY,
            "tests/test.sh": "python3 /tests/verify.py\n",
        }
        write_indented(root / "tasks/civil" / name, contents)
    usage = {"input": 10, "output": 10}
    calls = [
        {"name": "bash", "arguments": {"command": f"echo said-{turn}; sleep {seconds}"}}
        for turn in range(1, TURNS + 1)
    ]
    replies = [{"text": "", "tool_calls": [call], "usage": usage} for call in calls]
    end = {"text": "Done.", "tool_calls": [{"name": "submit", "arguments": {}}], "usage": usage}
    (root / "script.json").write_text(json.dumps({"replies": [*replies, end]}))


@contextmanager
def running(root: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run pytest in a group of its own until the end."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tasks"]
    agent = "--aec-agent=a=tool_loop:scripted:script.json"
    options = [agent, "--aec-experiment-id=live", "--aec-backend=local", *arguments]
    with (
        (root / "out.txt").open("wb") as out,
        subprocess.Popen(
            [*argv, *options],
            cwd=root,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def delays(root: Path, seen: list[tuple[float, int]]) -> list[float]:
    """Return how long after each record was written there was a row more."""
    written = sorted(path.stat().st_mtime for path in root.glob("artefacts/ledger/live/*.json"))
    at = [next(moment for moment, rows in seen if rows > number) for number in range(len(written))]
    return [moment - of for moment, of in zip(at, written, strict=True)]


def wait_for_experiment(client: Client, process: subprocess.Popen[bytes], root: Path) -> None:
    give_up = time.monotonic() + 60
    while client.ask("/api/e/live/changes").status != 200 or not under_way(client):
        assert process.poll() is None, (root / "out.txt").read_text()
        assert time.monotonic() < give_up
        time.sleep(0.1)


def under_way(client: Client) -> list[dict[str, object]]:
    found: list[dict[str, object]] = client.ask("/api/e/live/changes").json["under_way"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, at_night(10)])
def test_a_run_is_followed_while_several_tabs_are_open(
    browser: Browser, tmp_path: Path, count: int
) -> None:
    write_project(tmp_path, 1.5)
    workers = ("-n2", "--aec-repetitions=2")
    with serving(tmp_path) as client, running(tmp_path, *workers) as process:
        wait_for_experiment(client, process, tmp_path)
        tabs = [Tab(browser, client) for _ in range(count)]
        try:
            page = tabs[0].go("/e/live")
            page.evaluate(WATCH)
            page.get_by_text(re.compile("[0-3] of 4 trials, run .* is running")).wait_for()
            page.locator("#under-way tbody tr").first.wait_for()
            # The trajectory of a trial under way grows.
            follower = tabs[1].go("/e/live")
            follower.locator("#under-way tbody a").last.click()
            follower.get_by_text("said-").first.wait_for()
            seen = follower.locator(".turn").count()
            follower.locator(".turn").nth(seen).wait_for()
            for tab in tabs[2:]:
                tab.go("/e/live")
            # A record becomes a row.
            page.locator(".count", has_text="4 attempts").wait_for(timeout=90_000)
            found = delays(tmp_path, page.evaluate("window.seen"))
            assert max(found) < SEEN_SEC * patience(), found
            # The trial that was followed has a record by now.
            follower.get_by_text("Parts of the reward").first.wait_for(timeout=60_000)
            assert process.wait(60) == 1  # the agent wrote nothing
            for tab in tabs[2:]:
                tab.page.locator(".count", has_text="4 attempts").wait_for(timeout=30_000)
            page.wait_for_selector("#report:not(:has(#under-way))", timeout=30_000)
            assert page.locator(".virtual tbody tr:not(.pad)").count() == 4
        finally:
            for tab in tabs:
                tab.close()


@pytest.mark.slow
def test_a_run_that_is_killed_is_said_to_be_dead(browser: Browser, tmp_path: Path) -> None:
    write_project(tmp_path, 60)
    with serving(tmp_path) as client, running(tmp_path) as process:
        wait_for_experiment(client, process, tmp_path)
        tab = Tab(browser, client)
        try:
            page = tab.go("/e/live")
            page.get_by_text("is running").wait_for()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            page.get_by_text("is dead: its process is gone").wait_for()
            page.get_by_text(re.compile("dead in [a-z]+: its process is gone")).wait_for()
            assert page.locator("#under-way").get_by_text("is running").count() == 0
            page.locator("#under-way tbody a").first.click()
            page.get_by_text("The process of this trial is gone").wait_for()
        finally:
            tab.close()
