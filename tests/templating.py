"""Templates for tests: the one that ``new-template`` writes, with changes."""

from __future__ import annotations

from pathlib import Path

from pytest_aecbench.suites.catalogue import find_templates
from pytest_aecbench.suites.draws import Key
from pytest_aecbench.suites.generation import key_of
from pytest_aecbench.suites.prompt import Cell
from pytest_aecbench.suites.sampling import Instance, sample
from pytest_aecbench.suites.scaffold import new_template
from pytest_aecbench.suites.template import Template

SHIPPED = find_templates()


def changed(root: Path, file: str = "params.toml", *changes: tuple[str, str]) -> Path:
    """Write a new template below ``root`` with some text replaced; return its directory."""
    path = root / "electrical/wire"
    if not path.exists():
        new_template("electrical/wire", root)
    text = (path / file).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (path / file).write_text(text, encoding="utf-8")
    return path


def cells(template: Template) -> list[Cell]:
    """Return a cell for every level and visibility."""
    return [
        Cell(level.name, visibility, template.tool_modes[0])
        for level in template.levels.values()
        for visibility in level.visibility
    ]


def some(template: Template, cell: Cell, count: int, *, seed: int = 5) -> list[Instance]:
    """Return different instances of one cell."""
    taken: set[str] = set()
    keys: list[Key] = [key_of(template, seed, "", index) for index in range(count)]
    return [sample(template, key, cell, taken) for key in keys]
