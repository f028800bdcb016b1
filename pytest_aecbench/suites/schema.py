"""The schema of a template's ``params.toml``: tables, defaults, and one line for each problem."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from pytest_aecbench.documents.problems import model_problems, shown
from pytest_aecbench.text import did_you_mean

__all__ = [
    "ArchetypeTable",
    "ConstraintTable",
    "DeriveTable",
    "ExampleTable",
    "LevelTable",
    "MetaTable",
    "OutputTable",
    "ParamTable",
    "TemplateTable",
    "ToolTable",
    "Value",
    "parse_template",
]

Value: TypeAlias = bool | int | float | str

_NAME = r"^[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*$"
# Prompts have tables, so a text has no bar; TOML and CSV have no control characters.
_LINE = r"^[^|\x00-\x1f\x7f]*[^|\x00-\x1f\x7f\s][^|\x00-\x1f\x7f]*$"
_Text: TypeAlias = Annotated[
    str, Field(pattern=_LINE, description="a line of text without control characters and '|'")
]
# Names in the agent's directory, or in that of its image, which mean something else.
_RESERVED = ("Dockerfile", "docker-compose.yaml", "docker-compose.yml", "output.jsonl", "tools")
_FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


def _file_name(value: object) -> object:
    if isinstance(value, str) and (value in _RESERVED or not _FILE_NAME.fullmatch(value)):
        what = "{name} cannot be a file of the agent; use a name such as 'cables.csv'"
        raise PydanticCustomError("custom", what, {"name": shown(value)})
    return value


_FileName: TypeAlias = Annotated[
    str, BeforeValidator(_file_name), Field(description="a name such as 'cables.csv'")
]
_Texts: TypeAlias = Annotated[
    tuple[_Text, ...],
    Field(strict=False, description="a list of texts without control characters and '|'"),
]
_Number: TypeAlias = Annotated[
    int | float, Field(ge=-1e15, le=1e15, description="a number of at most 15 digits")
]


def _plain(value: object) -> object:
    is_odd_text = isinstance(value, str) and not re.fullmatch(_LINE, value)
    if is_odd_text or (isinstance(value, (int, float)) and not -1e15 <= value <= 1e15):
        what = (
            "{value} is not valid; use numbers of at most 15 digits, or lines of text without '|'"
        )
        raise PydanticCustomError("custom", what, {"value": shown(value)})
    return value


_Given: TypeAlias = Annotated[Value, BeforeValidator(_plain)]
_Rule: TypeAlias = Annotated[str, Field(pattern=r"\S", description="a formula")]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


_Names: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(_listed),
    Field(strict=False, description="a name or a list of names"),
]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class _Narrowing(_Table):
    """A table whose other keys are parameters, each with the values that it may have there."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)

    @property
    def narrowed(self) -> dict[str, Any]:
        """The keys that the model does not have."""
        return dict(self.model_extra or {})


class MetaTable(_Table):
    """The template's name, its subject and its version."""

    name: Annotated[str, Field(pattern=_NAME, description="a name such as 'part-full-sewer'")]
    discipline: Annotated[str, Field(pattern=_NAME, description="a name such as 'water'")]
    category: Annotated[str, Field(pattern=_NAME, description="a name such as 'hydraulics'")]
    version: Annotated[
        str, Field(pattern=r"^\d+\.\d+\.\d+$", description="a version such as '1.0.0'")
    ] = "1.0.0"
    title: _Text | None = None
    description: Annotated[str, Field(description="a text")] = ""
    long_description: Annotated[str, Field(description="a text")] = ""
    standards: _Texts = ()
    tags: _Texts = ()
    tool_mode: Literal["with-tool", "no-tool", "both"] = "no-tool"


class DeriveTable(_Table):
    """The way to find a hidden value: the scenario's text, a file's row, or a formula."""

    archetype: Annotated[bool, Field(description="true")] = False
    file: _FileName | None = None
    key: _Text | None = None
    row: _Text | None = None
    column: _Text | None = None
    rule: _Rule | None = None
    document: _FileName | None = None


