"""Read a template: ``params.toml``, ``instruction.md`` and ``engine.py``, all of it checked."""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.documents.strict import read_toml
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import read_text, shown_path
from pytest_aecbench.suites.engine import Engine, load_engine
from pytest_aecbench.suites.examples import check_examples
from pytest_aecbench.suites.grid import Grid, grid_of
from pytest_aecbench.suites.rules import Rule, parse_rule
from pytest_aecbench.suites.template import (
    ENGINE_FILE,
    INSTRUCTION_FILE,
    PARAMS_FILE,
    PLAIN,
    Level,
    Template,
    is_followed,
    looked_up,
    row_name,
)
from pytest_aecbench.tasks.digest import directory_digest, is_ignored
from pytest_aecbench.text import did_you_mean, one_line

if TYPE_CHECKING:
    from pytest_aecbench.suites.schema import DeriveTable, LevelTable, OutputTable, TemplateTable

__all__ = ["load_template"]

_FEW = 1000


def load_template(path: Path) -> Template:
    """Return the checked template of a directory, or raise SettingsError of one line a problem."""
    from pytest_aecbench.suites.schema import parse_template

    where = shown_path(path / PARAMS_FILE)
    table, problems = parse_template(read_toml(path / PARAMS_FILE))
    if table is None:
        raise SettingsError("\n".join(f"{where}: {problem}" for problem in problems))
    engine = load_engine(_read(path / ENGINE_FILE), shown_path(path / ENGINE_FILE))
    loading = _Loading(table, _texts(path / "data"), _texts(path / "tools"), engine)
    try:
        template = loading.template(path, _read(path / INSTRUCTION_FILE))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    _check_lookups(template, where)
    check_examples(template)
    return template


def _check_lookups(template: Template, where: str) -> None:
    """Check that every value which is looked up in ``data/`` is there, whatever is drawn."""
    for name, param in template.params.items():
        derive = param.derive
        if derive is None or derive.file not in template.data:
            continue
        wanted = {derive.row}
        if derive.row is None:
            key = str(derive.key)
            grids = [one[key] for one in template.grids.values() if key in one]
            few = [grid for grid in grids if grid.size <= _FEW]
            wanted = {template.shown(key, grid.at(at)) for grid in few for at in range(grid.size)}
        for one in sorted(map(str, wanted)):
            try:
                template.value(name, looked_up(template.data[str(derive.file)], derive, one))
            except ValueError as error:
                what = f"params.{name}.derive: {error}"
                raise SettingsError(f"{where}: {what}; correct the file") from None


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _texts(directory: Path) -> dict[str, str]:
    """Return the files of a directory, by name."""
    if not directory.is_dir():
        return {}
    files = sorted(path for path in directory.iterdir() if not is_ignored(path.name))
    return {path.name: _read(path) for path in files}


