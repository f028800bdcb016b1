"""Steps: calls to models of one trial, a few at once, each with its entry in the trajectory."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_aecbench.agents.lambda_rlm.answers import BadAnswerError, read_answer
from pytest_aecbench.agents.lambda_rlm.prompts import repair_message
from pytest_aecbench.agents.model_agent import add_reply
from pytest_aecbench.agents.spending import LimitReached
from pytest_aecbench.agents.trajectory import MAX_TEXT
from pytest_aecbench.errors import ContextExceeded, Refused, RequestRejected
from pytest_aecbench.providers import Message, ModelRequest, Part, Text, ToolResult
from pytest_aecbench.providers.calls import DeadlineReached
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_aecbench.agents.spending import Spending
    from pytest_aecbench.agents.trajectory import Trajectory
    from pytest_aecbench.agents.workers import Workers
    from pytest_aecbench.providers import ModelReply, ToolSpec
    from pytest_aecbench.providers.calls import Call, Caller

__all__ = ["ENDS", "Step", "StepFailedError", "Steps", "StoppedError", "gather", "result_of"]

_T = TypeVar("_T")


class StepFailedError(Exception):
    """A model gave no usable answer; that is an outcome of the section, and not an error."""


class StoppedError(Exception):
    """The run is over because of something that happened elsewhere in it."""


# Errors that end a run, but are not those of infrastructure.
ENDS = (DeadlineReached, LimitReached, StoppedError)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a section, for the trajectory; ``parent`` is the entry that it belongs to."""

    phase: str
    section: str
    parent: int
    source: str | None = None
    chunk: int | None = None

    def metadata(self, **more: Any) -> dict[str, Any]:
        """Return what the trajectory says of the step."""
        types = {"generate": "main", "advise": "advisor"}
        place = (self.source, f"part {self.chunk}" if self.chunk else None)
        about = {
            "call_type": types.get(self.phase, "subcall"),
            "kind": ", ".join((f"{self.phase} {self.section}", *filter(None, place))),
            "phase": self.phase,
            "section": self.section,
            "source": self.source,
            "chunk": self.chunk,
            "parent": self.parent,
            **more,
        }
        return {name: value for name, value in about.items() if value is not None}


