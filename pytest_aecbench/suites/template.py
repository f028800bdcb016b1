"""A template as a value: its parameters, its levels, and how the prompt prints values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_aecbench.documents.problems import shown
from pytest_aecbench.suites.grid import Grid, literal

if TYPE_CHECKING:
    from pytest_aecbench.suites.engine import Engine
    from pytest_aecbench.suites.rules import Rule
    from pytest_aecbench.suites.schema import (
        DeriveTable,
        OutputTable,
        ParamTable,
        TemplateTable,
        Value,
    )

__all__ = [
    "ENGINE_FILE",
    "PARAMS_FILE",
    "PLAIN",
    "Level",
    "Params",
    "Template",
    "is_followed",
    "looked_up",
    "row_name",
]

PARAMS_FILE, ENGINE_FILE, INSTRUCTION_FILE = "params.toml", "engine.py", "instruction.md"
# The scenario of a template that describes none.
PLAIN = ""
Params: TypeAlias = "dict[str, Value]"


@dataclass(frozen=True, slots=True)
class Level:
    """A difficulty, with every name resolved."""

    name: str
    visibility: tuple[str, ...]
    params: tuple[str, ...]
    outputs: tuple[str, ...]
    hidden: tuple[str, ...]
    files: tuple[str, ...]
    archetypes: tuple[str, ...]

    def hides(self, visibility: str) -> tuple[str, ...]:
        """Return the parameters that a prompt of this visibility does not state."""
        return self.hidden if visibility == "partial" else ()


@dataclass(frozen=True, slots=True)
class Template:
    """A checked template; ``grids`` has the values by level, scenario and parameter."""

    path: Path
    table: TemplateTable = field(repr=False)
    engine: Engine = field(repr=False)
    instruction: str = field(repr=False)
    data: Mapping[str, str] = field(repr=False)
    tools: Mapping[str, str] = field(repr=False)
    levels: Mapping[str, Level]
    grids: Mapping[tuple[str, str], Mapping[str, Grid]] = field(repr=False)
    constraints: tuple[tuple[Rule, str], ...] = field(repr=False)
    formulas: Mapping[str, Rule] = field(repr=False)
    digest: str

    @property
    def id(self) -> str:
        """The logical path: discipline and name."""
        return f"{self.table.meta.discipline}/{self.table.meta.name}"

    @property
    def version(self) -> str:
        """The version of the template."""
        return self.table.meta.version

    @property
    def title(self) -> str:
        """The heading of its prompts."""
        meta = self.table.meta
        return meta.title or meta.name.replace("-", " ").replace("_", " ").capitalize()

    @property
    def params(self) -> Mapping[str, ParamTable]:
        """The parameters."""
        return self.table.params

    @property
    def outputs(self) -> Mapping[str, OutputTable]:
        """The fields of the answer."""
        return self.table.outputs

    @property
    def tool_modes(self) -> tuple[str, ...]:
        """The tool modes that instances can have."""
        mode = self.table.meta.tool_mode
        return ("with-tool", "no-tool") if mode == "both" else (mode,)

    def shown(self, name: str, value: Value) -> str:
        """Return a parameter's value as the prompt prints it."""
        param = self.params[name]
        text = literal(value, self._decimals(name))
        return param.labels.get(text, param.labels.get(str(value), text))

    def _decimals(self, name: str) -> int:
        grids = (grids[name] for grids in self.grids.values() if name in grids)
        return next((grid.decimals for grid in grids), 0)

    def value(self, name: str, text: str) -> Value:
        """Return the value that ``shown`` printed; raise ValueError if there is none."""
        param = self.params[name]
        for written, label in param.labels.items():
            if text == label:
                text = written
        if param.type == "float":
            return float(text)
        if param.type == "int":
            return int(text)
        for value in param.values or ():
            is_number = isinstance(value, (int, float)) and _number(text) == value
            if is_number or text == value:
                return value if isinstance(value, str) or not _floats(param) else float(value)
        raise ValueError(f"{text!r} is not a value of {name}")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _floats(param: ParamTable) -> bool:
    return any(isinstance(value, float) for value in param.values or ())


def row_name(one: ParamTable | OutputTable) -> str:
    """Return how a prompt's table calls a parameter or a field."""
    return f"{one.description}, {one.symbol}" if one.symbol else one.description


def is_followed(param: ParamTable, data: Mapping[str, str]) -> bool:
    """Return whether the value follows from others, by a formula or a file of the template."""
    derive = param.derive
    return derive is not None and (derive.rule is not None or derive.file in data)


def looked_up(text: str, derive: DeriveTable, wanted: str) -> str:
    """Return the cell of a CSV text in the row whose key is ``wanted``.

    Raises:
        ValueError: not exactly one row has it.

    """
    rows = [
        row
        for row in csv.DictReader(io.StringIO(text))
        if row.get(str(derive.key)) == wanted or _same(row.get(str(derive.key)), wanted)
    ]
    cells = [row.get(str(derive.column)) for row in rows]
    if len(cells) != 1 or not cells[0]:
        found = "an empty cell" if len(cells) == 1 else f"{len(cells)} rows"
        raise ValueError(f"{derive.file} has {found} where {derive.key} is {shown(wanted)}")
    return cells[0]


def _same(cell: str | None, wanted: str) -> bool:
    number = _number(cell or "")
    return number is not None and number == _number(wanted)
