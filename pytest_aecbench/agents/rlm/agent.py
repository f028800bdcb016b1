"""The agent ``rlm``: the models, the REPL and the conversation of one trial."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents import AgentLimits, AgentResult, context_of
from pytest_aecbench.agents.harness_config import file_of_task, read_table
from pytest_aecbench.agents.model_agent import ModelAgent
from pytest_aecbench.agents.parameters import RlmParameters
from pytest_aecbench.agents.prompts import user_message
from pytest_aecbench.agents.report_template import read_report_template
from pytest_aecbench.agents.rlm.answering import Answering, Reply
from pytest_aecbench.agents.rlm.compaction import Compaction
from pytest_aecbench.agents.rlm.inputs import Staged, staged
from pytest_aecbench.agents.rlm.link import Repl, ReplConfig
from pytest_aecbench.agents.rlm.loop import REPL_TOOL, Conversation
from pytest_aecbench.agents.rlm.models import Models, Place
from pytest_aecbench.agents.rlm.prompts import (
    CHILD,
    RLM_VERSION,
    child_system,
    helper_texts,
    root_system,
)
from pytest_aecbench.agents.rlm_config import RLM_FILE, RlmConfig
from pytest_aecbench.agents.spending import Budgets, Spending, check_priced, tightened
from pytest_aecbench.errors import LaunchError, SettingsError, TaskError
from pytest_aecbench.host.files import shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.report_template import ReportTemplate
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.providers.calls import Caller
    from pytest_aecbench.providers.prices import Price
    from pytest_aecbench.tasks.task import Task

__all__ = ["RlmAgent"]


class RlmAgent(ModelAgent[RlmParameters]):
    """Lets a model work in a REPL until it declares its answer or reaches a limit."""

    parameters_model = RlmParameters
    prompt_version = RLM_VERSION

    def check_task(self, task: Task, prices: Mapping[str, Price]) -> None:
        """Raise UserError for a task whose ``rlm.toml`` is wrong, or names what is not there."""
        config = read_config(task)
        staged(task, config)
        _template(task, config)
        where = shown_path(task.path / RLM_FILE)
        for key, name in {**_models(config), "model": self.spec.model}.items():
            try:
                self.check_model(self.route_to(name), prices)
                if config.guardrails.max_budget_usd:
                    check_priced(self.route_to(name), prices, "guardrails.max_budget_usd")
            except SettingsError as error:
                raise TaskError(f"{where}: {key}: {error}") from None

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Work on the task; the time until the REPL has started is not the agent's."""
        config = read_config(task)
        files = staged(task, config)
        template = _template(task, config)
        with ExitStack() as stack:
            repl = Repl(sandbox, _repl_config(task, config, files, template))
            stack.callback(lambda: repl.stop())
            models = self._models(sandbox, limits, config)
            trial = _Trial(self, task, sandbox, config, files, models)
            root = trial.root(repl)
            stack.enter_context(root.answering)
            ended = root.run()
            if ended.end != "submitted":
                root.finish(ended)
        return self.result(models.callers[None], ended.end, turns=root.turn, error=ended.error)

    def _models(self, sandbox: Sandbox, limits: AgentLimits, config: RlmConfig) -> Models:
        caller = self.caller(sandbox, limits)
        callers: dict[str | None, Caller] = {None: caller}
        for name in {self.spec.model, *_models(config).values()}:
            callers[name] = self.caller(sandbox, limits, self.route_to(name), caller.clock)
        guardrails = config.guardrails
        budgets = Budgets(
            guardrails.token_budget,
            guardrails.billable_input_budget or None,
            guardrails.max_budget_usd or None,
            guardrails.max_subcalls or None,
        )
        spending = Spending(caller.meter, tightened(budgets, limits))
        return Models(config, limits, callers, spending, context_of(sandbox).trajectory)


