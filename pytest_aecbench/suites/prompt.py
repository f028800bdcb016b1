"""The prompt of an instance: ``instruction.md`` rendered, with its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.suites.template import INSTRUCTION_FILE, PLAIN, row_name
from pytest_aecbench.tasks.task import named_output
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    import jinja2

    from pytest_aecbench.suites.draws import Draw
    from pytest_aecbench.suites.schema import DeriveTable, OutputTable
    from pytest_aecbench.suites.template import Level, Template

__all__ = ["OUTPUT", "WORKSPACE", "Cell", "render"]

WORKSPACE = "/workspace"
OUTPUT = f"{WORKSPACE}/output.jsonl"
NO_UNIT = "\N{EN DASH}"
GIVEN_HEAD = "| quantity | value | unit |\n|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Cell:
    """The kind of an instance: what a suite counts."""

    difficulty: str
    visibility: str
    tool_mode: str


def render(template: Template, cell: Cell, draw: Draw, files: tuple[str, ...]) -> str:
    """Return the prompt; tables that the template does not place come last."""
    level = template.levels[cell.difficulty]
    given = _given_table(template, level, cell, draw)
    fields = _field_section(template, level)
    tools = _tool_table(template) if cell.tool_mode == "with-tool" else ""
    context = _context(template, level, cell, draw)
    context |= {"given_table": given, "field_table": fields, "tool_table": tools, "files": files}
    text = re.sub(r"\n{3,}", "\n\n", _rendered(template, context)).strip()
    sections = (("Given", given), ("Tools", tools), ("Output", fields))
    for heading, section in sections:
        if section and section.strip() not in text:
            text = f"{text}\n\n## {heading}\n\n{section.strip()}"
    _check(template, text, files)
    return f"{text}\n"


def _context(template: Template, level: Level, cell: Cell, draw: Draw) -> dict[str, Any]:
    meta, hidden = template.table.meta, level.hides(cell.visibility)
    visible = {
        name: template.shown(name, value)
        for name, value in draw.params.items()
        if name not in hidden
    }
    about = template.table.archetypes.get(draw.archetype) if draw.archetype != PLAIN else None
    scenario = about.description if about else ""
    params = template.params
    return {
        **visible,
        "visible_params": [
            {
                "name": name,
                "value": text,
                "unit": params[name].unit,
                "description": params[name].description,
            }
            for name, text in visible.items()
        ],
        "outputs": [
            {"name": name, "description": template.outputs[name].description}
            for name in level.outputs
        ],
        "standards": meta.standards,
        "difficulty": level.name,
        "visibility": cell.visibility,
        "tool_mode": cell.tool_mode,
        "tool_available": cell.tool_mode == "with-tool",
        "archetype": {
            "name": draw.archetype,
            "description": scenario,
            "site_context": draw.site,
        },
        "archetype_description": scenario,
        "site_context": draw.site,
        "meta": {**meta.model_dump(), "title": template.title},
    }


def _rendered(template: Template, context: dict[str, Any]) -> str:
    import jinja2

    where = shown_path(template.path / INSTRUCTION_FILE)
    try:
        return _compiled(template.instruction).render(context)
    except jinja2.TemplateSyntaxError as error:
        what = f"line {error.lineno}: {one_line(error)}"
        raise SettingsError(f"{where}: {what}; write a valid Jinja template") from None
    except jinja2.UndefinedError as error:
        right = "use a visible parameter, or test 'NAME is defined' first"
        raise SettingsError(f"{where}: {one_line(error)}; {right}") from None
    except Exception as error:  # noqa: BLE001  (whatever the author's expressions raise)
        raise SettingsError(f"{where}: {one_line(error)}; correct the template") from None


@lru_cache(maxsize=256)
def _compiled(text: str) -> jinja2.Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(text)


def _check(template: Template, text: str, files: tuple[str, ...]) -> None:
    where = shown_path(template.path / INSTRUCTION_FILE)
    for name in files:
        if f"{WORKSPACE}/{name}" not in text:
            raise SettingsError(f"{where}: does not name the file; write `{WORKSPACE}/{name}`")
    if str(named_output(text)) != OUTPUT:
        raise SettingsError(
            f"{where}: the last path below {WORKSPACE} is the output; "
            "place {{ field_table }} after all others"
        )


def _given_table(template: Template, level: Level, cell: Cell, draw: Draw) -> str:
    hidden = level.hides(cell.visibility)
    rows = []
    for name, value in draw.params.items():
        param = template.params[name]
        text = template.shown(name, value)
        if name in hidden:
            assert param.derive is not None
            text = _whereabouts(template, param.derive)
        rows.append(f"| {row_name(param)} | {text} | {param.unit or NO_UNIT} |")
    return GIVEN_HEAD + "\n".join(rows) + "\n"


def _whereabouts(template: Template, derive: DeriveTable) -> str:
    """Return what the prompt prints instead of a hidden value."""
    if derive.archetype:
        return "see the description"
    if derive.rule is not None:
        return f"by the rule in `{WORKSPACE}/{derive.document}`"
    if derive.row is not None:
        row = f"where `{derive.key}` is {derive.row}"
    else:
        row = f"by {row_name(template.params[str(derive.key)])} (`{derive.key}`)"
    return f"in `{WORKSPACE}/{derive.file}`, column `{derive.column}`, row {row}"


def _tool_table(template: Template) -> str:
    rows = [
        f"| `python3 {f'tools/{name}.py {tool.usage}'.strip()}` | {tool.description} |"
        for name, tool in template.table.tools.items()
    ]
    return "| program | purpose |\n|---|---|\n" + "\n".join(rows) + "\n"


@lru_cache(maxsize=512)
def _field_section_of(outputs: tuple[tuple[str, OutputTable], ...]) -> str:
    total = sum(output.weight for _, output in outputs)
    rows = [
        f"| `{name}` | {row_name(output)} | {_kind(output)} | {output.unit or NO_UNIT} | "
        f"{_tolerance(output)} | {100 * output.weight / total:.3g} % |"
        for name, output in outputs
    ]
    head = "| field | meaning | type | unit | tolerance | share |\n|---|---|---|---|---|---|\n"
    first = f"Write exactly one JSON object, on one line, to `{OUTPUT}`:\n\n"
    return "\n".join([first + head + "\n".join(rows), "", *_notes(dict(outputs)), ""])


def _field_section(template: Template, level: Level) -> str:
    return _field_section_of(tuple((name, template.outputs[name]) for name in level.outputs))


def _kind(output: OutputTable) -> str:
    if output.type == "choice":
        return "one of " + ", ".join(f"`{value}`" for value in output.values)
    return {"flag": "true/false", "integer": "whole number"}.get(output.type, "number")


def _tolerance(output: OutputTable) -> str:
    rel = output.rel or output.tolerance
    parts = [f"±{100 * rel:g} %"] if rel else []
    parts += [f"±{output.abs:g}"] if output.abs else []
    return " or ".join(parts) or "exact"


def _notes(outputs: dict[str, OutputTable]) -> Iterator[str]:
    if any(output.rel or output.tolerance for output in outputs.values()):
        yield "Tolerances in percent are relative to the exact result."
    yield "Do not round intermediate results."
    for name, output in outputs.items():
        if output.needs:
            needed = " and ".join(f"`{need}`" for need in output.needs)
            are = "are" if len(output.needs) > 1 else "is"
            yield f"`{name}` earns its share only when {needed} {are} right."
