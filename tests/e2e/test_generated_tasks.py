"""Generated tasks, checked as a user checks tasks: all are sound, and no exploit pays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_aecbench.ledger.checks import EXPLOITS, STANDARD
from pytest_aecbench.suites.generation import generate_tasks
from pytest_aecbench.suites.prompt import Cell
from tests.checking import run_checks
from tests.templating import SHIPPED, cells

pytestmark = [pytest.mark.slow, pytest.mark.needs("namespaces")]

# One with tools, one with a table, a rule and whole numbers, one with an inverse problem.
SOME = (
    "water/rational-storm-peak",
    "electrical/adiabatic-conductor",
    "water/part-full-sewer",
)
DISCIPLINES = sorted({name.partition("/")[0] for name in SHIPPED})
EACH = 42  # of 24 templates make 1,008 tasks


def write(directory: Path, name: str, chosen: list[Cell], count: int) -> None:
    generate_tasks(SHIPPED[name], chosen, count, 8, 0, directory / "tasks")


def assert_sound(directory: Path, tasks: int, checks: Iterable[str]) -> None:
    asked = list(checks)
    mode = "--aec-local-mode=namespaces"
    found = run_checks(directory, "tasks", "-n2", f"--aec-check={','.join(asked)}", mode)
    assert found.code == 0, found.output
    outcomes = {(record["check"], record["outcome"]) for record in found.records}
    assert {one for one in outcomes if one[1] != "passed"} <= {("exploit:preload", "skipped")}
    assert len(found.records) == tasks * len(asked)


@pytest.mark.nightly
def test_tasks_with_hidden_values_are_sound(tmp_path: Path) -> None:
    for name in SOME:
        hidden = [cell for cell in cells(SHIPPED[name]) if cell.visibility == "partial"]
        write(tmp_path, name, hidden, 1)
    assert_sound(tmp_path, len(SOME), STANDARD)


@pytest.mark.nightly
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_kind_of_every_template_is_sound(tmp_path: Path, discipline: str) -> None:
    names = [name for name in SHIPPED if name.startswith(f"{discipline}/")]
    kinds = {name: cells(SHIPPED[name]) for name in names}
    for name, own in kinds.items():
        write(tmp_path, name, own, len(own))
    assert_sound(tmp_path, sum(map(len, kinds.values())), STANDARD)


@pytest.mark.nightly
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_solutions_of_a_thousand_tasks_earn_all_and_no_work_earns_nothing(
    tmp_path: Path, discipline: str
) -> None:
    names = [name for name in SHIPPED if name.startswith(f"{discipline}/")]
    for name in names:
        write(tmp_path, name, cells(SHIPPED[name]), EACH)
    assert_sound(tmp_path, EACH * len(names), ("solution", "empty"))


@pytest.mark.nightly
def test_no_exploit_pays(tmp_path: Path) -> None:
    kinds = {name: cells(template) for name, template in SHIPPED.items()}
    for name, own in kinds.items():
        write(tmp_path, name, own, len(own))
    assert_sound(tmp_path, sum(map(len, kinds.values())), EXPLOITS)
