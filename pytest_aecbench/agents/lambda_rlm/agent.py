"""The agent ``lambda-rlm``: plan, read, review, write, and compose a report."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult, context_of
from pytest_aecbench.agents.lambda_rlm.answers import GIVE_FACTS, GIVE_REVIEW
from pytest_aecbench.agents.lambda_rlm.composing import compose, sections_json
from pytest_aecbench.agents.lambda_rlm.config import LambdaConfig, read_config, read_template
from pytest_aecbench.agents.lambda_rlm.planning import Plan, SectionPlan, plan_source
from pytest_aecbench.agents.lambda_rlm.prompts import (
    ADVISOR,
    VERSION,
    SectionPrompts,
    system_message,
)
from pytest_aecbench.agents.lambda_rlm.reading import SourceReader
from pytest_aecbench.agents.lambda_rlm.sources import Source, find_labels, read_source, resolve
from pytest_aecbench.agents.lambda_rlm.steps import (
    ENDS,
    Step,
    StepFailedError,
    Steps,
    result_of,
)
from pytest_aecbench.agents.lambda_rlm.writing import SectionResult, SectionWriter
from pytest_aecbench.agents.model_agent import ModelAgent
from pytest_aecbench.agents.parameters import LambdaRlmParameters
from pytest_aecbench.agents.spending import Budgets, LimitReached, Spending, tightened
from pytest_aecbench.agents.tools import write_text
from pytest_aecbench.agents.workers import Workers
from pytest_aecbench.errors import TaskError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.host.lanes import away
from pytest_aecbench.providers import Message, ModelRequest, Text
from pytest_aecbench.providers.calls import DeadlineReached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.report_template import ReportTemplate, Section
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.providers import ToolSpec
    from pytest_aecbench.providers.calls import Caller
    from pytest_aecbench.providers.prices import Price
    from pytest_aecbench.tasks.task import Task

__all__ = ["LambdaRlmAgent"]

_WRITE_SEC = 60.0
# An interrupted run is noticed after so long at most.
_POLL_SEC = 0.5
# Threads that wait for others; they make no calls themselves.
_WAITING = 4096
_SECTIONS_FILE = "sections.json"


class LambdaRlmAgent(ModelAgent[LambdaRlmParameters]):
    """Writes a report from the documents of a task by a plan that is known beforehand."""

    parameters_model = LambdaRlmParameters
    prompt_version = VERSION

    def check_task(self, task: Task, prices: Mapping[str, Price]) -> None:
        """Raise UserError for a task whose files are wrong, or whose advisor cannot be called."""
        config, path = read_config(task)
        read_template(task, config, path)
        if config.advisor is not None and config.advisor.enabled:
            self.check_model(self.route_to(config.advisor.model), prices)

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Write the report, as far as the budgets go."""
        config, path = read_config(task)
        template = read_template(task, config, path)
        system = system_message(self.spec, task)
        sources = _sources(task, sandbox, template, config)
        plan = _plan(template, config, sources, len(system))
        budgets = tightened(Budgets(config.guardrails.token_budget), limits)
        if budgets.token_budget is not None and plan.least_tokens > budgets.token_budget:
            raise TaskError(
                f"{shown_path(path)}: guardrails.token_budget: {budgets.token_budget} tokens "
                f"cannot be enough for {plan.calls} calls, which use at least "
                f"{plan.least_tokens}; raise it, or give sections fewer sources"
            )
        caller = self.caller(sandbox, limits)
        trajectory = context_of(sandbox).trajectory
        trajectory.tools = (GIVE_FACTS, GIVE_REVIEW)
        trajectory.add("system", system)
        spending = Spending(caller.meter, budgets)
        workers = Workers(config.execution.max_parallel_workers)

        def prepare(messages: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> ModelRequest:
            return self.request(messages, system, limits, tools)

        steps = Steps(workers, spending, trajectory, caller, prepare)
        advisor = self._advisor(config, sandbox, limits, caller, steps)
        report = _Report(template, config, plan, sources, steps, advisor)
        sections = report.write()
        return self._finished(task, sandbox, caller, report, sections)

    def _advisor(
        self,
        config: LambdaConfig,
        sandbox: Sandbox,
        limits: AgentLimits,
        caller: Caller,
        steps: Steps,
    ) -> _Advisor | None:
        if config.advisor is None or not config.advisor.enabled:
            return None
        route = self.route_to(config.advisor.model)
        own = self.caller(sandbox, limits, route, caller.clock)
        return _Advisor(steps, own, config.advisor.max_uses, config.advisor.max_response_tokens)

    def _finished(
        self,
        task: Task,
        sandbox: Sandbox,
        caller: Caller,
        report: _Report,
        sections: Mapping[str, SectionResult],
    ) -> AgentResult:
        """Write the outputs and return how the agent ended."""
        is_flat = report.config.template.tier == "flat"
        text = next(iter(sections.values())).content if is_flat else compose(sections)
        beside = task.output_path.with_name(_SECTIONS_FILE)
        files = {beside: sections_json(sections), **({task.output_path: text} if text else {})}
        end, error = report.end(sections)
        for path, content in files.items():
            done = write_text(sandbox, str(path), content, _WRITE_SEC)
            if done.returncode != 0:
                end, error = "stopped", f"{path} could not be written: {done.stderr.strip()[-500:]}"
        plan = report.plan
        return self.result(
            caller,
            end,
            turns=report.steps.turns,
            error=error,
            plan=plan.to_json(),
            warnings=plan.warnings,
        )


def _sources(
    task: Task, sandbox: Sandbox, template: ReportTemplate, config: LambdaConfig
) -> dict[str, dict[str, Source]]:
    """Return the sources of each section, each read once, or raise a TaskError."""
    labels = find_labels(sandbox, task.workdir, task.output_path)
    known: dict[str, Source] = {}
    found: dict[str, dict[str, Source]] = {}
    is_flat = config.template.tier == "flat"
    for section in template.sections:
        where = f"{task.task_id}: {section.id}.input_mapping"
        wanted = tuple(labels) if is_flat else section.input_mapping.sources
        if section.generation_mode == "external":
            wanted = ()
        for name, label in resolve(wanted, labels, where).items():
            if name not in known:
                known[name] = read_source(sandbox, name, label, labels, where)
        found[section.id] = {name: known[name] for name in wanted}
    return found


def _plan(
    template: ReportTemplate,
    config: LambdaConfig,
    sources: Mapping[str, Mapping[str, Source]],
    prompt_chars: int,
) -> Plan:
    window, most = config.planner.context_window_chars, config.planner.max_branching_factor
    sections = {}
    for section in template.sections:
        plans = {
            name: plan_source(len(source.text), window, most)
            for name, source in sources[section.id].items()
        }
        sections[section.id] = SectionPlan(
            plans,
            is_reviewed=config.review.is_on and bool(plans),
            is_written=section.generation_mode != "external",
        )
    return Plan.of(sections, config, prompt_chars)


@dataclass
class _Advisor:
    """The second model, which may be asked a few times in a trial."""

    steps: Steps
    caller: Caller
    left: int
    max_tokens: int

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def ask(self, step: Step, prompt: str) -> str | None:
        """Return its advice; None if it has none, or all questions are used."""
        with self._lock:
            if not self.left:
                return None
            self.left -= 1
        message = Message("user", (Text(prompt),))
        request = ModelRequest((message,), ADVISOR, max_tokens=self.max_tokens, cache_prompt=False)
        try:
            return result_of(self.steps.ask(step, request, self.caller)) or None
        except StepFailedError:
            return None


class _Report:
    """The sections of one trial, each started as soon as its dependencies are written."""

    def __init__(
        self,
        template: ReportTemplate,
        config: LambdaConfig,
        plan: Plan,
        sources: Mapping[str, Mapping[str, Source]],
        steps: Steps,
        advisor: _Advisor | None,
    ) -> None:
        self.template = template
        self.config = config
        self.plan = plan
        self.steps = steps
        self._sources = sources
        self._advisor = advisor
        self._threads = Workers(_WAITING)
        self._limit: BaseException | None = None

    def write(self) -> dict[str, SectionResult]:
        """Return the sections in the order of the template."""
        plan = self.steps.note("\n".join(self.plan.lines()), phase="plan")
        done: dict[str, SectionResult] = {}
        running: dict[Future[SectionResult], Section] = {}
        try:
            while len(done) < len(self.template.sections):
                for section in self.template.ready(done):
                    if section not in running.values():
                        future = self._threads.submit(self._section, section, dict(done), plan)
                        running[future] = section
                ended, _ = away(wait, running, _POLL_SEC, FIRST_COMPLETED)
                for future in ended:
                    done[running.pop(future).id] = future.result()
        except Exception:
            # Calls in flight belong to the record, too.
            self.steps.stop()
            wait(running)
            raise
        finally:
            self.steps.stop()
        return {section.id: done[section.id] for section in self.template.sections}

    def _section(
        self, section: Section, done: Mapping[str, SectionResult], plan: int
    ) -> SectionResult:
        """Return a section; one that a budget or the deadline keeps from being written says so."""
        if section.generation_mode == "external":
            return SectionResult(section.title, failure="it comes from elsewhere")
        planned = self.plan.sections[section.id]
        parent = self.steps.note(
            f"section {section.id}: {section.title}, {planned.calls} calls",
            phase="section",
            section=section.id,
            parent=plan,
        )
        needed = {done[name].title: _told(done[name]) for name in section.depends_on}
        prompts = SectionPrompts(
            section, self.template.meta, needed, flat=self.config.template.tier == "flat"
        )
        readers = [
            SourceReader(self.steps, prompts, source, planned.sources[name], section.id, parent)
            for name, source in self._sources[section.id].items()
        ]
        writer = SectionWriter(
            section,
            self.config,
            prompts,
            readers,
            self.steps,
            self._threads,
            parent,
            self._advisor.ask if self._advisor else lambda step, prompt: None,
            is_reviewed=planned.is_reviewed,
        )
        try:
            return writer.run()
        except ENDS as error:
            self._limit = self._limit or error
            gaps = tuple(text for one in writer.found.values() for text in one.failures)
            return SectionResult(section.title, failure=_reason(error), gaps=gaps)

    def end(self, sections: Mapping[str, SectionResult]) -> tuple[str, str | None]:
        """Return how the report ended, and what there is to say about it."""
        if isinstance(self._limit, LimitReached):
            return self._limit.end, str(self._limit)
        if isinstance(self._limit, DeadlineReached):
            return "deadline", _reason(self._limit)
        external = {one.id for one in self.template.sections if one.generation_mode == "external"}
        failed = [
            f"{name}: {section.failure}"
            for name, section in sections.items()
            if section.failure and name not in external
        ]
        if failed:
            return "incomplete", "; ".join(failed)
        return "written", None


def _told(section: SectionResult) -> str:
    return section.content or f"[Not written: {section.failure}]"


def _reason(error: BaseException) -> str:
    if isinstance(error, DeadlineReached):
        return "the agent's time was over"
    return str(error) or "the run was stopped"
