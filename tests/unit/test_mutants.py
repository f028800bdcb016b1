"""The mutants that are tried at night are the small mistakes that they claim to be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest_aecbench
from tests.mutants import TESTS, Mutant, equivalents, is_listed, mutants

PACKAGE = Path(pytest_aecbench.__file__).parent

SOURCE = '''"""A module."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

LIMIT: "int" = 3


def clipped(values: list[float], low: float = 0.5) -> float | None:
    """Return the least."""
    if not values or low >= LIMIT:
        return None
    for value in values:
        if value is None:
            continue
        low -= value / 2
    print(f"{low + 1} of é {len(values) + 1}")
    return min(-low, math.inf) if values else low
'''


def test_each_mutant_is_one_mistake_that_a_careless_author_could_make() -> None:
    found = [f"{mutant.before} -> {mutant.after}" for mutant in mutants("a/b", SOURCE)]
    assert found == [
        "3 -> 4",
        "0.5 -> 1.5",
        "not values or low >= LIMIT -> not values and low >= LIMIT",
        "not values -> values",
        "low >= LIMIT -> low > LIMIT",
        "low >= LIMIT -> low < LIMIT",
        "value is None -> value is not None",
        "continue -> break",
        "low -= value / 2 -> pass",
        "value / 2 -> value * 2",
        "2 -> 3",
        'print(f"{low + 1} of é {len(values) + 1}") -> pass',
        "return min(-low, math.inf) if values else low -> return None",
        "min(-low, math.inf) if values else low -> low if values else min(-low, math.inf)",
        "min(-low, math.inf) -> max(-low, math.inf)",
        "-low -> low",
    ]


def test_a_mutant_differs_from_the_module_in_its_own_line_alone() -> None:
    for mutant in mutants("a/b", SOURCE):
        pairs = zip(SOURCE.splitlines(), mutant.source.splitlines(), strict=True)
        ((before, _),) = [pair for pair in pairs if pair[0] != pair[1]]
        assert before == SOURCE.splitlines()[mutant.number - 1]
        assert before.strip() == mutant.line
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(SOURCE))


def test_a_mistake_in_a_condition_leaves_what_depends_on_it() -> None:
    (mutant,) = mutants("a/b", "while ready():\n    work = [\n        a,\n    ]\n")
    assert (mutant.number, mutant.line) == (1, "while ready():")
    assert mutant.source.split() == ["while", "not", "ready():", "work", "=", "[a]"]


def test_mutants_of_equal_names_are_told_apart() -> None:
    assert [mutant.name for mutant in mutants("m", "x = (1, 1)\n")] == [
        "m | x = (1, 1) | 1 -> 2",
        "m | x = (1, 1) | 1 -> 2 (2)",
    ]


def test_a_list_names_a_mutant_or_all_of_a_line() -> None:
    mutant = Mutant("m", 1, "x = 1 + y", "1", "2", "x = 2 + y")
    assert is_listed(mutant, {"m | x = 1 + y | 1 -> 2"})
    assert is_listed(mutant, {"m | x = 1 + y"})
    assert not is_listed(mutant, {"m | x = 1 + y | 1 + y -> 1 - y", "n | x = 1 + y"})


def test_every_listed_mutant_exists() -> None:
    found = {
        name
        for module in TESTS
        for mutant in mutants(module, module_source(module))
        for name in (mutant.name, f"{module} | {mutant.line}")
    }
    assert equivalents() - found == set()


def module_source(module: str) -> str:
    return (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
