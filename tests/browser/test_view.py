"""The viewer in a real browser: its addresses, its token, its news, and hostile pages and texts."""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.ledger.store import Ledger
from tests.browser.test_hostile_pages import TEXTS, hostile, write_hostile_files
from tests.browser.test_html_file import COLOURS, OUT_OF_SIGHT, WCAG
from tests.costs import at_night
from tests.ledgers import records
from tests.viewers import Client, make_project, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.needs("browser")

TRIALS = 90
TRIAL = next(one for one in records(TRIALS) if one.agent.name == "claude-tool-loop").trial_id
TASK = next(records(1)).task.task_id
DATASET = {"name": "aec", "version": "1", "content_hash": "sha256:" + "0" * 64}
VIEWS = (
    *("/", "/e/nightly", f"/e/nightly#trial={TRIAL}", f"/e/nightly/task/{TASK}"),
    *("/c/before/nightly", "/history", "/t/ffffffff", "/nowhere"),
)
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0"
    "000003010100c9fe92ef0000000049454e44ae426082"
)


class Tab:
    """A page of the viewer, and everything that it complained of."""

    def __init__(self, browser: Browser, client: Client, **options: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, **options}
        )
        self.page: Page = self.context.new_page()
        self.client = client
        self.trouble: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def go(self, path: str, *, token: bool = True) -> Page:
        """Open an address anew, by default as it is printed."""
        self.page.goto("about:blank")
        end = f"{'&' if '#' in path else '#'}token={self.client.viewer.lease.token}"
        self.page.goto(f"http://{self.client.host}{path}{end if token else ''}")
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def close(self) -> None:
        self.context.close()
        own = f"http://{self.client.host}/"
        foreign = [url for url in self.requests if not url.startswith((own, "about:", "blob:"))]
        leaks = [
            url for url in self.requests if self.client.viewer.lease.token in url.split("#")[0]
        ]
        assert (self.trouble, foreign, leaks) == ([], [], [])


Opening = Callable[..., Tab]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    root = tmp_path_factory.mktemp("viewed")
    make_project(root, TRIALS)
    ledger = Ledger(root / "artefacts/ledger")
    for record in records(TRIALS, experiment="before", seed=3, shift=0.2):
        ledger.append(record)
    for number in range(3):
        for record in records(15, experiment=f"week-{number}", seed=20 + number):
            data = {**record.model_dump(mode="json"), "dataset": DATASET}
            ledger.append(type(record).model_validate(data))
    (root / "jobs/nightly" / TRIAL / "workspace/picture.png").write_bytes(PIXEL)
    with serving(root) as made:
        yield made


@pytest.fixture
def tab(browser: Browser, client: Client) -> Iterator[Opening]:
    made: list[Tab] = []

    def open_(of: Client | None = None, **options: Any) -> Tab:
        made.append(Tab(browser, of or client, **options))
        return made[-1]

    yield open_
    for one in made:
        one.close()


def text_of(page: Page) -> str:
    return page.locator("main").inner_text()


def test_every_address_shows_its_page(tab: Opening) -> None:
    one = tab()
    assert "nightly" in text_of(one.go("/"))
    assert one.page.title() == "Experiments · aec-bench"
    page = one.go("/e/nightly")
    assert page.locator("#report > section").count() == 10
    assert page.locator(".virtual tbody th").count() > 10
    page = one.go(f"/t/{TRIAL[:8]}")
    assert page.url.endswith(f"/e/nightly#trial={TRIAL}")
    page.wait_for_selector("#single .turn")
    for words in ("Size the conductor", "Breakdown", "expected 3.2", "trajectory.jsonl"):
        assert words in text_of(page), words
    page = one.go(f"/e/nightly/task/{TASK}")
    assert "Rewards by agent and trial" in text_of(page)
    assert page.url.endswith(f"#page=task&task={TASK.replace('/', '%2F')}")
    page = one.go("/c/before/nightly")
    assert "nightly compared with before, trial by trial" in text_of(page)
    page = one.go("/history")
    assert "week-0" in text_of(page)
    assert page.locator("table tbody tr").count() == 15
    assert "aec@1" in text_of(page)


