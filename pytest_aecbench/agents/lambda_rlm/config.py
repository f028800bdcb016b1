"""``lambda-rlm.toml``: every key of the harness, and the report that its task wants.

A task without the file may have an ``rlm.toml``, of which the common keys are used; without either,
all defaults apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from pytest_aecbench.agents.harness_config import (
    Count,
    Fraction,
    Switch,
    Table,
    Word,
    WorkerCount,
    file_of_task,
    problem,
    read_table,
)
from pytest_aecbench.agents.parameters import AdvisorParameters
from pytest_aecbench.agents.report_template import ReportTemplate, Section, read_report_template
from pytest_aecbench.agents.rlm_config import RLM_FILE, RlmConfig
from pytest_aecbench.errors import TaskError
from pytest_aecbench.host.files import shown_path

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.tasks.task import Task

__all__ = ["FLAT", "LAMBDA_FILE", "LambdaConfig", "read_config", "read_template"]

LAMBDA_FILE = "lambda-rlm.toml"
# The one section of a flat task.
FLAT = "answer"
_TABLE = Field(description="a table")
_WITHOUT_SOURCES = ("boilerplate", "external")


class LambdaTemplateTable(Table):
    """The shape of the result: sections of a template, or one text."""

    tier: Literal["flat", "dependency_tree"] = "dependency_tree"
    definition: Word | None = None

    @model_validator(mode="after")
    def _is_of_use(self) -> LambdaTemplateTable:
        if self.tier == "flat" and self.definition is not None:
            right = "leave it out, or use tier = 'dependency_tree'"
            raise problem(f"definition: a flat result has no template; {right}")
        return self


class PlannerTable(Table):
    """The size of what is read at once, how many results are reduced at once, and estimates."""

    context_window_chars: Count = 100_000
    accuracy_target: Fraction = 0.80
    leaf_accuracy: Fraction = 0.95
    compose_accuracy: Fraction = 0.90
    max_branching_factor: Annotated[
        int, Field(ge=2, le=1000, description="a whole number from 2 to 1000")
    ] = 20


_Rounds = Annotated[int, Field(ge=0, le=100, description="a whole number from 0 to 100")]


class ReviewTable(Table):
    """The review of what was found for a section, and how often it may ask for more."""

    enabled: Switch = True
    max_retries_per_source: _Rounds = 1
    max_supplements_per_section: _Rounds = 1
    trigger: Literal["always", "never"] = "always"

    @property
    def rounds(self) -> tuple[int, int]:
        """The most times that a source is read again, and that a section is supplemented."""
        return self.max_retries_per_source, self.max_supplements_per_section

    @property
    def is_on(self) -> bool:
        """True if sections are reviewed."""
        return self.enabled and self.trigger == "always"


class LambdaExecutionTable(Table):
    """The number of calls that are made at once."""

    max_parallel_workers: WorkerCount = 4


class LambdaGuardrailsTable(Table):
    """The limit of one trial over all of its calls."""

    token_budget: Count = 500_000


class LambdaConfig(Table):
    """The whole file."""

    template: Annotated[LambdaTemplateTable, _TABLE] = LambdaTemplateTable()
    planner: Annotated[PlannerTable, _TABLE] = PlannerTable()
    review: Annotated[ReviewTable, _TABLE] = ReviewTable()
    execution: Annotated[LambdaExecutionTable, _TABLE] = LambdaExecutionTable()
    guardrails: Annotated[LambdaGuardrailsTable, _TABLE] = LambdaGuardrailsTable()
    advisor: Annotated[AdvisorParameters | None, Field(description="a table with a 'model'")] = None


def read_config(task: Task) -> tuple[LambdaConfig, Path]:
    """Return the task's configuration and the file that it is from, or would be from."""
    path, fallback = task.path / LAMBDA_FILE, task.path / RLM_FILE
    if path.exists():
        return read_table(path, LambdaConfig), path
    if not fallback.exists():
        return LambdaConfig(), path
    common = read_table(fallback, RlmConfig)
    is_flat = common.template.tier == "flat"
    return (
        LambdaConfig(
            template=LambdaTemplateTable(
                tier=common.template.tier,
                definition=None if is_flat else common.template.definition,
            ),
            execution=LambdaExecutionTable(
                max_parallel_workers=common.execution.max_parallel_workers
            ),
            guardrails=LambdaGuardrailsTable(token_budget=common.guardrails.token_budget),
            advisor=common.advisor,
        ),
        fallback,
    )


def read_template(task: Task, config: LambdaConfig, path: Path) -> ReportTemplate:
    """Return the sections that the task wants, or raise a TaskError with a line for a problem."""
    if config.template.tier == "flat":
        return ReportTemplate(sections=(Section(id=FLAT, title="Answer"),))
    if config.template.definition is None:
        right = "name a report_template.toml, or use tier = 'flat'"
        raise TaskError(
            f"{shown_path(path)}: template.definition: missing, which 'dependency_tree' needs; "
            f"{right}"
        )
    where = f"{shown_path(path)}: template.definition"
    definition = file_of_task(task, config.template.definition, where)
    template = read_report_template(definition)
    for section in template.sections:
        has_input = section.input_mapping.sources or section.depends_on
        if not has_input and section.generation_mode not in _WITHOUT_SOURCES:
            raise TaskError(
                f"{shown_path(definition)}: sections: {section.id!r} has neither sources nor "
                "dependencies; add 'input_mapping' or 'depends_on', or use generation_mode = "
                "'boilerplate'"
            )
    return template
