"""``rlm.toml``: every key of the harness ``rlm``, with its type, range and default.

An absent file means all defaults. ``lambda-rlm`` reads what both have in common from it, in a task
without a ``lambda-rlm.toml``.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from pytest_aecbench.agents.harness_config import (
    Budget,
    Count,
    Fraction,
    Switch,
    Table,
    Word,
    WorkerCount,
    problem,
)
from pytest_aecbench.agents.parameters import AdvisorParameters
from pytest_aecbench.text import did_you_mean

__all__ = [
    "RLM_FILE",
    "SUBCALLS",
    "ExecutionTable",
    "GuardrailsTable",
    "HintsTable",
    "InputTable",
    "RlmConfig",
    "SubcallTable",
    "TemplateTable",
]

RLM_FILE = "rlm.toml"
SUBCALLS = ("calculate", "extract", "reason", "retrieve", "review", "summarise", "verify")
_TABLE = Field(description="a table")
_Words: TypeAlias = Annotated[
    tuple[Word, ...], Field(strict=False, description="a list of strings that are not blank")
]


class TemplateTable(Table):
    """The shape of the result: one text, or sections that depend on one another."""

    tier: Literal["flat", "dependency_tree"] = "flat"
    definition: Word | None = None

    @model_validator(mode="after")
    def _is_defined(self) -> TemplateTable:
        if self.tier == "dependency_tree" and self.definition is None:
            right = "add the path of a report_template.toml, or use tier = 'flat'"
            raise problem(f"definition: missing, which 'dependency_tree' needs; {right}")
        return self


class InputTable(Table):
    """A document that is a variable of the REPL."""

    type: Literal["string", "json", "toml", "csv", "path"]
    source: Word
    pre_parse: Switch = False
    description: Annotated[str, Field(description="a string")] = ""

    @model_validator(mode="after")
    def _can_be_parsed(self) -> InputTable:
        if self.pre_parse and self.type in ("string", "path"):
            right = "use it with 'json', 'toml' or 'csv', or leave it out"
            raise problem(f"pre_parse: {self.type!r} has nothing to parse; {right}")
        return self


class HintsTable(Table):
    """Advice for the root model, which nothing enforces."""

    phases: _Words = ()
    prohibited: _Words = ()


class SubcallTable(Table):
    """A typed call to a model from the REPL; ``custom_impl`` is ``file.py:function``."""

    enabled: Switch = True
    custom_impl: Annotated[
        str | None,
        Field(pattern=r"^[^:]+\.py:[A-Za-z_]\w*$", description="'file.py:function' of the task"),
    ] = None
    description: Annotated[str, Field(description="a string")] = ""


class GuardrailsTable(Table):
    """Limits of one trial over all of its calls."""

    token_budget: Count = 500_000
    max_iterations: Count = 100
    max_subcall_depth: Annotated[
        int, Field(ge=0, le=10, description="a whole number from 0 to 10")
    ] = 1
    budget_warning_pct: Annotated[
        float, Field(gt=0, le=100, description="a percentage above 0, at most 100, such as 80.0")
    ] = 80.0
    max_subcalls: Budget = 0
    max_budget_usd: Annotated[
        float, Field(ge=0, description="a number of USD from 0, which means no limit")
    ] = 0.0
    billable_input_budget: Budget = 0


class ExecutionTable(Table):
    """Settings of the REPL and of its calls."""

    scaffolding: Switch = True
    compaction_threshold_pct: Fraction = 0.85
    hard_ceiling_pct: Fraction = 0.95
    compaction_model: Word | None = None
    subcall_model: Word | None = None
    context_limit: Count = 1_000_000
    max_parallel_workers: WorkerCount = 4

    @model_validator(mode="after")
    def _is_in_order(self) -> ExecutionTable:
        if self.hard_ceiling_pct <= self.compaction_threshold_pct:
            least = self.compaction_threshold_pct
            raise problem(
                f"hard_ceiling_pct: {self.hard_ceiling_pct} is not valid; use a number above "
                f"compaction_threshold_pct, which is {least}"
            )
        return self


def _identifiers(inputs: Mapping[str, InputTable]) -> Mapping[str, InputTable]:
    for name in inputs:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise problem(f"{name!r} cannot name a variable; use letters, digits and '_'")
    return inputs


def _known(subcalls: Mapping[str, SubcallTable]) -> Mapping[str, SubcallTable]:
    for name, table in subcalls.items():
        if name not in SUBCALLS and table.custom_impl is None:
            right = f"{did_you_mean(name, SUBCALLS)} Or add 'custom_impl'"
            raise problem(f"{name!r} is not a call that there is; {right}")
        if not name.isidentifier() or keyword.iskeyword(name):
            raise problem(f"{name!r} cannot name a function; use letters, digits and '_'")
    return subcalls


class RlmConfig(Table):
    """The whole file."""

    template: Annotated[TemplateTable, _TABLE] = TemplateTable()
    inputs: Annotated[
        Mapping[str, InputTable],
        Field(description="a table for each input"),
        AfterValidator(_identifiers),
    ] = {}
    hints: Annotated[HintsTable, _TABLE] = HintsTable()
    subcalls: Annotated[
        Mapping[str, SubcallTable],
        Field(description="a table for each call"),
        AfterValidator(_known),
    ] = {}
    guardrails: Annotated[GuardrailsTable, _TABLE] = GuardrailsTable()
    execution: Annotated[ExecutionTable, _TABLE] = ExecutionTable()
    advisor: Annotated[AdvisorParameters | None, Field(description="a table with a 'model'")] = None
