"""The HTML file in a real browser: offline, by keyboard, narrow, dark, printed, without scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import TRIALS, Open
from tests.costs import at_night
from tests.ledgers import records

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.needs("browser")

TRIAL = next(one for one in records(TRIALS) if one.agent.name == "claude-tool-loop").trial_id
TASK = next(records(1)).task.task_id
VIEWS = ("", "trials", f"trial={TRIAL}", f"page=task&task={TASK.replace('/', '%2F')}")


def count(page: Page, selector: str) -> int:
    return page.locator(selector).count()


def shown_tasks(page: Page) -> list[str]:
    return page.locator(".virtual tbody th").all_inner_texts()


def test_without_scripts_every_section_has_its_table_and_every_trial_its_row(opened: Open) -> None:
    one = opened(java_script_enabled=False)
    one.has_script = False
    page = one.go()
    sections = page.locator("#report > section")
    assert sections.count() == 11
    for index in range(1, sections.count()):
        assert sections.nth(index).locator("table").count(), index
    assert count(page, "noscript table tbody tr") == TRIALS
    assert page.locator("noscript table").is_visible()
    assert count(page, "h1") == 1
    assert not page.locator("#single").is_visible()


WCAG = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
COLOURS = {"type": "rule", "values": ["color-contrast"]}


@pytest.mark.parametrize(
    ("scheme", "rules"),
    [("light", WCAG), at_night("dark", COLOURS), at_night("dark", WCAG)],
    ids=["light", "dark", "dark-all"],
)
def test_nothing_breaks_a_rule_of_accessibility(
    opened: Open, scheme: str, rules: dict[str, object]
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    one = opened(color_scheme=scheme)
    for view in VIEWS[1:]:
        results = Axe().run(one.go(view), options={"runOnly": rules, "resultTypes": ["violations"]})
        found = [
            (found["id"], node["target"], node.get("failureSummary", "")[:300])
            for found in results.response["violations"]
            for node in found["nodes"][:3]
        ]
        assert found == [], view


@pytest.mark.parametrize("width", [360, 320])  # 1280 at a zoom of 400 % is 320
def test_no_view_scrolls_sideways(opened: Open, width: int) -> None:
    one = opened(viewport={"width": width, "height": 800})
    for view in VIEWS:
        page = one.go(view)
        wide = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, view


def test_a_trial_and_its_turns_are_reached_by_keyboard_alone(opened: Open) -> None:
    page = opened().go("agent=claude-tool-loop")
    page.keyboard.press("/")
    page.wait_for_selector("input[type=search]:focus")
    page.keyboard.type("civil/*")
    page.wait_for_url("**task=civil**")
    page.locator(".virtual tbody a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#single h2:focus")
    first = page.url
    assert "agent=claude-tool-loop" in first
    page.keyboard.press("]")
    page.keyboard.press("]")
    page.wait_for_selector(".turn.current[data-turn='2']")
    page.keyboard.press("[")
    page.wait_for_selector(".turn.current[data-turn='1']")
    page.keyboard.press("j")
    page.wait_for_url(lambda url: "trial=" in url and "turn=" not in url and url != first)
    page.wait_for_selector("#single h2:focus")
    page.keyboard.press("k")
    page.wait_for_url(first)
    page.wait_for_selector("#single h2:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector("#trials .virtual", state="visible")
    assert page.url.endswith("#agent=claude-tool-loop&task=civil%2F*")


def test_a_link_brings_the_same_view_back(opened: Open) -> None:
    one = opened()
    page = one.go("outcome=failed&task=civil%2F*&sort=-reward")
    tasks = shown_tasks(page)
    assert tasks
    assert all(task.startswith("civil/") for task in tasks)
    rewards = page.locator(".virtual tbody td.n:nth-child(5)").all_inner_texts()
    assert rewards == sorted(rewards, reverse=True)
    hidden = page.locator("table.matrix tbody tr:not([hidden]) th").all_inner_texts()
    assert {task.partition("/")[0] for task in hidden} == {"civil"}
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert shown_tasks(page) == tasks
    page = one.go(f"trial={TRIAL[:8]}&turn=2")
    assert page.locator(".turn.current").get_attribute("data-turn") == "2"
    assert page.locator("#single").inner_text().count(TRIAL) >= 1
    page = one.go("trial=ffffffff")
    assert "No trial of this report" in page.locator("#single").inner_text()


OTHER = next(one for one in records(TRIALS) if one.agent.name == "codex").trial_id
FRAGMENTS = {
    "agent=codex": "18 of 90",
    "domain=civil&sort=-usd": "15 of 90",
    "difficulty=easy": "of 90",
    "outcome=different&final=1": "of 90",
    "status=timed_out": "of 90",
    "cause=launch": "of 90",
    "sort=-seconds": "90 attempts",
    f"page=task&task={TASK}": "Rewards by agent and trial",
    f"trial={TRIAL}&with={OTHER}": OTHER,
    "matrix": "Spread is the highest mean",
}


def test_each_fragment_is_a_view_that_survives_a_reload(opened: Open) -> None:
    page = opened().go()
    for fragment, words in FRAGMENTS.items():
        page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
        page.locator("main", has_text=words).wait_for()
        before = view_of(page)
        page.reload()
        page.wait_for_selector("html[data-ready]")
        page.locator("main", has_text=words).wait_for()
        assert view_of(page) == before, fragment


def view_of(page: Page) -> dict[str, Any]:
    single = page.locator("#single:not([hidden])").all_inner_texts()
    if single:
        return {"url": page.url, "single": single}
    rows = page.locator(".virtual table")
    return {
        "url": page.url,
        "count": page.locator(".count").text_content(),
        "rows": (shown_tasks(page), rows.get_attribute("aria-rowcount")),
        "matrix": page.locator("table.matrix tbody tr:not([hidden]) th").all_text_contents(),
    }


def test_the_rows_of_the_table_are_the_attempts_wherever_it_is_scrolled_to(opened: Open) -> None:
    page = opened().go("sort=-reward")
    table, region = page.locator(".virtual table"), page.locator(".virtual")
    assert table.get_attribute("aria-rowcount") == str(TRIALS + 1)
    assert page.locator("#live").text_content() == f"{TRIALS} attempts"
    with page.expect_download() as download:
        page.get_by_label("Save trials as CSV").click()
    _, *expected = csv.reader(io.StringIO(Path(download.value.path()).read_text()))
    found: dict[int, list[str]] = {}
    for _ in range(12):
        for index, cells in region.evaluate(ROWS):
            assert found.setdefault(index, cells) == cells
        region.evaluate("(one) => { one.scrollTop += 300; }")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert sorted(found) == list(range(2, TRIALS + 2))
    assert [found[index][:2] for index in sorted(found)] == [row[:2] for row in expected]
    # A link that has the focus and is out of sight does not lead to another trial.
    region.evaluate("(one) => { one.scrollTop = 0; }")
    page.wait_for_selector(".virtual tr[aria-rowindex='2']")
    link = page.locator(".virtual tbody a").first
    link.focus()
    region.evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    page.wait_for_selector(f".virtual tr[aria-rowindex='{TRIALS + 1}']")
    assert page.evaluate("document.activeElement.tagName") == "BODY"


ROWS = """(one) => [...one.querySelectorAll("tbody tr:not(.pad)")].map((row) => [
  Number(row.getAttribute("aria-rowindex")),
  [row.querySelector("a").textContent, row.cells[1].textContent, row.querySelector("a").hash],
])"""


def test_keys_do_nothing_where_something_is_written(opened: Open) -> None:
    page = opened().go(f"trial={TRIAL}")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.get_by_role("button", name="Close").click()
    page.wait_for_selector("dialog:not([open])", state="attached")
    page.keyboard.press("/")
    page.wait_for_selector("input[type=search]:focus")
    page.keyboard.type("j?[k")
    assert page.locator("input[type=search]").input_value() == "j?[k"
    assert page.locator("dialog[open]").count() == 0


def test_a_trial_shows_what_was_asked_done_and_earned(opened: Open) -> None:
    page = opened().go(f"trial={TRIAL}")
    text = page.locator("#single").inner_text()
    for words in (
        "Size the conductor",
        "Breakdown",
        "Parts of the reward",
        "expected 3.2",
        "Turn 1",
    ):
        assert words in text, words
    assert "claude-tool-loop-1]'" in text
    assert count(page, ".turn") > 3
    page.get_by_label("results").uncheck()
    assert page.locator(".e-tool_result").first.is_hidden()
    page.get_by_role("link", name="side by side").first.click()
    page.locator("#single article").nth(1).wait_for()


def test_agents_that_disagree_can_be_filtered(opened: Open) -> None:
    page = opened().go("trials")
    page.get_by_label("outcome").select_option("different")
    page.wait_for_url("**different**")
    text = page.locator(".count").inner_text()
    assert "of 90 attempts" in text


def test_tables_and_plots_can_be_taken_away(opened: Open) -> None:
    page = opened().go("agent=codex&sort=reward")
    with page.expect_download() as download:
        page.get_by_label("Save trials as CSV").click()
    rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text())))
    assert len(rows) == 1 + TRIALS // 5
    assert {row[1] for row in rows[1:]} == {"codex"}
    with page.expect_download() as download:
        page.get_by_label("Save leaderboard as SVG").click()
    drawing = Path(download.value.path()).read_text()
    assert drawing.startswith("<?xml")
    assert "class=" not in drawing
    assert "claude-tool-loop" in drawing
    with page.expect_download() as download:
        page.get_by_label("Save leaderboard as CSV").click()
    head, *body = csv.reader(io.StringIO(Path(download.value.path()).read_text()))
    assert head[0] == "agent"
    assert len(body) == 5


def test_print_is_light_and_has_every_section_but_the_trials(opened: Open) -> None:
    one = opened(color_scheme="dark")
    page = one.go()
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    headings = page.locator("#report h2:visible").all_inner_texts()
    assert len(headings) == len(set(headings)) == 11
    assert page.locator(".virtual").is_hidden()
    assert page.get_by_text("Trials are not printed").is_visible()
    page.set_viewport_size({"width": 720, "height": 1000})
    clipped = page.evaluate(
        "[...document.querySelectorAll('#report table')].filter((one) => one.offsetWidth &&"
        " one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.dataset.name)"
    )
    assert clipped == []


def test_a_pdf_has_each_heading_once_and_nothing_beyond_its_edges(opened: Open) -> None:
    from pypdf import PdfReader

    page = opened().go()
    titles = page.locator("#report h2").all_text_contents()
    assert len(titles) == 11
    reader = PdfReader(io.BytesIO(page.pdf(format="A4", tagged=True, outline=True)))
    headings: list[str] = []
    _collect(reader.outline, headings)
    for title in titles:
        assert headings.count(title) == 1, title
    beyond: list[str] = []
    for sheet in reader.pages:
        width = float(sheet.mediabox.width)

        def see(text: str, matrix: list[float], at: list[float], *_: object) -> None:
            x = at[4] * matrix[0] + matrix[4]
            if text.strip() and not 0 <= x <= width:  # noqa: B023  (called while it holds)
                beyond.append(text)

        sheet.extract_text(visitor_text=see)
    assert beyond == []
    text = "".join(sheet.extract_text() for sheet in reader.pages)
    text = " ".join(text.split())
    # Names of agents, headings of columns, and numbers that are not torn apart.
    for words in ("claude-tool-loop", "local-command", "pass@1", "Holm's p", "spread", "6 of 6"):
        assert words in text, words
    assert "Trials are not printed" in text


def _collect(outline: Iterable[Any], headings: list[str]) -> None:
    for one in outline:
        if isinstance(one, list):
            _collect(one, headings)
        else:
            headings.append(one.title)


@pytest.mark.parametrize("width", [1280, 360])
def test_every_link_to_a_page_leads_to_its_heading(opened: Open, width: int) -> None:
    page = opened(viewport={"width": width, "height": 900}).go()
    names = [one.removeprefix("#") for one in page.locator("nav a").evaluate_all(HREFS)]
    assert len(names) == 11
    for name in [*names, *reversed(names)]:
        page.locator(f"nav a[href='#{name}']").click()
        page.evaluate(AT_TOP, name)


HREFS = "(found) => found.map((one) => one.getAttribute('href'))"
# Sections out of sight have estimated heights, until they are seen. The last ones cannot reach the
# top. (The page's policy forbids to wait for a function, which would be evaluated in the page.)
AT_TOP = """(name) => new Promise((done, fail) => {
  let frames = 300;
  const look = () => {
    const top = document.getElementById(name).getBoundingClientRect().top;
    const isEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    if ((top >= 0 && top <= 80) || (isEnd && top >= 0 && top < innerHeight)) done();
    else if (--frames) requestAnimationFrame(look);
    else fail(new Error(`${name} is at ${top}`));
  };
  look();
})"""


def test_a_narrow_matrix_shows_agents_beside_tasks(opened: Open) -> None:
    page = opened(viewport={"width": 360, "height": 800}).go("matrix")
    region = page.locator(".scroll:has(> table.matrix)").bounding_box()
    cell = page.locator("table.matrix tbody tr").first.locator("td.n").nth(3).bounding_box()
    assert region
    assert cell
    assert cell["x"] + cell["width"] <= region["x"] + region["width"]


def test_a_narrow_table_does_not_tear_words(opened: Open) -> None:
    page = opened(viewport={"width": 360, "height": 800}).go(f"trial={TRIAL}")
    for part in ("compliance", "voltage_drop_v"):
        for head in page.locator("#single th", has_text=part).all():
            box = head.bounding_box()
            assert box
            assert box["height"] < 36, part  # one line


OUT_OF_SIGHT = """(selector) => [...document.querySelectorAll(selector)].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width && (box.left < 0 || box.right > innerWidth);
}).length"""
# Of the text of plots, against the 12 pixels that it is meant to have.
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".chart svg")]
  .filter((one) => one.getBoundingClientRect().width)
  .map((one) => one.getBoundingClientRect().width / one.viewBox.baseVal.width))"""