class Steps:
    """Makes the calls of a trial; ``prepare`` makes a request of messages and tools."""

    def __init__(
        self,
        workers: Workers,
        spending: Spending,
        trajectory: Trajectory,
        caller: Caller,
        prepare: Callable[[tuple[Message, ...], tuple[ToolSpec, ...]], ModelRequest],
    ) -> None:
        self._workers = workers
        self._spending = spending
        self._trajectory = trajectory
        self._caller = caller
        self._prepare = prepare
        self._lock = threading.Lock()
        self._is_stopped = False
        self.turns = 0

    def stop(self) -> None:
        """Let no further call begin."""
        self._is_stopped = True

    def note(self, text: str, **metadata: Any) -> int:
        """Write an entry that is not a call; return its number."""
        return self._trajectory.add("user", text, metadata=metadata).step

    def answer(
        self,
        step: Step,
        prompt: str,
        tool: ToolSpec,
        read: Callable[[Mapping[str, Any]], _T],
    ) -> Future[_T]:
        """Ask for a structured answer; a bad one may be repaired once."""
        return self._workers.submit(self._answer, step, prompt, tool, read)

    def write(self, step: Step, prompt: str) -> Future[tuple[str, str | None]]:
        """Ask for a text; return it, and what is wrong with it."""
        return self._workers.submit(self._write, step, prompt)

    def ask(self, step: Step, request: ModelRequest, caller: Caller) -> Future[str]:
        """Ask another model."""
        return self._workers.submit(lambda: self._call(step, request, caller).message.text)

    def _answer(
        self,
        step: Step,
        prompt: str,
        tool: ToolSpec,
        read: Callable[[Mapping[str, Any]], _T],
    ) -> _T:
        asked = Message("user", (Text(prompt),))
        reply = self._call(step, self._prepare((asked,), (tool,)), self._caller)
        try:
            return read_answer(reply.message, tool, read)
        except BadAnswerError as error:
            problem = "it was cut at its maximum length" if reply.stop == "length" else str(error)
        again = (asked, reply.message, _repair(reply, problem, tool))
        try:
            reply = self._call(step, self._prepare(again, (tool,)), self._caller, repair=problem)
            return read_answer(reply.message, tool, read)
        except BadAnswerError as error:
            raise StepFailedError(f"the answer could not be read: {error}") from None
        except RequestRejected as error:  # because of what the model has written
            raise StepFailedError(f"the answer could not be repaired: {error}") from None

    def _write(self, step: Step, prompt: str) -> tuple[str, str | None]:
        request = self._prepare((Message("user", (Text(prompt),)),), ())
        reply = self._call(step, request, self._caller)
        text = reply.message.text
        if not text.strip():
            raise StepFailedError("the model wrote nothing")
        return text, "the text was cut at max_tokens" if reply.stop == "length" else None

    def _call(
        self, step: Step, request: ModelRequest, caller: Caller, repair: str | None = None
    ) -> ModelReply:
        """Make one call.

        Raises:
            StepFailedError: the model refused, or cannot take so much.
            StoppedError: the run is over.
            LimitReached: a budget is spent.
            DeadlineReached: the agent has no working time left.
            ProviderError: the provider failed.

        """
        if self._is_stopped:
            raise StoppedError
        try:
            call = self._spending.call(caller, request)
        except (ContextExceeded, Refused) as error:
            self._record(step, request, None, repair=repair, refused=str(error))
            raise StepFailedError(str(error)) from None
        self._record(step, request, call, repair=repair)
        if call.reply.stop == "refusal":
            raise StepFailedError("the model refused")
        if call.reply.stop == "context":
            raise StepFailedError("the model's context was full")
        return call.reply

    def _record(self, step: Step, request: ModelRequest, call: Call | None, **more: Any) -> None:
        """Write what was asked and what was answered."""
        told = "\n".join(_text(part) for part in request.messages[-1].content)
        metadata = step.metadata(prompt=both_ends(told, MAX_TEXT), **more)
        with self._lock:
            self.turns += 1
            if call is None:
                self._trajectory.add("assistant", turn=self.turns, metadata=metadata)
                return
            entry = add_reply(self._trajectory, call, self.turns, **metadata)
            for wanted in call.reply.message.tool_calls:
                self._trajectory.add(
                    "tool_call",
                    wanted.raw if wanted.arguments is None else "",
                    turn=entry.turn,
                    call_id=wanted.call_id,
                    tool_name=wanted.name,
                    arguments=wanted.arguments,
                    metadata={"call_type": metadata["call_type"]},
                )


def _repair(reply: ModelReply, problem: str, tool: ToolSpec) -> Message:
    """Return the request to answer again; each tool call has to have a result."""
    text = Text(repair_message(problem, tool))
    calls = reply.message.tool_calls
    results: list[Part] = [ToolResult(call.call_id, (text,), is_error=True) for call in calls]
    return Message("user", tuple(results) or (text,))


def _text(part: Part) -> str:
    if isinstance(part, ToolResult):
        return "\n".join(map(_text, part.content))
    return part.text if isinstance(part, Text) else ""


def gather(futures: Iterable[Future[_T]]) -> list[_T | StepFailedError]:
    """Return the results, or the failures of steps, once all have ended; raise other errors.

    That a provider failed goes before that a budget is spent.
    """
    every = list(futures)
    wait(every)
    errors = [error for future in every if (error := future.exception()) is not None]
    raised = [error for error in errors if not isinstance(error, StepFailedError)]
    if raised:
        raise next((error for error in raised if not isinstance(error, ENDS)), raised[0])
    results: list[_T | StepFailedError] = []
    for future in every:
        error = future.exception()
        results.append(error if isinstance(error, StepFailedError) else future.result())
    return results


def result_of(future: Future[_T]) -> _T:
    """Return the result of one step, or raise its error."""
    (result,) = gather([future])
    if isinstance(result, StepFailedError):
        raise result
    return result