def _derived(value: object) -> object:
    return {"archetype": True} if value == "archetype" else value


class ParamTable(_Table):
    """One parameter: its values, and how the prompt speaks of it."""

    type: Literal["float", "int", "choice", "enum"]
    description: _Text
    symbol: _Text | None = None
    unit: _Text | None = None
    min: _Number | None = None
    max: _Number | None = None
    step: Annotated[
        int | float | None, Field(ge=1e-12, le=1e15, description="a number from 1e-12 to 1e15")
    ] = None
    values: Annotated[
        tuple[_Given, ...] | None,
        Field(strict=False, min_length=1, description="a list of numbers or texts"),
    ] = None
    labels: Annotated[dict[str, _Text], Field(description="a table from value to text")] = {}
    exact: Annotated[bool, Field(description="true or false")] = False
    derive: Annotated[
        DeriveTable | None,
        BeforeValidator(_derived),
        Field(description="'archetype', or a table with 'file' or 'rule'"),
    ] = None


_Share: TypeAlias = Annotated[
    float | int | None, Field(gt=0, le=0.2, description="a number above 0, at most 0.2")
]


class OutputTable(_Table):
    """One field of the answer: its kind, its tolerance and its share of the reward."""

    type: Literal["number", "integer", "flag", "choice"] = "number"
    description: _Text
    symbol: _Text | None = None
    unit: _Text | None = None
    rel: _Share = None
    tolerance: _Share = None
    abs: Annotated[
        int | float | None, Field(gt=0, le=1e15, description="a number above 0, at most 1e15")
    ] = None
    floor: Annotated[float | int, Field(ge=0, le=1e15, description="a number from 0 to 1e15")] = (
        1e-9
    )
    weight: Annotated[
        float | int, Field(ge=0.001, le=1000, description="a number from 0.001 to 1000")
    ] = 1
    needs: _Names = ()
    values: _Texts = ()


class ArchetypeTable(_Narrowing):
    """A scenario: its text, and the values that parameters have in it."""

    description: _Text
    site_contexts: _Texts = ()


class LevelTable(_Narrowing):
    """A difficulty: what is asked, what is given, what is hidden."""

    description: Annotated[str, Field(description="a text")] = ""
    visibility: Annotated[
        tuple[Literal["all_given", "partial"], ...],
        BeforeValidator(_listed),
        Field(strict=False, min_length=1, description="a list of 'all_given' and 'partial'"),
    ] = ("all_given",)
    hidden: _Names = ()
    hidden_params: _Names = ()
    archetypes: _Names = ()
    params: _Names = ()
    outputs: _Names = ()
    files: Annotated[
        tuple[_FileName, ...],
        BeforeValidator(_listed),
        Field(strict=False, description="a list of names such as 'cables.csv'"),
    ] = ()


class ConstraintTable(_Table):
    """A rule that the parameters keep, and the reason for it."""

    rule: _Rule
    why: _Text = "breaks a constraint"


class ExampleTable(_Table):
    """A worked example, which the engine must reproduce."""

    params: Annotated[dict[str, _Given], Field(description="a table of values")]
    outputs: Annotated[dict[str, _Given], Field(min_length=1, description="a table of values")]
    source: _Text


class ToolTable(_Table):
    """A program in ``tools/``: its use, and arguments to try it with."""

    description: _Text
    usage: Annotated[str, Field(description="the names of its arguments")] = ""
    args: _Texts = ()


def _rules(value: object) -> object:
    """Return constraints in our form; they may also be texts, or a table with ``rules``."""
    if isinstance(value, dict) and value.keys() == {"rules"}:
        value = value["rules"]
    if isinstance(value, list):
        return [{"rule": one} if isinstance(one, str) else one for one in value]
    return value


