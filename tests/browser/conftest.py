"""A Chromium of this machine, one for all tests, and a page that is made once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.ledger.store import Ledger
from pytest_aecbench.reports.comparison import compare
from pytest_aecbench.reports.gates import Verdict
from pytest_aecbench.reports.html.page import render
from pytest_aecbench.reports.results import TrialResult
from pytest_aecbench.settings.layers import settings_at
from pytest_aecbench.trials.reporting import report_source
from tests.ledgers import records, write_files

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TRIALS = 90
# Nothing but the page itself, and no graphics.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


# Not for the session: Playwright keeps an event loop running in this thread, and tests of others
# would find themselves inside of it.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 90 trials with everything that a page can have."""
    root = tmp_path_factory.mktemp("report")
    made = list(records(TRIALS))
    ledger = Ledger(root / "artefacts/ledger")
    for number, record in enumerate(made):
        ledger.append(record)
        write_files(root / "jobs", record, number // 15)
    before = records(TRIALS, experiment="before", seed=3, shift=0.2)
    sides = ([TrialResult.from_record(one) for one in side] for side in (before, made))
    source = report_source(
        settings_at(root),
        made,
        comparison=compare(*sides, names=("before", "nightly")),
        verdict=Verdict(True, ("mean = 0.60 (6 tasks), needs >= 0.5: holds",)),
    )
    path = root / "report.html"
    path.write_bytes(render(source).text)
    return path


class Opened:
    """A page that is open, and everything that it did besides being shown."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        context = {"viewport": {"width": 1280, "height": 900}, "offline": True, **options}
        self.context = browser.new_context(**context)
        self.page: Page = self.context.new_page()
        self.path = path
        self.trouble: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def go(self, fragment: str = "") -> Page:
        """Open the page anew at a fragment."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.path.as_uri()}#{fragment}")
        if self.has_script:
            self.page.wait_for_selector("html[data-ready]")
        return self.page

    has_script = True

    def close(self) -> None:
        self.context.close()
        foreign = [url for url in self.requests if not url.startswith(("file:", "about:", "blob:"))]
        assert (self.trouble, foreign) == ([], [])


Open = Callable[..., Opened]


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Open]:
    """Open a page in a context of its own; it must load nothing and complain of nothing."""
    made: list[Opened] = []

    def open_(path: Path | None = None, **options: Any) -> Opened:
        made.append(Opened(browser, path or report, **options))
        return made[-1]

    yield open_
    for one in made:
        one.close()
