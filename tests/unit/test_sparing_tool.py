"""The tool of water/leak-location: nothing but a good plan pays, however often it is asked."""

from __future__ import annotations

import csv
import random
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache

import pytest

from tests.unit.test_shipped_tasks import ROOT, instruction

TASK = ROOT / "water/leak-location"
TOOL = TASK / "tools/pressure_test.py"
with (TASK / "environment/valves.csv").open(encoding="utf-8", newline="") as stream:
    HOURS = {int(row["valve"]): int(row["hours"]) for row in csv.DictReader(stream)}
SECTIONS = len(HOURS) + 1
results: Callable[[list[int]], list[str]] = runpy.run_path(str(TOOL))["results"]


def left(valves: list[int]) -> tuple[int, int]:
    """Return the first and the last section that the tool's results leave."""
    first, last = 1, SECTIONS
    for valve, shown in zip(valves, results(valves), strict=True):
        first, last = (
            (first, min(last, valve)) if shown == "falls" else (max(first, valve + 1), last)
        )
    return first, last


@lru_cache
def planned(first: int, last: int) -> int:
    """Return the hours that the best plan takes at worst."""
    return min(
        (
            HOURS[valve] + max(planned(first, valve), planned(valve + 1, last))
            for valve in range(first, last)
        ),
        default=0,
    )


def test_no_tests_that_find_the_leak_take_less_than_the_best_plan() -> None:
    found: dict[tuple[int, int], int] = {}

    def cheapest(valves: list[int]) -> int:
        """Return the fewest hours of further tests, with full knowledge of what they show."""
        first, last = left(valves)
        if (first, last) not in found:
            found[first, last] = min(
                (HOURS[valve] + cheapest([*valves, valve]) for valve in range(first, last)),
                default=0,
            )
        return found[first, last]

    assert cheapest([]) == planned(1, SECTIONS) == 22
    assert "The crew has 24 hours." in instruction(TASK)


@pytest.mark.parametrize("seed", range(20))
def test_results_do_not_contradict_one_another_and_do_not_change(seed: int) -> None:
    valves = random.Random(seed).choices(range(1, SECTIONS), k=30)
    shown = results(valves)
    first, last = left(valves)
    assert first <= last
    for valve, what in zip(valves, shown, strict=True):
        assert last <= valve if what == "falls" else valve < first
    assert [results(valves[:count])[-1] for count in range(1, 31)] == shown


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"valves": 3}', '{"valves": [0, true, "a"]}'])
def test_a_wrong_question_gets_one_line(text: str) -> None:
    ended = subprocess.run([sys.executable, TOOL], input=text, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == 'pressure_test: give {"valves": [...]} with valves from 1 to 23\n'
