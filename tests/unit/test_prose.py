"""The pages can be read: their lines, their links, their first words and their English."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

import pytest_aecbench
from tests.prose import comments, docstrings, faults, messages, paragraphs, uncounted

pytestmark = pytest.mark.slow  # about pages, not versions

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BACKEND_PAGES = ("daytona", "docker", "e2b", "local", "modal")
MAX_COLUMNS = 100

(PACKAGE,) = map(Path, pytest_aecbench.__path__)
MODULES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if "starter" not in path.parts  # the files of a new project
)
# First words that name neither an action nor a thing.
VAGUE = re.compile(r"(?:What|Whether|Whoever|How|Who|Which|Where|Tell|Say|Be|Have)\b")

if not (ROOT / "mkdocs.yml").is_file():  # as where the wheel is tested beside some of the files
    pytest.skip("pages are checked in the repository", allow_module_level=True)


def named(pages: list[Path]) -> pytest.MarkDecorator:
    names = [path.relative_to(ROOT).as_posix() for path in pages]
    return pytest.mark.parametrize("page", pages, ids=names)


def lines_outside_code(page: Path) -> list[tuple[int, str]]:
    kept, fenced = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            kept.append((number, line))
    assert not fenced, f"{page}: a code block has no end"
    return kept


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    found: Counter[str] = Counter()
    names = set()
    for _, line in lines_outside_code(page):
        if heading := re.match(r"#+ (.*)", line):
            slug = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            names.add(slug if not found[slug] else f"{slug}-{found[slug]}")
            found[slug] += 1
    return names


@named(PAGES)
def test_no_line_is_over_100_columns(page: Path) -> None:
    long = [
        (number, line)
        for number, line in lines_outside_code(page)
        if len(line) > MAX_COLUMNS and not line.startswith("|")
    ]
    assert long == []


@named(PAGES)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = "\n".join(line for _, line in lines_outside_code(page))
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@named([ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in BACKEND_PAGES)])
def test_commands_name_tasks_that_are_shipped(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"(?:pytest|aec-bench run) [^`\n]*?(tasks/[a-z-]+/[a-z-]+)", text)
    assert [name for name in commands if not (ROOT / name).is_dir()] == []


@named([page for page in PAGES if page.parent.name == "docs"])
def test_links_of_the_site_stay_in_the_site(page: Path) -> None:
    assert "](../" not in page.read_text(encoding="utf-8")


@named(PAGES)
def test_a_page_begins_by_saying_what_it_is_for(page: Path) -> None:
    title, first = re.split(r"\n\s*\n", page.read_text(encoding="utf-8"))[:2]
    assert re.fullmatch(r"# .+", title)
    assert re.match(r"[A-Z`]|pytest-aecbench", first), first
    assert first.rstrip().endswith((".", ":")), first


@named(PAGES)
def test_the_english_is_plain(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [fault for paragraph in paragraphs(text) for fault in faults(paragraph)] == []


def test_the_english_of_modules_is_plain() -> None:
    def texts(path: Path) -> list[str]:
        return [*docstrings(path), *comments(path), *messages(path)]

    # Another word in verify.py would give every task another digest.
    names = [name for name in MODULES if name != "verify.py"]
    found = {name: [f for text in texts(PACKAGE / name) for f in faults(text)] for name in names}
    assert {name: some for name, some in found.items() if some} == {}


def test_docstrings_start_with_a_verb_or_a_noun() -> None:
    found = {name: list(filter(VAGUE.match, docstrings(PACKAGE / name))) for name in MODULES}
    assert {name: some for name, some in found.items() if some} == {}


# What looks like a number of things in these, but is not or is never one.
NOT_ONE = {
    "agents/rlm/nudges.py": "a template has several sections",
    "cli/dataset.py": "a column, in which plurals are below one another",
    "plugin/lanes.py": "one trial at a time needs no lanes",
    "suites/template.py": "one row has an answer of its own",
}


def test_one_thing_is_not_called_several() -> None:
    found = {name: list(uncounted(PACKAGE / name)) for name in MODULES if "templates/" not in name}
    assert {name for name, some in found.items() if some} == set(NOT_ONE), found


def test_a_number_before_a_plural_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('print(f"{n} trials, {n} failed attempts, {MOST} tasks, {x} has records")\n')
    assert len(list(uncounted(module))) == 2


@pytest.mark.parametrize(
    "sentence",
    [
        "This is no directory.",
        "Whoever comes first wins.",
        "It is removed, for it is old.",
        "Wait a while. What is left is removed.",
        "The run ends; what is left is removed.",
    ],
)
def test_a_phrase_to_avoid_is_found(sentence: str) -> None:
    assert len(faults(sentence)) == 1


@pytest.mark.parametrize(
    "sentence",
    ["There is no such directory.", "This is no longer so.", "Press Ctrl-C, for example.", "Why?"],
)
def test_plain_sentences_are_left_alone(sentence: str) -> None:
    assert faults(sentence) == []


def test_docstrings_are_found_for_the_same_rules() -> None:
    own = list(docstrings(Path(__file__)))
    assert own[0].startswith("The pages can be read")
    assert any("as GitHub and mkdocs make them" in text for text in own)


def test_comments_and_messages_are_found_for_the_same_rules(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('x = 1  # a reason\nraise ValueError(f"{x}: is wrong; add one")\n')
    assert list(comments(module)) == ["a reason"]
    assert list(messages(module)) == [": is wrong; add one"]


def test_the_site_has_every_page_once() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        assert not isinstance(parts, (str, bytes))
        return [page for part in parts for page in pages(part)]  # type: ignore[attr-defined]

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert sorted(pages(nav)) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_architecture_names_every_package() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    (package,) = map(Path, pytest_aecbench.__path__)
    names = {path.stem for path in package.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert {name for name in names if name[0] != "_" and f"`{name}`" not in page} == set()


def test_the_version_is_in_the_changelog_and_the_citation() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", pytest_aecbench.__version__]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == pytest_aecbench.__version__
