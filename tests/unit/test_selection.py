"""An experiment's tasks are those that every rule allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.tasks.schema import parse_config
from pytest_aecbench.tasks.selection import Selection
from pytest_aecbench.tasks.task import Task

TASKS = {
    "electrical/drop": 'difficulty = "easy"',
    "electrical/deep/fault": 'difficulty = "hard"',
    "civil/curve": 'difficulty = "easy"\nlifecycle = "retired"',
    "misc/pump": 'domain = "water"',
}


def tasks() -> list[Task]:
    found = []
    for task_id, toml in TASKS.items():
        config = parse_config(f"[metadata]\n{toml}\n").config
        assert config is not None
        found.append(Task(Path(task_id), task_id, config))
    return found


@pytest.mark.parametrize(
    ("rules", "taken"),
    [
        ({}, {*TASKS}),
        ({"include_patterns": ("electrical/*",)}, {"electrical/drop", "electrical/deep/fault"}),
        ({"include_patterns": ("civil/*", "misc/pump")}, {"civil/curve", "misc/pump"}),
        ({"exclude_patterns": ("electrical/*",)}, {"civil/curve", "misc/pump"}),
        ({"include_patterns": ("ELECTRICAL/*",)}, set()),
        ({"domains": ("water",)}, {"misc/pump"}),
        ({"difficulties": ("easy", "hard")}, {*TASKS} - {"misc/pump"}),
        ({"lifecycle": ("active",)}, {*TASKS} - {"civil/curve"}),
        ({"domains": ("electrical",), "difficulties": ("hard",)}, {"electrical/deep/fault"}),
        ({"domains": ("electrical",), "include_patterns": ("civil/*",)}, set()),
        ({"include_patterns": ("*",), "exclude_patterns": ("*/c*",)}, {*TASKS} - {"civil/curve"}),
    ],
)
def test_rules_narrow_each_other(rules: dict[str, tuple[str, ...]], taken: set[str]) -> None:
    selection = Selection(**rules)
    assert {task.task_id for task in tasks() if selection.takes(task)} == taken
    assert bool(selection) == bool(rules)