@pytest.mark.parametrize("width", [1280, 360])
def test_the_table_of_experiments_leads_to_a_comparison(tab: Opening, width: int) -> None:
    page = tab(viewport={"width": width, "height": 800}).go("/")
    assert page.evaluate(OUT_OF_SIGHT, "input[type=checkbox]") == 0
    assert page.get_by_role("button", name="Compare two").is_disabled()
    page.get_by_label("Compare nightly").check()
    page.get_by_label("Compare week-1").check()
    page.get_by_role("button", name="Compare two").click()
    page.wait_for_url(re.compile("/c/(week-1/nightly|nightly/week-1)$"))
    page.wait_for_selector("html[data-ready]")


def test_a_link_brings_the_same_view_back(tab: Opening) -> None:
    one = tab()
    page = one.go("/e/nightly#outcome=failed&task=civil%2F*&sort=-reward")
    tasks = page.locator(".virtual tbody th").all_inner_texts()
    assert tasks
    assert all(task.startswith("civil/") for task in tasks)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".virtual tbody th").all_inner_texts() == tasks
    page = one.go(f"/e/nightly#trial={TRIAL[:8]}&turn=2")
    page.wait_for_selector(".turn.current[data-turn='2']")


def test_an_unknown_and_an_ambiguous_trial_are_told(tab: Opening, client: Client) -> None:
    one = tab()
    assert "No id starts with 'ffffffff'" in text_of(one.go("/t/ffffffff"))
    twin = TRIAL[:-4] + uuid.uuid4().hex[:4]
    record = next(record for record in records(TRIALS) if record.trial_id == TRIAL)
    data = {**record.model_dump(mode="json"), "trial_id": twin, "experiment_id": "twins"}
    Ledger(client.viewer.lease.ledger_root).append(type(record).model_validate(data))
    page = one.go(f"/t/{TRIAL[:8]}")
    assert "2 ids start with" in text_of(page)
    page.get_by_role("link", name=twin).click()
    page.wait_for_url(f"**/e/twins#trial={twin}")
    page.wait_for_selector("#single h2")


def test_the_token_leaves_the_address_and_is_kept_for_this_origin_alone(
    tab: Opening, client: Client
) -> None:
    one = tab()
    page = one.go("/e/nightly#outcome=failed")
    token = client.viewer.lease.token
    assert page.url == f"http://{client.host}/e/nightly#outcome=failed"
    assert page.evaluate("localStorage.getItem('aec-token')") == token
    assert page.evaluate("document.cookie") == ""
    assert one.context.cookies() == []
    assert page.locator(".virtual tbody th").count()
    page = one.go("/e/before", token=False)
    assert page.locator(".virtual tbody th").count()


def test_without_the_token_a_page_says_how_to_get_it_and_has_no_data(tab: Opening) -> None:
    one = tab()
    for path in ("/", "/e/nightly", f"/t/{TRIAL[:8]}", "/history", "/c/before/nightly"):
        page = one.go(path, token=False)
        assert "Run aec-bench view in the project" in text_of(page)
        assert TASK not in page.content()
        assert page.locator("tbody tr").count() == 0
    # A browser notes in its console that it was refused.
    assert all("401" in text for text in one.trouble)
    one.trouble.clear()