class TemplateTable(_Table):
    """A whole ``params.toml``."""

    meta: Annotated[MetaTable, Field(description="a table [meta]")]
    params: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z_]\w*$")], ParamTable],
        Field(min_length=1, description="tables [params.NAME] with names such as 'span_m'"),
    ]
    outputs: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z_]\w*$")], OutputTable],
        Field(min_length=1, description="tables [outputs.NAME] with names such as 'flow_l_s'"),
    ]
    archetypes: Annotated[
        dict[str, ArchetypeTable], Field(description="tables [archetypes.NAME]")
    ] = {}
    difficulty: Annotated[
        dict[Literal["easy", "medium", "hard"], LevelTable],
        Field(min_length=1, description="tables [difficulty.easy], .medium and .hard"),
    ]
    constraints: Annotated[
        tuple[ConstraintTable, ...],
        BeforeValidator(_rules),
        Field(strict=False, description="tables [[constraints]] with a 'rule'"),
    ] = ()
    examples: Annotated[
        tuple[ExampleTable, ...],
        Field(strict=False, min_length=2, description="two or more tables [[examples]]"),
    ]
    tools: Annotated[dict[str, ToolTable], Field(description="tables [tools.NAME]")] = {}


# Keys of other systems that nothing here can honour, with what does the same.
_REFUSED = {
    "default": "every parameter is drawn; leave it out",
    "derivable_from": "a text does not derive anything; use 'derive'",
    "optional": "parameters are not switched off; list those of a level in difficulty.LEVEL.params",
}
_REFUSED_IN_LEVELS = {
    "replacement_text": "nothing shows it; say in params.NAME.derive how to find a hidden value",
}


def parse_template(data: dict[str, Any]) -> tuple[TemplateTable | None, list[str]]:
    """Return the checked tables, or None and a line for each problem."""
    problems = [*_refused(data)]
    try:
        table = TemplateTable.model_validate(data)
    except ValidationError as error:
        return None, problems + _others(problems, model_problems(error, TemplateTable))
    problems += _others(problems, _unknown_keys(table))
    return (None if problems else table), problems


def _others(problems: list[str], found: list[str]) -> list[str]:
    """Return what was found about other keys than those of the problems."""
    known = tuple(problem.partition(":")[0] for problem in problems)
    return [one for one in found if not one.startswith(known)] if known else found


def _refused(data: dict[str, Any]) -> list[str]:
    found = []
    for table, refused in (("params", _REFUSED), ("difficulty", _REFUSED_IN_LEVELS)):
        tables = data.get(table)
        for name, inner in tables.items() if isinstance(tables, dict) else ():
            keys = [key for key in refused if isinstance(inner, dict) and key in inner]
            found += [f"{table}.{name}.{key}: has no effect; {refused[key]}" for key in keys]
    levels = data.get("difficulty")
    for name, level in levels.items() if isinstance(levels, dict) else ():
        asked = level.get("visibility") if isinstance(level, dict) else None
        if asked == "scenario_only" or (isinstance(asked, list) and "scenario_only" in asked):
            found.append(
                f"difficulty.{name}.visibility: 'scenario_only' would hide what nothing else says; "
                "use 'partial' with hidden = [...] and a derive for each"
            )
    return found


def _unknown_keys(table: TemplateTable) -> list[str]:
    """Return a line for each key of an archetype or level that is not a parameter either."""
    problems = []
    tables: list[tuple[str, _Narrowing]] = [
        *((f"archetypes.{name}", one) for name, one in table.archetypes.items()),
        *((f"difficulty.{name}", one) for name, one in table.difficulty.items()),
    ]
    for where, one in tables:
        valid = {*type(one).model_fields, *table.params}
        problems += [
            f"{where}.{key}: unknown key; {did_you_mean(key, valid)}"
            for key in one.narrowed
            if key not in table.params
        ]
    reserved = {*ArchetypeTable.model_fields, *LevelTable.model_fields}
    problems += [
        f"params.{name}: is a key of [difficulty] or [archetypes]; use another name"
        for name in table.params
        if name in reserved
    ]
    return problems
