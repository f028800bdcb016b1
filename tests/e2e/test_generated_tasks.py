"""Generated tasks, checked as a user checks tasks: all are sound, and no exploit pays."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.ledger.checks import EXPLOITS, STANDARD
from pytest_aecbench.suites.generation import generate_tasks
from tests.checking import Checked, run_checks
from tests.templating import SHIPPED, cells

pytestmark = pytest.mark.slow

# One with tools, one with a table, a rule and whole numbers, one with an inverse problem.
SOME = (
    "water/rational-storm-peak",
    "electrical/adiabatic-conductor",
    "water/part-full-sewer",
)
EACH = 42


def write(directory: Path, name: str, count: int, *, hardest: bool = False) -> None:
    template = SHIPPED[name]
    chosen = cells(template)
    partial = [cell for cell in chosen if cell.visibility == "partial"]
    generate_tasks(template, partial if hardest else chosen, count, 8, 0, directory / "tasks")


def assert_sound(found: Checked, tasks: int, checks: int) -> None:
    assert found.code == 0, found.output
    outcomes = {(record["check"], record["outcome"]) for record in found.records}
    assert {one for one in outcomes if one[1] != "passed"} <= {("exploit:preload", "skipped")}
    assert len(found.records) == tasks * checks


@pytest.mark.needs("namespaces")
def test_tasks_with_hidden_values_are_sound(tmp_path: Path) -> None:
    for name in SOME:
        write(tmp_path, name, 1, hardest=True)
    found = run_checks(tmp_path, "tasks", "-n2", "--aec-check", "--aec-local-mode=namespaces")
    assert_sound(found, len(SOME), len(STANDARD))


@pytest.mark.nightly
@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("name", SHIPPED)
def test_all_kinds_of_all_templates_are_sound(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, EACH)
    found = run_checks(tmp_path, "tasks", "-n2", "--aec-check", "--aec-local-mode=namespaces")
    assert_sound(found, EACH, len(STANDARD))


@pytest.mark.nightly
@pytest.mark.needs("namespaces")
def test_no_exploit_pays(tmp_path: Path) -> None:
    each = -(-100 // len(SHIPPED))
    for name in SHIPPED:
        write(tmp_path, name, each)
    mode = "--aec-local-mode=namespaces"
    found = run_checks(tmp_path, "tasks", "-n2", "--aec-check=exploits", mode)
    assert_sound(found, each * len(SHIPPED), len(EXPLOITS))