@pytest.mark.parametrize(
    ("width", "scheme", "rules"),
    [at_night(1280, "light", WCAG), (360, "dark", COLOURS), at_night(360, "dark", WCAG)],
    ids=["wide-light", "narrow-dark", "narrow-dark-all"],
)
def test_no_page_breaks_a_rule_of_accessibility_or_scrolls_sideways(
    tab: Opening, width: int, scheme: str, rules: dict[str, object]
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    one = tab(viewport={"width": width, "height": 800}, color_scheme=scheme)
    for view in VIEWS:
        page = one.go(view)
        wide = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, view
        results = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]})
        found = [
            (found["id"], node["target"], node.get("failureSummary", "")[:300])
            for found in results.response["violations"]
            for node in found["nodes"][:3]
        ]
        assert found == [], view
    one.trouble[:] = [text for text in one.trouble if "404" not in text]  # of /nowhere


def test_a_file_is_opened_as_text_and_an_image_as_an_image(tab: Opening) -> None:
    page = tab().go(f"/e/nightly#trial={TRIAL}")
    page.get_by_text("workspace/output.jsonl").last.click()
    page.get_by_text('{"current_a": 31.2}').first.wait_for()
    page.get_by_text("workspace/picture.png").click()
    page.wait_for_selector("img.preview")
    assert page.locator("img.preview").evaluate("(one) => one.src.startsWith('blob:')")
    assert page.locator("img.preview").evaluate(
        "(one) => one.decode().then(() => one.naturalWidth)"
    )
    with page.expect_download() as download:
        page.locator("details[open]", has_text="picture.png").get_by_text("Download").click()
    assert Path(download.value.path()).read_bytes() == PIXEL


def test_a_long_file_is_shown_in_slices(tab: Opening, client: Client) -> None:
    directory = client.viewer.content.settings.jobs_root / "nightly" / TRIAL
    (directory / "workspace/long.txt").write_text("0123456789abcde\n" * 40_000)
    page = tab().go(f"/e/nightly#trial={TRIAL}")
    page.get_by_text("workspace/long.txt").click()
    more = page.get_by_role("button", name="Show more: 262.1 kB of 640.0 kB")
    more.click()
    page.get_by_role("button", name="Show more: 524.3 kB of 640.0 kB").click()
    opened = page.locator("details[open]", has_text="long.txt").locator("pre")
    page.wait_for_selector("details[open] button[hidden]", state="attached")
    assert len(opened.text_content() or "") == 640_000


def new_record(client: Client, task: str, experiment: str) -> None:
    record = next(iter(records(1, seed=uuid.uuid4().int % 10**9)))
    data = record.model_dump(mode="json")
    data |= {"experiment_id": experiment, "trial_id": str(uuid.uuid4())}
    data["task"]["task_id"] = task
    Ledger(client.viewer.lease.ledger_root).append(type(record).model_validate(data))


def test_rows_never_jump_under_the_pointer(tab: Opening, client: Client) -> None:
    experiment = "growing"
    for record in records(60, experiment=experiment, seed=5):
        Ledger(client.viewer.lease.ledger_root).append(record)
    page = tab().go(f"/e/{experiment}#trials")
    table = page.locator(".virtual")
    # At its top and left alone, the table takes new rows in at once.
    page.mouse.move(5, 5)
    new_record(client, "a-first/one", experiment)
    table.get_by_role("link", name="a-first/one").wait_for()
    # Under the pointer it does not, not even at its top.
    table.hover()
    before = page.locator(".virtual tbody th").all_inner_texts()
    new_record(client, "a-first/two", experiment)
    page.get_by_role("button", name="1 new").wait_for()
    assert page.locator(".virtual tbody th").all_inner_texts() == before
    # Nor where somebody has scrolled to.
    table.evaluate("(one) => { one.scrollTop = 900; }")
    page.mouse.move(5, 5)
    page.wait_for_selector(".virtual:not(:hover)")
    new_record(client, "a-first/three", experiment)
    page.get_by_role("button", name="2 new").wait_for()
    assert table.evaluate("(one) => one.scrollTop") == 900
    page.get_by_role("button", name="2 new").click()
    table.get_by_role("link", name="a-first/three").wait_for()
    assert page.locator(".count").inner_text().startswith("63 attempts")
    assert page.get_by_role("button", name="new").count() == 0


