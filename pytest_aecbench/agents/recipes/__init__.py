"""Recipes: agents of others, installed in the task's image and run in the sandbox.

A recipe says how to install a program, how to start it without a person, which variables of the
host it gets, and how to read its output.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pytest_aecbench.agents import AgentLimits, AgentResult, context_of, network_of
from pytest_aecbench.agents.installation import Installation
from pytest_aecbench.agents.instruction import INSTRUCTION_FILE, instruction_uploads
from pytest_aecbench.agents.parameters import RecipeParameters, read_parameters
from pytest_aecbench.agents.printed import Reading, printed_objects, read_printed
from pytest_aecbench.errors import (
    ContextExceeded,
    LaunchError,
    ProviderError,
    Refused,
    SettingsError,
)
from pytest_aecbench.providers.faults import Answer, broken, from_answer, masked
from pytest_aecbench.providers.prices import find_price
from pytest_aecbench.providers.routing import Route, find_route
from pytest_aecbench.text import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pytest_aecbench.agents import Network
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.providers.prices import Price
    from pytest_aecbench.tasks.task import Task

__all__ = ["RecipeAgent", "last_event"]

_REPORT_SEC = 60.0
# Programs also say so without the status of HTTP.
_TOO_LONG = re.compile(r"too long|context[ _](?:window|length)", re.IGNORECASE)
# Ends that are the model's own doing, by the words of programs that tell no status.
_ENDS: tuple[tuple[re.Pattern[str], type[ProviderError]], ...] = (
    (re.compile(r"output token maximum", re.IGNORECASE), ContextExceeded),
    (re.compile(r"usage policy|unable to respond to this request", re.IGNORECASE), Refused),
)


class RecipeAgent:
    """A program that works in the sandbox by itself; a subclass is a recipe for one program.

    ``command`` starts it, with the instruction in ``AGENT_INSTRUCTION_FILE``. ``report`` is a
    command that runs after the program, also if that was stopped, and prints what its files say
    about usage. Of the variables in ``keys`` one has to be set; those and ``more`` are passed on.
    """

    program: ClassVar[str]
    version: ClassVar[str]
    script: ClassVar[str]
    command: ClassVar[str]
    report: ClassVar[str] = ""
    keys: ClassVar[tuple[str, ...]]
    more: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[type[RecipeParameters]] = RecipeParameters

    def __init__(self, spec: AgentSpec) -> None:
        given = read_parameters(spec.parameters, self.parameters, spec.name)
        if not spec.model:
            raise SettingsError(f"{spec.name}: has no model; use {spec.harness}:<model>")
        self.route = Route(spec.name, spec.model)
        self.system_prompt = spec.system_prompt
        self.network: Network = network_of(given.network, "needed")
        script, version = given.install or self.script, given.version or self.version
        self.installation = Installation(script, version, self.program)
        self.passed_on = self._variables() if given.env is None else tuple(given.env)
        self.arguments = given.arguments
        self.max_turns: int | None = getattr(given, "max_turns", None)

    def _variables(self) -> tuple[str, ...]:
        """Return the variables to pass on: those of the recipe's that are set."""
        if not any(os.environ.get(key) for key in self.keys):
            first, *others = self.keys
            also = f", or {' or '.join(others)}" if others else ""
            raise SettingsError(
                f"{self.route.provider}: {first} is not set; "
                f"set it in the environment or in .env{also}"
            )
        return tuple(key for key in (*self.keys, *self.more) if os.environ.get(key))

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Run the program, and read how it ended."""
        env = {**self._told(task, limits), **{name: os.environ[name] for name in self.passed_on}}
        with tempfile.TemporaryDirectory(prefix="aecbench-agent-") as staging:
            execution = sandbox.execute(
                self.command.replace("ARGUMENTS", shlex.join(self.arguments)),
                env=env,
                timeout_sec=limits.timeout_sec,
                uploads=instruction_uploads(task, Path(staging)),
            )
        report = ""
        if self.report:
            report = sandbox.execute(self.report, timeout_sec=_REPORT_SEC).stdout
        return self._priced(self._result(execution, report), context_of(sandbox).prices)

    def _told(self, task: Task, limits: AgentLimits) -> dict[str, str]:
        """Return the variables that ``command`` reads."""
        prompts = [text.strip() for text in (self.system_prompt, task.system_prompt) if text]
        return {
            "AGENT_MODEL": self.route.model,
            "AGENT_INSTRUCTION_FILE": INSTRUCTION_FILE,
            "AGENT_OUTPUT_PATH": str(task.output_path),
            "AGENT_TIMEOUT_SEC": f"{limits.timeout_sec:g}",
            **({"AGENT_SYSTEM_PROMPT": "\n\n".join(prompts)} if prompts else {}),
            **({"AGENT_MAX_TURNS": str(self.max_turns)} if self.max_turns else {}),
        }

    def _result(self, execution: BackendExecutionResult, report: str) -> AgentResult:
        if not report and execution.returncode not in (0, None):
            self._check_started(execution)
        read = self.read(execution.stdout, report)
        result = replace(
            AgentResult.from_execution(execution),
            usage=read.usage,
            cost_usd=read.cost_usd,
            turns=read.turns,
        )
        trouble = self.trouble(execution, report)
        if isinstance(trouble, (ContextExceeded, Refused)):  # which ends agents of any kind
            end = "refusal" if isinstance(trouble, Refused) else "context_length"
            return replace(result, status="limit_reached", end=end, error=str(trouble))
        if trouble is not None:
            raise trouble
        if execution.timed_out:
            return replace(result, end="deadline")
        return self.ended(result, execution.stdout, report)

    def _priced(self, result: AgentResult, prices: Mapping[str, Price]) -> AgentResult:
        """Return the result with a cost: the program's own, else by the prices that we know."""
        if result.cost_usd is not None:
            return replace(result, price_source=self.program)
        is_elsewhere = any(name.endswith("_BASE_URL") for name in self.passed_on)
        client = {"settings": {"base_url": "its own"}} if is_elsewhere else {}
        try:
            tariff = find_price(find_route(self.route.model, client, self.program), prices)
        except SettingsError:  # a model of a provider that only the program knows
            tariff = None
        if tariff is None:
            return result
        return replace(result, cost_usd=tariff.cost(result.usage), price_source=tariff.source)

    def _check_started(self, execution: BackendExecutionResult) -> None:
        """Raise LaunchError if the program failed without a word of its own, so did not work."""
        if not any(printed_objects(execution.stdout)):
            last = (execution.stdout + execution.stderr).strip().rpartition("\n")[2]
            raise LaunchError(
                f"{self.route.provider}: {self.program} did not work, exit code "
                f"{execution.returncode}; {shortened(last, 200) or 'it printed nothing'}"
            )

    def read(self, stdout: str, report: str) -> Reading:
        """Return what the program says about its use of the model."""
        return read_printed(report or stdout)

    def trouble(self, execution: BackendExecutionResult, report: str) -> ProviderError | None:
        """Return the error of a provider that kept the program from working, if one did."""
        raise NotImplementedError

    def ended(self, result: AgentResult, stdout: str, report: str) -> AgentResult:
        """Return the result with the way in which the program ended."""
        return replace(result, end="submitted") if result.status == "completed" else result

    def failed(self, status: int | None, message: str) -> ProviderError:
        """Return the error for a call that failed with a status of HTTP, or without an answer."""
        if status is None and _TOO_LONG.search(message):
            status = 400
        if status is None:
            kinds = (kind for words, kind in _ENDS if words.search(message))
            kind = next(kinds, None)
            return kind(masked(self.route, message)) if kind else broken(self.route, message)
        return from_answer(self.route, Answer(status, message))


def last_event(events: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    """Return the last event of a kind; an empty one if there is none."""
    return next((event for event in reversed(events) if event.get("type") == kind), {})
