"""Measure the HTML file: its size, the time to write it, and the time to open and use it.

Run ``python benchmarks/html_report.py [--trials N]`` from the project's directory. Times are CPU
time, of this process and of the browser's main thread, because machines are shared. Without
Chromium only the writing is measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_aecbench.ledger.store import Ledger
from pytest_aecbench.reports.html.page import render
from pytest_aecbench.reports.html.writing import write_page
from pytest_aecbench.settings.layers import settings_at
from pytest_aecbench.trials.reporting import report_source
from tests.ledgers import records, write_files

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

DETAILED = 1000


def make_project(root: Path, trials: int) -> None:
    """Write the records of so many trials, and the files of some."""
    directory = root / "artefacts/ledger/nightly"
    directory.mkdir(parents=True)
    for number, record in enumerate(records(trials)):
        (directory / f"{record.trial_id}.json").write_bytes(record.to_json())
        if number < DETAILED:
            write_files(root / "jobs", record, number // 15)


def write(root: Path, include: str) -> Path:
    """Write a report and print its size and the time that it took, the records' included."""
    started = process_time()
    settings = settings_at(root)
    loaded = Ledger(settings.ledger_root).load("nightly")
    page = render(report_source(settings, loaded.records, include=include))
    path = root / f"{include}.html"
    write_page(path, page)
    seconds = process_time() - started
    print(f"{include:8} {len(page.text) / 1e6:6.2f} MB, written in {seconds:5.2f} s")
    return path


def task_ms(session: CDPSession) -> float:
    """Return the CPU time that the page's main thread has taken so far."""
    found = session.send("Performance.getMetrics")["metrics"]
    return 1000 * float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


def act(page: Page, session: CDPSession, name: str, script: str, awaited: str = "html") -> None:
    """Do something in the page and print the time that it took."""
    before = task_ms(session)
    page.evaluate(script)
    page.wait_for_selector(awaited)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    print(f"{name:24} {task_ms(session) - before:6.0f} ms")


def open_page(path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = task_ms(session)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        print(f"{'ready':24} {task_ms(session) - before:6.0f} ms")
        # Part of each figure below: the browser is asked, and draws a frame.
        act(page, session, "nothing", "1")
        act(page, session, "filter", "location.hash = '#outcome=failed&task=electrical/*'")
        act(page, session, "sort", "location.hash = '#sort=-usd'")
        act(page, session, "scroll", "document.querySelector('.virtual').scrollTop = 99999")
        act(
            page,
            session,
            "open a trial",
            "document.querySelector('.virtual a').click()",
            "h2:focus",
        )
        heap = session.send("Runtime.getHeapUsage")["usedSize"]
        print(f"{'heap':24} {heap / 1e6:6.1f} MB")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the HTML file.")
    parser.add_argument("--trials", type=int, default=10_000, metavar="N")
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.chdir(root)
        make_project(root, trials)
        print(f"{trials} trials, files of {min(trials, DETAILED)}")
        write(root, "figures")
        path = write(root, "all")
        if shutil.which("chromium"):
            open_page(path)


if __name__ == "__main__":
    main()
