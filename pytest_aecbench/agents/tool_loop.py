"""The agent ``tool_loop``: a model that works in the sandbox by means of tools, turn by turn."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult, context_of
from pytest_aecbench.agents.advisor import Advisor
from pytest_aecbench.agents.mcp import check_servers, open_servers
from pytest_aecbench.agents.model_agent import ModelAgent, add_reply
from pytest_aecbench.agents.parameters import ToolLoopParameters
from pytest_aecbench.agents.prompts import (
    CUT_CALL,
    IDLE,
    TOOL_LOOP_VERSION,
    last_turns,
    tool_loop_system,
    user_message,
)
from pytest_aecbench.agents.spending import Budgets, LimitReached, Spending, tightened
from pytest_aecbench.agents.task_tools import TaskTool
from pytest_aecbench.agents.tools import (
    SUBMIT,
    BadArgumentsError,
    Bash,
    ReadFile,
    Tool,
    ToolOutput,
    WriteFile,
)
from pytest_aecbench.errors import ContextExceeded, Refused, RequestRejected
from pytest_aecbench.providers import Image, Message, Part, Text, ToolCall, ToolResult, ToolSpec
from pytest_aecbench.providers.calls import DeadlineReached
from pytest_aecbench.text import counted, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.parameters import AdvisorParameters
    from pytest_aecbench.agents.trajectory import Trajectory
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.providers.calls import Call, Caller
    from pytest_aecbench.providers.prices import Price
    from pytest_aecbench.tasks.task import Task

__all__ = ["ToolLoopAgent"]

_MAX_TURNS = 10
_COMMAND_SEC = 120.0
# So many replies without a tool, or refusals, one after the other, end the loop.
_PATIENCE = 3
# From so many turns before the last one, the model is told.
_HINT_FROM = 2

_SUBMIT = ToolSpec(
    SUBMIT,
    "Finish the task. Call it once the answer is written and checked.",
    {"type": "object", "properties": {}, "additionalProperties": False},
)


class ToolLoopAgent(ModelAgent[ToolLoopParameters]):
    """Lets the model use tools until it submits or reaches a limit."""

    parameters_model = ToolLoopParameters
    prompt_version = TOOL_LOOP_VERSION

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Work on the task; the time until its servers have started is not the agent's."""
        with open_servers(self.parameters.mcp_servers, task, sandbox) as offered:
            return self._work(task, sandbox, limits, offered)

    def _work(
        self, task: Task, sandbox: Sandbox, limits: AgentLimits, offered: list[Tool]
    ) -> AgentResult:
        caller = self.caller(sandbox, limits)
        messages: list[Message] = []
        tools: list[Tool] = [Bash(sandbox), ReadFile(sandbox), WriteFile(sandbox)]
        tools += (TaskTool(declared, sandbox) for declared in task.declared_tools)
        tools += offered
        if (advisor := self._advisor) is not None:
            own = self.caller(sandbox, limits, self.route_to(advisor.model), caller.clock)
            tools.append(Advisor(advisor, own, messages))
        named = {tool.spec.name: tool for tool in tools}
        trajectory = context_of(sandbox).trajectory
        loop = _Loop(self, task, limits, caller, named, trajectory, messages)
        end, error = loop.run()
        return self.result(caller, end, turns=loop.turn, error=error)

    def preflight(self, prices: Mapping[str, Price]) -> None:
        """Raise SettingsError unless its models can be called and its servers started."""
        super().preflight(prices)
        check_servers(self.parameters.mcp_servers, self.spec.name)
        if (advisor := self._advisor) is not None:
            self.check_model(self.route_to(advisor.model), prices)

    @property
    def _advisor(self) -> AdvisorParameters | None:
        advisor = self.parameters.advisor
        return advisor if advisor and advisor.enabled else None


class _Ended(Exception):  # noqa: N818  (a state)
    """The loop is over: how, and what there is to say about it."""

    def __init__(self, end: str, error: str | None = None) -> None:
        super().__init__(end)
        self.end = end
        self.error = error


