"""The conversation of a model with its REPL, at the root or below it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.advisor import message_lines
from pytest_aecbench.agents.prompts import CUT_CALL
from pytest_aecbench.agents.rlm.link import Calls, CellEnd, Repl
from pytest_aecbench.agents.rlm.models import Place
from pytest_aecbench.agents.rlm.nudges import Nudges
from pytest_aecbench.agents.rlm.prompts import IDLE, asked_to_finish, turns_left
from pytest_aecbench.agents.rlm.showing import cell_text, is_error
from pytest_aecbench.agents.spending import LimitReached
from pytest_aecbench.errors import ContextExceeded, Refused, RequestRejected
from pytest_aecbench.providers import Message, Part, Text, ToolCall, ToolResult, ToolSpec
from pytest_aecbench.providers.calls import DeadlineReached
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.model_agent import ModelAgent
    from pytest_aecbench.agents.rlm.answering import Answering, Reply
    from pytest_aecbench.agents.rlm.compaction import Compaction
    from pytest_aecbench.agents.rlm.models import Models
    from pytest_aecbench.agents.trajectory import Entry
    from pytest_aecbench.providers.calls import Call

__all__ = ["REPL_TOOL", "Conversation", "Ended"]

# So many replies without a cell, or refusals, one after the other, end the conversation.
_PATIENCE = 3
_MOST_ERRORS = 5
_CELL_SEC = 120.0
_HINT_FROM = 2
# While models are asked, the REPL is looked at only in passing, because a look is a command of the
# sandbox: soon after an answer, when its cell may ask again, and then less and less often.
_GLANCE_SEC = 0.02
_GLANCE_AFTER_SEC = 0.25
_LONGEST_PAUSE_SEC = 5.0
_LEAST_SEC = 1.0

REPL_TOOL = ToolSpec(
    "repl",
    "Run a cell of Python in the REPL. Variables stay. Returns what the cell prints, the value of "
    "its last expression, or its error.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "the cell"}},
        "required": ["code"],
        "additionalProperties": False,
    },
)


class Ended(Exception):  # noqa: N818  (a state)
    """The conversation is over: how, and what there is to say about it."""

    def __init__(self, end: str, error: str | None = None) -> None:
        super().__init__(end)
        self.end = end
        self.error = error


@dataclass(slots=True)
class Conversation:
    """One model and its REPL; ``place`` is below the cell that asked for it, if one did."""

    agent: ModelAgent[Any]
    models: Models
    repl: Repl
    answering: Answering
    compaction: Compaction
    messages: list[Message]
    system: str
    asked: str
    place: Place
    model: str | None = None
    turn: int = 0
    last: CellEnd = field(default_factory=CellEnd)
    final: dict[str, Any] | None = None
    nudges: Nudges = field(default_factory=Nudges)
    _idle: int = 0
    _refusals: int = 0
    _errors: int = 0
    _is_warned: bool = False

    @property
    def max_turns(self) -> int:
        """The replies that the model may give."""
        return min(
            self.models.config.guardrails.max_iterations,
            self.models.limits.max_turns or self.models.config.guardrails.max_iterations,
        )

    def run(self) -> Ended:
        """Let the model work until it declares its answer or a limit is reached."""
        self.messages.append(Message("user", (Text(self.asked),)))
        try:
            while True:
                self._check_turns()
                self._take_turn()
        except Ended as ended:
            return ended
        except LimitReached as limit:
            return Ended(limit.end, str(limit))
        except DeadlineReached:
            return Ended(
                "deadline", f"timed out after {self.models.limits.timeout_sec:.0f} s of work"
            )

    def finish(self, ended: Ended) -> None:
        """Get an answer out of a run that is over: by one more turn, else what there is of one."""
        self.answering.is_over = True
        text = None
        if ended.end == "deadline":
            self.repl.interrupt()
        elif ended.end not in ("refusal", "rejected"):
            text = self._last_turn(ended)
        if self.final is None:
            end = self.repl.do({"do": "finish", "text": text})
            self.final = dict(end.final) if end.final else None

    def _last_turn(self, ended: Ended) -> str | None:
        """Give the model one more turn; return the text of a reply that runs no cell."""
        has_template = self.models.config.template.definition is not None and not self.place.depth
        asked = Text(asked_to_finish(ended.error or ended.end, has_template=has_template))
        if ended.end == "context_length":
            self.messages[:] = [Message("user", (Text(self.asked), Text(f"\n\n{asked.text}")))]
        else:
            self._say((asked,))
        try:
            call = self.models.call_once_more(self._request(), self.model)
        except (ContextExceeded, Refused, RequestRejected, DeadlineReached):
            return None
        self._note(call)
        cells = call.reply.message.tool_calls
        if not cells:
            return call.reply.message.text
        with suppress(Ended, DeadlineReached):  # with an answer, or without time for one
            self._results(call)
        return None

    def _check_turns(self) -> None:
        if self.turn >= self.max_turns:
            raise Ended("turn_limit", f"used all of its {counted(self.max_turns, 'turn')}")

    def _take_turn(self) -> None:
        if self.compaction.is_due:
            self._compact()
        call = self._ask()
        if call is None:
            return
        self._note(call)
        if call.reply.stop == "context":
            raise Ended("context_length", "the model's context is full")
        if call.reply.stop == "refusal":
            self._count_refusal("the model refused")
        is_above = self.compaction.look(call)
        self._answer(call)
        if is_above:
            raise Ended("context_length", "the context is nearly full, also after a compaction")

    def _request(self) -> Any:
        return self.agent.request(
            tuple(self.messages), self.system, self.models.limits, (REPL_TOOL,)
        )

    def _ask(self, *, is_second: bool = False) -> Call | None:
        """Return the model's reply; None if it was refused and may be asked again."""
        try:
            return self.models.call(self._request(), self.model, counts=self.place.depth > 0)
        except ContextExceeded as error:
            if is_second or not self.turn:
                raise Ended("context_length", str(error)) from None
            self._compact()
            return self._ask(is_second=True)
        except RequestRejected as error:
            if not self.turn:
                raise  # nothing of the model's is in the request yet
            raise Ended("rejected", str(error)) from None
        except Refused as error:
            self.turn += 1
            self.models.trajectory.add(
                "assistant", turn=self._shown_turn, metadata={"refused": str(error)}
            )
            self._count_refusal(str(error))
            return None

    @property
    def _shown_turn(self) -> int:
        return self.place.turn if self.place.depth else self.turn

    def _note(self, call: Call) -> Entry:
        self.turn += 1
        self._refusals = self._refusals if call.reply.stop == "refusal" else 0
        self.messages.append(call.reply.message)
        if self.place.depth:
            return self.models.note(call, "subcall", self._here(self.place.parent), "rlm_query")
        return self.models.note(call, "main", self._here(None))

    def _here(self, parent: int | None, *, deeper: int = 0) -> Place:
        """Return the place of a call of this conversation, or of one of its cells."""
        return Place(self._shown_turn, parent, self.place.depth + deeper)

    def _compact(self) -> None:
        place = self._here(self.place.parent)
        self.compaction.compact(self.messages, self.asked, self.repl, self.last, place)

    def _count_refusal(self, why: str) -> None:
        self._refusals += 1
        if self._refusals >= _PATIENCE:
            raise Ended("refusal", why)

    def _answer(self, call: Call) -> None:
        """Run the cells of a reply and put their ends, or a reminder, into the conversation."""
        if not call.reply.message.tool_calls:
            self._idle += 1
            if self._idle >= _PATIENCE:
                raise Ended("stopped", f"ran no cell in {_PATIENCE} replies")
            self._say((Text(IDLE),))
            return
        self._idle = 0
        self._say(self._results(call))
        if self._errors >= _MOST_ERRORS:
            raise Ended("stopped", f"{_MOST_ERRORS} cells in a row failed")

    def _results(self, call: Call) -> tuple[Part, ...]:
        """Run each cell of a reply; the one that declares the answer is the last."""
        cut = call.reply.stop == "length"
        results: list[Part] = []
        for wanted in call.reply.message.tool_calls:
            results.append(self._result(wanted, cut=cut))
            if self.final is not None:
                raise Ended("submitted")
        return tuple(results)

    def _say(self, parts: tuple[Part, ...]) -> None:
        """Add to the conversation; two messages of a user in a row are one."""
        if self.messages and self.messages[-1].role == "user":
            parts = (*self.messages.pop().content, *parts)
        self.messages.append(Message("user", parts))

    def _result(self, wanted: ToolCall, *, cut: bool) -> ToolResult:
        about = {"depth": self.place.depth, "parent": self.place.parent}
        metadata = {name: value for name, value in about.items() if value}
        code = wanted.arguments.get("code") if wanted.arguments else None
        entry = self.models.trajectory.add(
            "tool_call",
            wanted.raw if wanted.arguments is None else "",
            turn=self._shown_turn,
            call_id=wanted.call_id,
            tool_name=wanted.name,
            arguments=wanted.arguments,
            metadata=metadata,
        )
        start = time.monotonic()
        problem = _problem(wanted, code, cut=cut)
        if problem is None:
            assert isinstance(code, str)
            self.last = self._run_cell(code, self._here(entry.step, deeper=1))
            self.final = dict(self.last.final) if self.last.final else None
            self._errors = self._errors + 1 if is_error(self.last) else 0
            text, failed = cell_text(self.last, self._footers()), is_error(self.last)
            metadata |= self._about(self.last)
        else:
            text, failed = problem, True
        self.models.trajectory.add(
            "tool_result",
            text,
            turn=self._shown_turn,
            call_id=wanted.call_id,
            tool_name=wanted.name,
            exit_code=int(failed),
            duration_ms=round((time.monotonic() - start) * 1000),
            metadata={**metadata, "is_error": True} if failed else metadata,
        )
        return ToolResult(wanted.call_id, (Text(text),), is_error=failed)

    def _about(self, end: CellEnd) -> dict[str, Any]:
        tokens = self.models.spending.meter.counted_tokens
        about = {
            "var_diff": {"new": dict(end.new), "removed": list(end.removed)},
            "variables": dict(end.variables) or None,
            "scratchpad_keys": list(end.notes) or None,
            "template_progress": end.progress.to_json() if end.progress else None,
            "final": _without_text(end.final),
            "lost": end.lost,
            "tokens": {"grand_total": tokens},
        }
        return {name: value for name, value in about.items() if value is not None}

    def _run_cell(self, code: str, place: Place) -> CellEnd:
        """Run a cell and answer its calls."""
        clock = self.models.clock
        timeout_sec = self.models.limits.command_timeout_sec or _CELL_SEC
        event = self.repl.begin({"do": "run", "code": code}, min(timeout_sec, self._left_sec()))
        heard = time.monotonic()
        while not isinstance(event, CellEnd):
            if isinstance(event, Calls):
                self.answering.begin(event.groups, place)
                heard = time.monotonic()
            answers: Mapping[int, list[Reply]] = {}
            if self.answering.is_busy:
                pause_sec = max(_GLANCE_AFTER_SEC, time.monotonic() - heard)
                answers = self.answering.answered(min(pause_sec, _LONGEST_PAUSE_SEC))
                heard = time.monotonic() if answers else heard
            if clock.left_sec <= 0:
                raise DeadlineReached
            wait_sec = _GLANCE_SEC if self.answering.is_busy else self._left_sec()
            event = self.repl.go_on(answers, wait_sec)
        return event

    def _left_sec(self) -> float:
        """Return the working time that is left, after an end by a limit at least a little."""
        left_sec = self.models.clock.left_sec
        if left_sec <= 0 and not self.answering.is_over:
            raise DeadlineReached
        return max(left_sec, _LEAST_SEC)

    def _footers(self) -> list[str]:
        """Return what the harness has to say after a cell."""
        footers = []
        if self.last.progress and self.models.config.execution.scaffolding:
            footers.append(self.nudges.footer(self.last, self.turn, self.compaction.count))
        share = self.models.spending.share_of_tokens() * 100
        if not self._is_warned and share >= self.models.config.guardrails.budget_warning_pct:
            self._is_warned = True
            footers.append(f"[{share:.0f} % of the budget of tokens is used; come to an end]")
        left = self.max_turns - self.turn
        if 0 < left <= _HINT_FROM:
            footers.append(f"[{turns_left(left)}]")
        return footers

    def advice(self) -> str:
        """Return the end of the conversation, as the advisor sees it."""
        advisor = self.models.config.advisor
        window = advisor.context_window if advisor else 0
        shown = self.messages[max(0, len(self.messages) - window) :] if window else []
        lines = [line for message in shown for line in message_lines(message)]
        if self.last.progress:
            lines.append(f"Filled sections: {', '.join(self.last.progress.filled) or 'none'}")
        if self.last.notes:
            lines.append(f"Notes: {', '.join(self.last.notes)}")
        return "\n\n".join(lines)


def _without_text(final: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what a trajectory says of an answer; a child's is in what its parent gets."""
    return {name: about for name, about in final.items() if name != "text"} if final else None


def _problem(wanted: ToolCall, code: object, *, cut: bool) -> str | None:
    """Return why a tool call is not run, if it is not."""
    if cut:
        return CUT_CALL
    if wanted.arguments is None:
        return "the arguments are not a JSON object; call it again"
    if wanted.name != REPL_TOOL.name:
        return f"there is no tool {wanted.name!r}; use 'repl'"
    if not isinstance(code, str):
        return "bad arguments: 'code' has to be a string"
    return None