@dataclass(frozen=True, slots=True)
class _Loading:
    """The parts of a template while they are checked; problems are ValueErrors."""

    table: TemplateTable
    data: Mapping[str, str]
    tools: Mapping[str, str]
    engine: Engine

    def template(self, path: Path, instruction: str) -> Template:
        """Return the template."""
        for name, param in self.table.params.items():
            if param.derive:
                with _at(f"params.{name}.derive"):
                    self._check_derive(param.derive)
        own = {name: grid for name in self.table.params if (grid := self._own_grid(name))}
        formulas = dict(self._formulas())
        levels: dict[str, Level] = {
            name: self._level(name, one) for name, one in self.table.difficulty.items()
        }
        grids = {
            (level.name, archetype): self._grids(own, level, archetype)
            for level in levels.values()
            for archetype in level.archetypes
        }
        self._check_texts()
        self._check_outputs(levels)
        self._check_tools()
        self._check_derived(levels, formulas, grids)
        self._check_signatures(levels)
        return Template(
            path=path,
            table=self.table,
            engine=self.engine,
            instruction=instruction,
            data=self.data,
            tools=self.tools,
            levels=levels,
            grids=grids,
            constraints=tuple(self._constraints()),
            formulas=formulas,
            digest=directory_digest(path),
        )

    def _own_grid(self, name: str) -> Grid | None:
        param = self.table.params[name]
        if is_followed(param, self.data) and param.type in ("float", "int"):
            if param.derive and param.derive.rule and param.step is None:
                raise ValueError(f"params.{name}.step: missing; a rule's value is printed in steps")
            if param.min is None or param.max is None:
                return None
        try:
            return grid_of(param)
        except ValueError as error:
            key, colon, rest = str(error).partition(": ")
            raise ValueError(f"params.{name}.{key}{colon}{rest}") from None

    def _formulas(self) -> Iterator[tuple[str, Rule]]:
        earlier: list[str] = []
        for name, param in self.table.params.items():
            if param.derive and param.derive.rule:
                with _at(f"params.{name}.derive.rule"):
                    yield name, parse_rule(param.derive.rule, earlier)
            earlier.append(name)

    def _constraints(self) -> Iterator[tuple[Rule, str]]:
        for index, constraint in enumerate(self.table.constraints):
            with _at(f"constraints.{index}.rule"):
                yield parse_rule(constraint.rule, self.table.params), constraint.why

    def _level(self, name: str, one: LevelTable) -> Level:
        where = f"difficulty.{name}"
        table = self.table
        params = _named(one.params, table.params, f"{where}.params")
        hidden = _named(one.hidden or one.hidden_params, params, f"{where}.hidden", default=())
        if "partial" in one.visibility and not hidden:
            raise ValueError(f"{where}.hidden: missing; 'partial' hides at least one parameter")
        if hidden and "partial" not in one.visibility:
            raise ValueError(f"{where}.visibility: hides nothing; add 'partial' or drop 'hidden'")
        for file in one.files:
            if file not in self.data and not self.engine.has("files"):
                right = "put it into data/ or let files() of the engine write it"
                raise ValueError(f"{where}.files: {file!r} does not exist; {right}")
        archetypes = tuple(table.archetypes) or (PLAIN,)
        return Level(
            name=name,
            visibility=tuple(dict.fromkeys(one.visibility)),
            params=params,
            outputs=_named(one.outputs, table.outputs, f"{where}.outputs"),
            hidden=hidden,
            files=one.files,
            archetypes=_named(one.archetypes, archetypes, f"{where}.archetypes"),
        )

    def _grids(self, own: Mapping[str, Grid], level: Level, archetype: str) -> dict[str, Grid]:
        narrowed: dict[str, dict[str, object]] = {
            f"difficulty.{level.name}": self.table.difficulty[level.name].narrowed  # type: ignore[index]
        }
        if archetype != PLAIN:
            narrowed[f"archetypes.{archetype}"] = self.table.archetypes[archetype].narrowed
        grids = {name: own[name] for name in level.params if name in own}
        for where, narrowings in narrowed.items():
            for name, allowed in narrowings.items():
                with _at(f"{where}.{name}"):
                    if name not in own:
                        raise ValueError("its value follows from others; leave it out")
                    if where.startswith("difficulty") and name not in level.params:
                        raise ValueError("is not a parameter of this level; leave it out")
                    own[name].narrowed(allowed)
                    if name in grids:
                        grids[name] = _both(grids[name], allowed, level.name, archetype)
        return grids

    def _check_texts(self) -> None:
        """Check that the prompt's rows can be told from one another."""
        seen: dict[str, str] = {}
        for name, param in self.table.params.items():
            row = row_name(param)
            if row in seen:
                raise ValueError(f"params.{name}.description: is that of {seen[row]}; change one")
            seen[row] = name
            for value in param.labels:
                grid = self._own_grid(name)
                values = [] if grid is None or grid.size > _FEW else map(grid.at, range(grid.size))
                if value not in [str(one) for one in values]:
                    right = "use texts of its values as keys"
                    raise ValueError(
                        f"params.{name}.labels: {value!r} is not one of its values; {right}"
                    )
            if len({*param.labels.values()}) < len(param.labels):
                raise ValueError(f"params.{name}.labels: two are the same; change one")

    def _check_outputs(self, levels: Mapping[str, Level]) -> None:
        for name, output in self.table.outputs.items():
            with _at(f"outputs.{name}"):
                _check_output(name, output, self.table.outputs)
        for level in levels.values():
            for name in level.outputs:
                for need in self.table.outputs[name].needs:
                    if need not in level.outputs:
                        where = f"difficulty.{level.name}.outputs"
                        raise ValueError(f"{where}: {name} needs {need}; ask for it too")

    def _check_tools(self) -> None:
        names = {f"{name}.py" for name in self.table.tools}
        if names != set(self.tools):
            odd = min(names ^ set(self.tools))
            raise ValueError(f"tools: {odd} needs both a table [tools.NAME] and a file in tools/")
        for name, source in self.tools.items():
            try:
                ast.parse(source)
            except (SyntaxError, ValueError, RecursionError) as error:
                raise ValueError(f"tools/{name}: {one_line(error)}; write valid Python") from None
        if self.table.meta.tool_mode != "no-tool" and not names:
            raise ValueError("meta.tool_mode: there is no tool; add one or use 'no-tool'")
        if self.table.meta.tool_mode == "no-tool" and names:
            raise ValueError("meta.tool_mode: no instance has the tools; use 'both' or 'with-tool'")

    def _check_derived(
        self,
        levels: Mapping[str, Level],
        formulas: Mapping[str, Rule],
        grids: Mapping[tuple[str, str], Mapping[str, Grid]],
    ) -> None:
        for level in levels.values():
            for name in level.hidden:
                derive = self.table.params[name].derive
                where = f"difficulty.{level.name}.hidden"
                if derive is None:
                    raise ValueError(f"{where}: nothing says how to find {name!r}; add its derive")
                needed = formulas[name].names if name in formulas else {str(derive.key)}
                if derive.row is None and (lost := needed & set(level.hidden)):
                    raise ValueError(f"{where}: {name!r} is found by {min(lost)!r}; show that one")
                if derive.archetype:
                    self._check_disclosed(name, level, grids)

    def _check_derive(self, derive: DeriveTable) -> None:
        kinds = [bool(derive.archetype), derive.file is not None, derive.rule is not None]
        if kinds.count(True) != 1:
            raise ValueError("is not one way; use 'archetype', or a table with 'file' or 'rule'")
        if derive.file is not None:
            self._check_file(derive)
        if derive.rule is not None:
            text = self.data.get(derive.document or "")
            if text is None:
                raise ValueError(f"document: {derive.document!r} is not a file in data/; add it")
            if " ".join(derive.rule.split()) not in " ".join(text.split()):
                what = f"{derive.document} does not state {derive.rule!r}"
                raise ValueError(f"document: {what}; write the formula there")

    def _check_file(self, derive: DeriveTable) -> None:
        if derive.key is None or derive.column is None:
            raise ValueError("key, column: one is missing; say where in the file the value is")
        if derive.row is None and derive.key not in self.table.params:
            right = did_you_mean(derive.key, self.table.params)
            raise ValueError(f"key: {derive.key!r} is not a parameter; {right}")
        text = self.data.get(str(derive.file))
        if text is None:
            if not self.engine.has("files"):
                right = "put it into data/ or let files() of the engine write it"
                raise ValueError(f"file: {derive.file!r} does not exist; {right}")
            return
        head = next(csv.reader(io.StringIO(text)), [])
        for column in (derive.key, derive.column):
            if column not in head:
                raise ValueError(f"file: {derive.file} has no column {column!r}; add it")

    def _check_disclosed(
        self, name: str, level: Level, grids: Mapping[tuple[str, str], Mapping[str, Grid]]
    ) -> None:
        for archetype in level.archetypes:
            grid = grids[level.name, archetype][name]
            where = f"difficulty.{level.name}.hidden"
            if archetype == PLAIN or grid.size != 1:
                what = f"the scenario {archetype!r} leaves {name!r} open"
                raise ValueError(f"{where}: {what}; give it one value in each scenario")
            value = str(grid.at(0))
            label = self.table.params[name].labels.get(value, value)
            described = self.table.archetypes[archetype].description
            if label.casefold() not in described.casefold():
                right = f"write {label!r} in archetypes.{archetype}.description"
                raise ValueError(f"{where}: the scenario does not tell {name!r}; {right}")

    def _check_signatures(self, levels: Mapping[str, Level]) -> None:
        for hook in self.engine.functions:
            named, needed, takes_any = self.engine.parameters(hook)
            for level in levels.values():
                lacking = needed - set(level.params)
                surplus = set() if takes_any else set(level.params) - named
                if lacking or surplus:
                    odd = min(lacking or surplus)
                    right = "give it a default" if lacking else "add it to the function"
                    raise ValueError(
                        f"difficulty.{level.name}: {hook} and params differ in {odd!r}; {right}"
                    )