class _Trial:
    """One trial: the parts that its conversations share."""

    def __init__(
        self,
        agent: RlmAgent,
        task: Task,
        sandbox: Sandbox,
        config: RlmConfig,
        files: Staged,
        models: Models,
    ) -> None:
        self._agent = agent
        self._task = task
        self._sandbox = sandbox
        self._config = config
        self._files = files
        self._models = models

    def root(self, repl: Repl) -> Conversation:
        """Return the conversation of the agent's own model."""
        system = root_system(self._agent.spec, self._task, self._config, repl.inputs)
        asked = user_message(self._task)
        trajectory = self._models.trajectory
        trajectory.tools = (REPL_TOOL,)
        trajectory.add("system", system, metadata={"tools": [REPL_TOOL.name]})
        trajectory.add("user", asked)
        return self._conversation(repl, system, asked, Place(0), None)

    def _conversation(
        self, repl: Repl, system: str, asked: str, place: Place, model: str | None
    ) -> Conversation:
        execution = self._config.execution
        budget = self._agent.parameters.context_budget_tokens
        context_limit = min(execution.context_limit, budget or execution.context_limit)
        answering = Answering(
            self._models,
            self._config.guardrails.max_subcall_depth - place.depth,
            self._child,
            lambda: conversation.advice(),
        )
        conversation = Conversation(
            self._agent,
            self._models,
            repl,
            answering,
            Compaction(self._models, context_limit),
            [],
            system,
            asked,
            place,
            model,
        )
        return conversation

    def _child(self, request: Mapping[str, Any], place: Place) -> Reply:
        """Return the answer of a model that works on a cell's question in a REPL of its own."""
        question = str(request["prompt"])
        handed_over = request.get("handed_over")
        config = replace(
            _repl_config(self._task, self._config, self._files, None, depth=place.depth),
            files={name: file for name, file in self._files.files.items() if "functions/" in name},
        )
        settings = {**config.settings, "context": question, "handed_over": handed_over}
        paths = {**config.paths, "inputs": []}
        try:
            repl = Repl(self._sandbox, replace(config, settings=settings, paths=paths))
        except (LaunchError, TaskError) as error:  # the cell may have made that impossible
            return {"error": f"the child has no REPL: {error}"}
        system = child_system(self._config, place.depth, repl.inputs)
        conversation = self._conversation(
            repl, system, CHILD + question, place, request.get("model")
        )
        try:
            with conversation.answering:
                ended = conversation.run()
                if ended.end == "turn_limit":
                    conversation.finish(ended)
        finally:
            repl.stop()
        if conversation.final is None:
            return {"error": f"the child ended without an answer: {ended.error or ended.end}"}
        return {"text": str(conversation.final.get("text", ""))}


def read_config(task: Task) -> RlmConfig:
    """Return the task's ``rlm.toml``; all defaults without one."""
    path = task.path / RLM_FILE
    return read_table(path, RlmConfig) if path.exists() else RlmConfig()


def _template(task: Task, config: RlmConfig) -> ReportTemplate | None:
    where = f"{shown_path(task.path / RLM_FILE)}: template.definition"
    if config.template.definition is None:
        return None
    if not config.execution.scaffolding:
        right = "leave one of them out"
        what = "a template cannot be filled while execution.scaffolding is off"
        raise TaskError(f"{where}: {what}; {right}")
    return read_report_template(file_of_task(task, config.template.definition, where))


def _models(config: RlmConfig) -> dict[str, str]:
    """Return the models that a file names, by their keys."""
    execution, advisor = config.execution, config.advisor
    named = {
        "execution.subcall_model": execution.subcall_model,
        "execution.compaction_model": execution.compaction_model,
        "advisor.model": advisor.model if advisor and advisor.enabled else None,
    }
    return {key: name for key, name in named.items() if name is not None}


def _repl_config(
    task: Task, config: RlmConfig, files: Staged, template: ReportTemplate | None, depth: int = 0
) -> ReplConfig:
    settings = {
        "context": user_message(task),
        "is_child": depth > 0,
        "scaffolding": config.execution.scaffolding,
        "advisor": bool(config.advisor and config.advisor.enabled and not depth),
        "subcalls": files.subcalls,
        "help": helper_texts(config, depth),
        "template": template.model_dump(mode="json") if template else None,
    }
    paths = {"output": str(task.output_path), "inputs": files.inputs}
    return ReplConfig(settings, paths, files.files)
