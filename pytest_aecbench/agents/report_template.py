"""``report_template.toml``: the sections of a report, their fields, and what depends on what."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from pytest_aecbench.agents.harness_config import Switch, Table, Word, problem, read_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

__all__ = ["ReportField", "ReportTemplate", "Section", "Sources", "Voice", "read_report_template"]

_NOT_WRITTEN = ("compose",)


class Voice(Table):
    """The subject and the tone of the report, for the prompts of its sections."""

    name: Word | None = None
    description: Word | None = None
    voice: Word | None = None
    domain: Word | None = None
    planning_guidance: Word | None = None


class ReportField(Table):
    """A value that a section has to give."""

    name: Word
    dtype: Literal["str", "int", "float", "bool", "list", "dict"] = "str"
    description: Annotated[str, Field(description="a string")] = ""
    tolerance: Annotated[float | None, Field(ge=0, description="a number from 0")] = None
    unit: Word | None = None
    required: Switch = True


def _refuse_twice(names: Sequence[str], what: str, where: str = "") -> None:
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise problem(f"{where}{what} {twice[0]!r} occurs twice; keep one, or rename it")


def _listed_fields(given: Any) -> Any:
    """Return fields as a list; a table has the name of each as its key."""
    if not isinstance(given, dict):
        return given
    return [
        {"name": name, **about} if isinstance(about, dict) else {"name": name, "dtype": about}
        for name, about in given.items()
    ]


def _listed_guidance(given: Any) -> Any:
    """Return guidance as a list; a table has a summary, which goes first, and rules."""
    if not isinstance(given, dict):
        return given
    if unknown := sorted(given.keys() - {"summary", "rules"}):
        raise problem(f"{unknown[0]!r} is not known; use 'summary' and 'rules'")
    summary, rules = given.get("summary"), given.get("rules", [])
    return [*([summary] if summary is not None else []), *(rules if rules else [])]


def _distinct(fields: tuple[ReportField, ...]) -> tuple[ReportField, ...]:
    _refuse_twice([field.name for field in fields], "field")
    return fields


class Sources(Table):
    """The sources of a section by label, or by ``label:part``; priority 1 is the highest."""

    sources: Annotated[
        tuple[Word, ...], Field(strict=False, description="a list of labels, or 'label:part'")
    ] = ()
    priority: Annotated[
        Mapping[str, Annotated[int, Field(ge=1)]], Field(description="whole numbers from 1")
    ] = {}

    @model_validator(mode="after")
    def _is_about_sources(self) -> Sources:
        _refuse_twice(self.sources, "source")
        labels = {*self.sources, *(source.partition(":")[0] for source in self.sources)}
        if unknown := sorted(self.priority.keys() - labels):
            right = "name one of 'sources'"
            raise problem(f"priority: {unknown[0]!r} is not a source of the section; {right}")
        return self

    def rank(self, source: str) -> int | None:
        """Return the priority of a source, if it has one."""
        return self.priority.get(source, self.priority.get(source.partition(":")[0]))


class Section(Table):
    """A section; ``fields``, ``writing_guidance`` and ``input_mapping`` may be tables or lists."""

    id: Annotated[str, Field(pattern=r"^[\w.-]+$", description="letters, digits, '_', '.', '-'")]
    title: Word
    depends_on: Annotated[tuple[Word, ...], Field(strict=False, description="a list of ids")] = ()
    generation_mode: Literal[
        "transform", "creative", "guided", "boilerplate", "external", "compose"
    ] = "transform"
    per_discipline: Switch = False
    fields: Annotated[
        tuple[ReportField, ...],
        BeforeValidator(_listed_fields),
        AfterValidator(_distinct),
        Field(strict=False, description="a list of tables with a 'name', or a table of them"),
    ] = ()
    writing_guidance: Annotated[
        tuple[Word, ...],
        BeforeValidator(_listed_guidance),
        Field(strict=False, description="a list of strings, or a table with 'summary' and 'rules'"),
    ] = ()
    input_mapping: Annotated[
        Sources,
        BeforeValidator(lambda given: {"sources": given} if isinstance(given, list) else given),
        Field(description="a list of labels, or a table with 'sources' and 'priority'"),
    ] = Sources()
    blocks: Any = None

    @model_validator(mode="after")
    def _can_be_written(self) -> Section:
        if self.generation_mode in _NOT_WRITTEN or self.blocks is not None:
            right = "use 'transform' with writing_guidance"
            raise problem(f"generation_mode: 'compose' and its blocks are not supported; {right}")
        if self.per_discipline:
            right = "write a section for each discipline"
            raise problem(f"per_discipline: true is not supported; {right}")
        return self


class ReportTemplate(Table):
    """A report: its sections in the order in which they are printed."""

    meta: Annotated[Voice, Field(description="a table")] = Voice()
    sections: Annotated[
        tuple[Section, ...], Field(strict=False, description="a [[sections]] with 'id' and 'title'")
    ]
    rubric: Any = None

    @field_validator("rubric")
    @classmethod
    def _is_not_ours(cls, given: Any) -> Any:
        right = "leave the table out, because the task's verifier grades the report"
        raise problem(f"is not supported; {right}")

    @field_validator("sections")
    @classmethod
    def _fit_together(cls, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        if not sections:
            raise problem("there are no sections; add a [[sections]] with 'id' and 'title'")
        known = [section.id for section in sections]
        _refuse_twice(known, "id")
        for section in sections:
            _refuse_twice(section.depends_on, "dependency", f"{section.id!r}: ")
            if unknown := [name for name in section.depends_on if name not in known]:
                raise problem(
                    f"{section.id!r} depends on {unknown[0]!r}, which is not a section; "
                    f"use one of {', '.join(map(repr, sorted(known)))}"
                )
        if cycle := _cycle(sections):
            raise problem(
                f"{' -> '.join(map(repr, cycle))} depend on one another; remove one dependency"
            )
        return sections

    def section(self, section_id: str) -> Section:
        """Return the section of an id, or raise KeyError."""
        return self._by_id[section_id]

    @cached_property
    def _by_id(self) -> dict[str, Section]:
        return {section.id: section for section in self.sections}

    @cached_property
    def order(self) -> tuple[Section, ...]:
        """The sections such that each comes after its dependencies, else as in the template."""
        done: dict[str, Section] = {}
        while len(done) < len(self.sections):
            ready = self.ready(done)
            done[ready[0].id] = ready[0]
        return tuple(done.values())

    def ready(self, done: Collection[str]) -> list[Section]:
        """Return the sections that are not done and whose dependencies are."""
        return [
            section
            for section in self.sections
            if section.id not in done and all(name in done for name in section.depends_on)
        ]


def read_report_template(path: Path) -> ReportTemplate:
    """Return the template of a file, or raise a TaskError with a line for each problem."""
    return read_table(path, ReportTemplate)


def _cycle(sections: Iterable[Section]) -> list[str]:
    """Return the ids of a cycle of dependencies, the first of them also last; empty if none."""
    needs = {section.id: section.depends_on for section in sections}
    done: set[str] = set()
    while left := {name: needs[name] for name in needs if name not in done}:
        free = {name for name, wanted in left.items() if done.issuperset(wanted)}
        if not free:
            path = [next(iter(left))]
            while path.count(path[-1]) == 1:
                path.append(next(name for name in left[path[-1]] if name in left))
            return path[path.index(path[-1]) :]
        done |= free
    return []