@pytest.mark.parametrize("width", [1280, 360])
def test_plots_can_be_read_at_every_width_and_buttons_are_in_sight(
    opened: Open, width: int
) -> None:
    page = opened(viewport={"width": width, "height": 800}).go()
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    # Sections out of sight are not laid out.
    for name in page.locator("#report > section").evaluate_all(IDS):
        page.locator(f"#{name}").scroll_into_view_if_needed()
    shown = page.locator(".chart svg:visible")
    assert shown.count() == page.locator("figure.chart").count()
    assert page.evaluate(OUT_OF_SIGHT, ".chart svg") == 0
    assert page.evaluate(OUT_OF_SIGHT, ".bar-tools button, figcaption button") == 0
    assert page.evaluate(SMALLEST) > 0.9
    assert width > 360 or page.locator("#report .scroll tbody th").evaluate_all(CUT) == []
    # How a trial ended is seen without scrolling sideways.
    assert page.evaluate(OUT_OF_SIGHT, ".virtual .tag") == 0


# Names of tasks and agents differ at their ends.
CUT = """(found) => found.filter((one) => one.offsetWidth && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent)"""
IDS = "(found) => found.map((one) => one.id)"


def test_the_page_that_is_read_is_marked(opened: Open) -> None:
    page = opened().go()
    assert page.locator("nav a[aria-current]").all_inner_texts() == ["Overview"]
    page.locator("#matrix").evaluate("(one) => one.scrollIntoView()")
    page.wait_for_selector("nav a[href='#matrix'][aria-current]")
    assert count(page, "nav a[aria-current]") == 1


def test_what_was_missed_is_marked(opened: Open) -> None:
    page = opened().go("outcome=failed&agent=codex")
    page.locator(".virtual tbody a").first.click()
    page.wait_for_selector("#single h2:focus")
    parts = page.locator("table:has(caption:has-text('Parts of the reward')) tbody tr")
    marked = {row: "worse" in kind for row, kind in parts.evaluate_all(CLASSES)}
    assert marked
    assert all(is_marked is (not row.endswith("1")) for row, is_marked in marked.items())


CLASSES = "(found) => found.map((one) => [one.textContent, one.className])"


def test_a_table_of_few_trials_takes_no_more_room_than_they_do(opened: Open) -> None:
    page = opened().go(f"task={TASK.replace('/', '%2F')}&agent=codex")
    box, table = (page.locator(one).bounding_box() for one in (".virtual", ".virtual table"))
    assert box
    assert table
    assert box["height"] - table["height"] < 25  # the scroll bar
    page.get_by_role("button", name="Clear").click()
    page.locator(".virtual tbody tr").nth(30).wait_for(state="attached")


def test_the_scheme_can_be_chosen(opened: Open) -> None:
    page = opened(color_scheme="light").go()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