@dataclass
class _Loop:
    """One conversation."""

    agent: ToolLoopAgent
    task: Task
    limits: AgentLimits
    caller: Caller
    tools: dict[str, Tool]
    trajectory: Trajectory
    messages: list[Message]
    turn: int = 0
    idle: int = 0
    refusals: int = 0

    def run(self) -> tuple[str, str | None]:
        """Return how the conversation ended."""
        self.system = tool_loop_system(self.agent.spec, self.task)
        self.specs = (*(tool.spec for tool in self.tools.values()), _SUBMIT)
        self.trajectory.tools = self.specs
        asked = user_message(self.task)
        self.trajectory.add(
            "system", self.system, metadata={"tools": [spec.name for spec in self.specs]}
        )
        self.trajectory.add("user", asked)
        self.messages.append(Message("user", (Text(asked),)))
        try:
            while True:
                self._check_limits()
                self._take_turn()
        except _Ended as ended:
            return ended.end, ended.error
        except DeadlineReached:
            return "deadline", f"timed out after {self.limits.timeout_sec:.0f} s of work"

    def _check_limits(self) -> None:
        if self.turn >= self._max_turns:
            raise _Ended("turn_limit", f"used all of its {counted(self._max_turns, 'turn')}")
        try:
            Spending(self.caller.meter, tightened(Budgets(), self.limits)).check()
        except LimitReached as limit:
            raise _Ended(limit.end, str(limit)) from None

    @property
    def _max_turns(self) -> int:
        return self.limits.max_turns or _MAX_TURNS

    def _take_turn(self) -> None:
        """Ask the model once and do what it wants."""
        call = self._ask()
        if call is None:
            return
        reply = call.reply
        self.turn += 1
        add_reply(self.trajectory, call, self.turn)
        self.messages.append(reply.message)
        if reply.stop == "context":
            raise _Ended("context_length", "the model's context is full")
        if reply.stop == "refusal":
            self._count_refusal("the model refused")
        self._answer(call)

    def _ask(self) -> Call | None:
        """Return the model's reply; None if it was refused and may be asked again."""
        request = self.agent.request(tuple(self.messages), self.system, self.limits, self.specs)
        try:
            call = self.caller.call(request)
        except ContextExceeded as error:
            raise _Ended("context_length", str(error)) from None
        except RequestRejected as error:
            if not self.turn:
                raise  # nothing of the model's is in the request yet
            if self._drop_images():
                return None
            raise _Ended("rejected", str(error)) from None
        except Refused as error:
            self.turn += 1
            self.trajectory.add("assistant", turn=self.turn, metadata={"refused": str(error)})
            self._count_refusal(str(error))
            return None
        self.refusals = self.refusals if call.reply.stop == "refusal" else 0
        return call

    def _drop_images(self) -> bool:
        """Replace images by words; return whether there were some.

        An image can be broken in ways that only the provider finds.
        """
        before = list(self.messages)
        self.messages[:] = [replace(one, content=_without_images(one)) for one in before]
        return self.messages != before

    def _count_refusal(self, why: str) -> None:
        self.refusals += 1
        if self.refusals >= _PATIENCE:
            raise _Ended("refusal", why)

    def _answer(self, call: Call) -> None:
        """Run the tools of a reply and put their results, or a reminder, into the conversation."""
        calls = call.reply.message.tool_calls
        if not calls:
            self.idle += 1
            if self.idle >= _PATIENCE:
                raise _Ended("stopped", f"called no tool in {_PATIENCE} replies")
            self._say((Text(self._with_hint(IDLE)),))
            return
        self.idle = 0
        cut = call.reply.stop == "length"
        results: list[Part] = [self._result(wanted, cut=cut) for wanted in calls]
        if not cut and any(wanted.name == SUBMIT for wanted in calls):
            raise _Ended("submitted")
        hint = self._with_hint("")
        self._say((*results, *((Text(hint),) if hint else ())))

    def _say(self, parts: tuple[Part, ...]) -> None:
        text = "".join(part.text for part in parts if isinstance(part, Text))
        if text:
            self.trajectory.add("user", text, turn=self.turn)
        self.messages.append(Message("user", parts))

    def _with_hint(self, text: str) -> str:
        left = self._max_turns - self.turn
        hint = last_turns(left) if 0 < left <= _HINT_FROM else ""
        return "\n".join(part for part in (text, hint) if part)

    def _result(self, wanted: ToolCall, *, cut: bool) -> ToolResult:
        """Use one tool and return what the model gets of it."""
        self.trajectory.add(
            "tool_call",
            wanted.raw if wanted.arguments is None else "",
            turn=self.turn,
            call_id=wanted.call_id,
            tool_name=wanted.name,
            arguments=wanted.arguments,
        )
        start = time.monotonic()
        output = ToolOutput(CUT_CALL, is_error=True) if cut else self._use(wanted)
        self.trajectory.add(
            "tool_result",
            output.text,
            turn=self.turn,
            call_id=wanted.call_id,
            tool_name=wanted.name,
            command=output.command,
            stdout=output.stdout,
            stderr=output.stderr,
            exit_code=output.exit_code,
            duration_ms=round((time.monotonic() - start) * 1000),
            metadata=_result_metadata(output),
        )
        return ToolResult(
            wanted.call_id, (Text(output.text), *output.images), is_error=output.is_error
        )

    def _use(self, wanted: ToolCall) -> ToolOutput:
        if wanted.arguments is None:
            return ToolOutput("the arguments are not a JSON object; call it again", is_error=True)
        if wanted.name == SUBMIT:
            return ToolOutput("submitted")
        tool = self.tools.get(wanted.name)
        if tool is None:
            known = did_you_mean(wanted.name, (*self.tools, SUBMIT))
            return ToolOutput(f"there is no tool {wanted.name!r}; {known}", is_error=True)
        left_sec = self.caller.clock.left_sec
        if left_sec <= 0:
            raise DeadlineReached
        timeout_sec = min(self.limits.command_timeout_sec or _COMMAND_SEC, left_sec)
        try:
            return tool.run(wanted.arguments, timeout_sec)
        except BadArgumentsError as error:
            return ToolOutput(f"bad arguments: {error}", is_error=True)


def _without_images(message: Message) -> tuple[Part, ...]:
    return tuple(
        replace(part, content=tuple(map(_in_words, part.content)))
        if isinstance(part, ToolResult)
        else part
        for part in message.content
    )


def _in_words(part: Text | Image) -> Text:
    return part if isinstance(part, Text) else Text("[an image that the provider does not take]")


def _result_metadata(output: ToolOutput) -> dict[str, object]:
    about = {"is_error": output.is_error or None, "images": len(output.images) or None}
    return {name: value for name, value in about.items() if value is not None}
