"""The plan of a suite: mixes hold for the whole, as nearly as the templates allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.allocation import (
    Axes,
    Offer,
    allocate,
    counts_of,
    shared_out,
    shortages,
    split_up,
)
from pytest_aecbench.suites.config import load_suite
from pytest_aecbench.suites.prompt import Cell
from pytest_aecbench.suites.suite import plan_suite
from tests.pages import blocks
from tests.templating import SHIPPED

LEVELS = ("easy", "medium", "hard")
(DOCUMENTED,) = blocks("suites.md", "toml")
THIRDS = {"easy": 0.3333333333, "medium": 0.3333333333, "hard": 0.3333333334}
MIXES = Axes(THIRDS, {"all_given": 0.78, "partial": 0.22}, {"with-tool": 1.0})


def offer(name: str, *levels: tuple[str, str], tools: tuple[str, ...] = ("with-tool",)) -> Offer:
    return Offer(name, tuple(Cell(*level, mode) for level in levels for mode in tools))


def usual(name: str, *, partial: bool = True) -> Offer:
    hard = [("hard", "partial")] if partial else []
    return offer(name, *((level, "all_given") for level in LEVELS), *hard)


def marginals(plan: list[tuple[str, Cell]]) -> Counter[str]:
    return Counter(word for _, cell in plan for word in (cell.difficulty, cell.visibility))


def hundred_and_nine() -> list[Offer]:
    return [usual(f"{'civil' if at < 92 else 'electrical'}/t{at:03}") for at in range(109)]


@pytest.mark.parametrize(
    ("per_task", "total", "difficulties", "visibilities"),
    [(3, 200, (67, 66, 67), (156, 44)), (1, 20, (7, 6, 7), (16, 4))],
)
def test_the_documented_suite_has_its_mixes_over_109_templates(
    per_task: int, total: int, difficulties: tuple[int, ...], visibilities: tuple[int, ...]
) -> None:
    offers = hundred_and_nine()
    counts = counts_of(offers, per_task, total, 3)
    plan = allocate(offers, counts, MIXES)
    found = marginals(plan)
    assert len(plan) == total
    assert tuple(found[level] for level in LEVELS) == difficulties
    assert (found["all_given"], found["partial"]) == visibilities
    assert shortages(offers, plan, MIXES) == []


def test_mixes_hold_when_only_some_templates_offer_a_kind() -> None:
    offers = [usual(f"civil/t{at}", partial=at % 3 > 0) for at in range(109)]
    plan = allocate(offers, counts_of(offers, 3, 200, 3), MIXES)
    found = marginals(plan)
    assert (found["easy"], found["medium"], found["hard"], found["partial"]) == (67, 66, 67, 44)


def test_what_the_templates_lack_is_said_with_numbers_and_names() -> None:
    offers = [usual("civil/a", partial=False), usual("civil/b")]
    plan = allocate(offers, {"civil/a": 5, "civil/b": 2}, MIXES)
    mixes = Axes({}, {"all_given": 0.2, "partial": 0.8})
    plan = allocate(offers, {"civil/a": 5, "civil/b": 2}, mixes)
    assert shortages(offers, plan, mixes) == [
        "visibility partial: 6 wanted, 2 possible (templates offering it: civil/b)"
    ]


CELLS = [(level, seen) for level in LEVELS for seen in ("all_given", "partial")]
OFFERS = st.lists(
    st.lists(st.sampled_from(CELLS), min_size=1, max_size=4, unique=True), min_size=1, max_size=3
)
SHARES = st.tuples(*[st.integers(1, 5)] * 3)
MODES = (("with-tool", "no-tool"), ("with-tool",), ("no-tool",))


def deviations(
    plan: list[tuple[str, Cell]], axes: Axes, both: Collection[str] = ()
) -> tuple[int, int]:
    """Return the sum and the largest of the distances from the targets."""
    found = Counter()  # type: Counter[tuple[str, str]]
    for _, cell in plan:
        found.update([("difficulty", cell.difficulty), ("visibility", cell.visibility)])
    chosen = [cell.tool_mode for template, cell in plan if template in both]
    found.update(("tool_mode", mode) for mode in chosen)
    targets = axes.targets(len(plan), len(chosen))
    away = [abs(found[mark] - wanted) for mark, wanted in targets.items()]
    return sum(away), max(away)


@given(
    offered=OFFERS, shares=SHARES, seen=st.tuples(*[st.integers(1, 5)] * 2), each=st.integers(1, 2)
)
def test_marginals_are_as_near_as_any_plan_could_be(
    offered: list[list[tuple[str, str]]],
    shares: tuple[int, ...],
    seen: tuple[int, ...],
    each: int,
) -> None:
    axes = Axes(
        dict(zip(LEVELS, map(float, shares), strict=True)),
        dict(zip(("all_given", "partial"), map(float, seen), strict=True)),
    )
    offers = [offer(f"a/t{at}", *levels) for at, levels in enumerate(offered)]
    counts = {one.template: each for one in offers}
    plan = allocate(offers, counts, axes)
    slots = [one for one in offers for _ in range(each)]
    best = min(
        deviations([(one.template, cell) for one, cell in zip(slots, cells, strict=True)], axes)
        for cells in product(*(one.cells for one in slots))
    )
    assert deviations(plan, axes)[0] == best[0]
    assert Counter(name for name, _ in plan) == counts


@given(
    offered=OFFERS,
    modes=st.lists(st.sampled_from(MODES), min_size=3, max_size=3),
    shares=SHARES,
    seen=st.tuples(*[st.integers(1, 5)] * 4),
)
def test_marginals_with_tool_modes_are_within_one_of_what_any_plan_could_reach(
    offered: list[list[tuple[str, str]]],
    modes: list[tuple[str, ...]],
    shares: tuple[int, ...],
    seen: tuple[int, ...],
) -> None:
    axes = Axes(
        dict(zip(LEVELS, map(float, shares), strict=True)),
        dict(zip(("all_given", "partial"), map(float, seen[:2]), strict=True)),
        dict(zip(("with-tool", "no-tool"), map(float, seen[2:]), strict=True)),
    )
    offers = [
        offer(f"a/t{at}", *levels, tools=tools)
        for at, (levels, tools) in enumerate(zip(offered, modes, strict=False))
    ]
    both = {one.template for one in offers if one.has_both_tool_modes}
    plan = allocate(offers, {one.template: 1 for one in offers}, axes)
    plans = (
        [(one.template, cell) for one, cell in zip(offers, chosen, strict=True)]
        for chosen in product(*(one.cells for one in offers))
    )
    best = min(deviations(one, axes, both)[0] for one in plans)
    assert deviations(plan, axes, both)[0] <= best + 2


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    per_task=st.integers(1, 6),
    total=st.integers(1, 120),
    minimum=st.integers(0, 8),
)
def test_counts_keep_the_total_and_the_minimum_of_each_discipline(
    sizes: list[int], per_task: int, total: int, minimum: int
) -> None:
    offers = [usual(f"d{d}/t{t}") for d, size in enumerate(sizes) for t in range(size)]
    counts = counts_of(offers, per_task, total, minimum)
    wanted = per_task * len(offers)
    assert sum(counts.values()) == min(wanted, total)
    assert max(counts.values()) <= per_task
    given_to = Counter()  # type: Counter[str]
    for name, count in counts.items():
        given_to[name.partition("/")[0]] += count
    promised = {f"d{d}": min(minimum, per_task * size) for d, size in enumerate(sizes)}
    if wanted <= total or sum(promised.values()) <= total:
        assert all(given_to[name] >= least for name, least in promised.items() if wanted > total)


@given(st.integers(0, 1000), st.lists(st.floats(0.01, 1), min_size=1, max_size=6))
def test_shares_add_up(total: int, shares: list[float]) -> None:
    counts = shared_out(total, {str(at): share for at, share in enumerate(shares)})
    assert sum(counts.values()) == total
    whole = sum(shares)
    assert all(abs(counts[str(at)] - total * s / whole) < 1 for at, s in enumerate(shares))


def test_every_split_has_its_share_of_every_kind() -> None:
    offers = hundred_and_nine()
    plan = allocate(offers, counts_of(offers, 3, 200, 3), MIXES)
    slots = split_up(plan, {"train": 0.8, "val": 0.1, "test": 0.1})
    assert Counter(slot.split for slot in slots) == {"train": 160, "val": 20, "test": 20}
    hard = Counter(slot.split for slot in slots if slot.cell.difficulty == "hard")
    assert (hard["val"], hard["test"]) in {(6, 7), (7, 6), (7, 7), (6, 6)}
    places = {(slot.template, slot.split, slot.index) for slot in slots}
    assert len(places) == len(slots)


def written(directory: Path, text: str) -> Path:
    path = directory / "suite.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_documented_file_is_read_word_for_word(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, DOCUMENTED))
    assert suite.tool_mode.mix == {"with-tool": 1.0}
    assert suite.warnings() == []


def test_only_name_seed_and_directory_are_needed(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, 'name = "s"\nseed = 1\noutput.dir = "tasks/s"\n'))
    assert (suite.instances.per_task, suite.instances.total_max) == (5, 200)
    assert suite.templates.include == ("*/*",)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("seed = 20260524\n", "", "seed: missing; add a whole number from 0"),
        (
            "per_task = 3",
            "per_tasks = 3",
            "instances.per_tasks: unknown key; did you mean 'per_task'?",
        ),
        ("total_max = 200", "total_max = 0", "instances.total_max: 0 is not valid; use a whole"),
        ("all_given = 0.78", "all_given = 1e308", "all_given: 1e+308 is not valid; use a table of"),
        ("all_given = 0.78", "all_given = nan", "visibility.mix.all_given: nan is not valid"),
        ("with_tool = 1.0", "with_tool = 1.0, with-tool = 0.5", "a key is there with _ and with -"),
        (
            "easy = 0.3333333333, medium = 0.3333333333, hard = 0.3333333334",
            "easy = 0",
            "are 0; give",
        ),
        ("all_given = 0.78", "scenario_only = 0.78", "'all_given', 'partial'"),
        ("name =", "split = { dev = 1 }\nname =", "'test', 'train', 'val'"),
        ("[output]", "[outputs]", "outputs: unknown key; did you mean 'output'?"),
    ],
)
def test_a_mistake_in_a_suite_is_a_line_each(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_suite(written(tmp_path, DOCUMENTED.replace(old, new)))
    assert problem in str(caught.value)
    assert all("suite.toml: " in line for line in str(caught.value).splitlines())


def test_a_suite_that_must_be_exact_refuses_what_it_cannot_keep(tmp_path: Path) -> None:
    impossible = DOCUMENTED.replace("partial = 0.22", "partial = 7")
    loose = load_suite(written(tmp_path, impossible))
    templates = [SHIPPED["water/part-full-sewer"]]
    (sums, short, *_) = plan_suite(loose, templates).warnings
    assert "visibility.mix: the shares add up to 7.78" in sums
    assert short.startswith("difficulty ") or "visibility partial: 3 wanted" in short
    exact = load_suite(written(tmp_path, impossible.replace("per_task", "exact = true\nper_task")))
    with pytest.raises(SettingsError, match=r"instances\.exact: .* possible"):
        plan_suite(exact, templates)