class _at:  # noqa: N801  (reads as a preposition)
    """Put the place before the message of a ValueError."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError):
            raise ValueError(f"{self._where}: {error}") from None


def _both(grid: Grid, allowed: object, level: str, archetype: str) -> Grid:
    """Narrow a grid again, where other values of the list may be gone already."""
    if isinstance(allowed, list):
        allowed = [value for value in allowed if grid.has(value)]
    try:
        return grid.narrowed(allowed)
    except ValueError:
        what = f"the level {level!r} and the scenario {archetype!r} have no value in common"
        raise ValueError(f"{what}; let them overlap") from None


def _named(
    names: tuple[str, ...],
    known: Mapping[str, object] | tuple[str, ...],
    where: str,
    *,
    default: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    """Return the known names that are listed, in the order of ``known``; all, if none is."""
    for name in names:
        if name not in known:
            raise ValueError(f"{where}: {name!r} is not known; {did_you_mean(name, known)}")
    if not names:
        return tuple(known) if default is None else default
    return tuple(name for name in known if name in names)


def _check_output(name: str, output: OutputTable, outputs: Mapping[str, OutputTable]) -> None:
    if name == "reward":
        raise ValueError("is the name of the whole; use another name")
    tolerances = [key for key in ("rel", "tolerance", "abs") if getattr(output, key) is not None]
    if output.type == "number" and not tolerances:
        raise ValueError("a number has no tolerance; add rel or abs")
    if output.type != "number" and tolerances:
        raise ValueError(f"{tolerances[0]}: a {output.type} is compared exactly; leave it out")
    if {"rel", "tolerance"} <= set(tolerances):
        raise ValueError("tolerance: is the same as rel; leave one of them out")
    if (output.type == "choice") != bool(output.values):
        raise ValueError("values: a choice lists its texts, and nothing else has them")
    if output.type == "flag" and not output.needs:
        raise ValueError(
            "needs: missing; a guessed flag must not count, name the field it rests on"
        )
    for need in output.needs:
        if need not in outputs or need == name:
            raise ValueError(
                f"needs: {need!r} is not another output; {did_you_mean(need, outputs)}"
            )