def test_no_text_or_name_of_an_agent_becomes_markup_or_runs(tab: Opening, tmp_path: Path) -> None:
    texts = [text.replace("\ud800", "half") for text in TEXTS]  # a record cannot hold it
    made = [hostile(number, text) for number, text in enumerate(texts)]
    for one, text in zip(made, texts, strict=True):
        Ledger(tmp_path / "artefacts/ledger").append(one)
        directory = tmp_path / "jobs" / one.experiment_id / one.trial_id
        write_hostile_files(directory, text)
        (directory / "workspace" / "x<img src=x onerror=alert(9)>.html").write_text(text[:99])
        (directory / "workspace" / os.fsdecode(b"\xff.svg")).write_bytes(b"<svg onload=alert(8)>")
    with serving(tmp_path) as client:
        opened = tab(client)
        experiment = made[0].experiment_id
        page = opened.go(f"/e/{experiment}")
        title, scripts = page.title(), page.locator("script").count()
        assert scripts == 2
        assert "<svg onload=alert(3)>" in text_of(page)
        for one in made:
            page = opened.go(f"/e/{experiment}#trial={one.trial_id}")
            page.wait_for_selector("#single .turn")
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            files = page.locator("#single details")
            assert files.count() >= 4
            page.wait_for_selector("#single:not(:has(details > div:not(:has(pre))))")
            assert page.locator("img, iframe, object, embed, #single script").count() == 0
            assert (page.title(), page.locator("script").count()) == (title, scripts)
            shown = page.locator("#single").inner_text()
            assert "\u202e" not in shown
            assert "\x1b" not in shown
        page = opened.go("/")
        assert "and 10 more" in text_of(page)
        assert page.locator("img").count() == 0


class Foreign(BaseHTTPRequestHandler):
    """A page of somebody else on the same machine, as an agent may serve one."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title><body></body>")

    def log_message(self, *arguments: Any) -> None:
        pass


ATTACK = """async ([address, token]) => {
  const tries = [
    fetch(address), fetch(address, {headers: {Authorization: `Bearer ${token}`}}),
    fetch(address, {mode: "no-cors"}).then((answer) => answer.text()).then((text) => {
      if (!text) throw new Error("nothing"); return text; }),
    new Promise((done, fail) => { const one = document.createElement("script");
      one.src = address; one.onload = done; one.onerror = fail; document.body.append(one); }),
  ];
  const found = await Promise.allSettled(tries);
  return found.map((one) => one.status);
}"""


def test_a_foreign_page_reads_and_frames_nothing(browser: Browser, client: Client) -> None:
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    threading.Thread(target=foreign.serve_forever, daemon=True).start()
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{foreign.server_address[1]}/")
        address = f"http://{client.host}/api/e/nightly/columns"
        found = page.evaluate(ATTACK, [address, client.viewer.lease.token])
        assert found == ["rejected"] * 4
        page.evaluate(
            "(address) => new Promise((done) => { const one = document.createElement('iframe');"
            " one.src = address; one.onload = done; document.body.append(one); })",
            f"http://{client.host}/e/nightly#token={client.viewer.lease.token}",
        )
        frame = page.frames[1]
        assert "chrome-error" in frame.url or frame.locator("nav").count() == 0
    finally:
        context.close()
        foreign.shutdown()
        foreign.server_close()


def test_a_viewer_that_ends_is_told_and_what_is_shown_stays(tab: Opening, tmp_path: Path) -> None:
    make_project(tmp_path)
    with serving(tmp_path) as client:
        one = tab(client)
        page = one.go("/e/nightly")
        rows = page.locator(".virtual tbody th").count()
    page.get_by_text("The viewer cannot be reached").wait_for()
    assert page.locator(".virtual tbody th").count() == rows
    one.trouble.clear()  # the browser's own words on requests that failed
