"""The advisor of a model agent: a second model that it may ask a few times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.prompts import ADVISOR
from pytest_aecbench.agents.tools import ToolOutput, clipped, text_argument
from pytest_aecbench.errors import ContextExceeded, Refused, RequestRejected
from pytest_aecbench.providers import (
    Message,
    ModelRequest,
    Part,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_aecbench.agents.parameters import AdvisorParameters
    from pytest_aecbench.providers.calls import Caller

__all__ = ["Advisor", "message_lines"]

# Of each part of the conversation, the advisor sees so much.
_PART_CHARS = 2000


class Advisor:
    """The tool ``ask_advisor``; ``messages`` is the conversation, which grows beside it."""

    spec = ToolSpec(
        "ask_advisor",
        "Ask an experienced engineer, who sees the last part of this conversation. Only a few "
        "questions are answered.",
        {
            "type": "object",
            "properties": {"question": {"type": "string", "description": "the question"}},
            "required": ["question"],
            "additionalProperties": False,
        },
    )

    def __init__(
        self, parameters: AdvisorParameters, caller: Caller, messages: Sequence[Message]
    ) -> None:
        self._parameters = parameters
        self._caller = caller
        self._messages = messages
        self._uses = 0
        self._has_answered = False

    def run(self, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Ask the advisor."""
        question = text_argument(arguments, "question")
        most = self._parameters.max_uses
        if self._uses >= most:
            return ToolOutput(f"all {most} questions are used; go on alone", is_error=True)
        if not question.strip():
            return ToolOutput("question: is blank; ask something", is_error=True)
        self._uses += 1
        shown = self._messages[max(0, len(self._messages) - self._parameters.context_window) :]
        context = "\n\n".join(line for message in shown for line in message_lines(message))
        asked = f"{context}\n\nThe question:\n{question}" if context else question
        request = ModelRequest(
            (Message("user", (Text(asked),)),),
            ADVISOR,
            max_tokens=self._parameters.max_response_tokens,
        )
        try:
            answer = self._caller.call(request).reply.message.text
        except (ContextExceeded, Refused, RequestRejected) as error:
            # The first request shows whether the advisor's settings are right.
            if isinstance(error, RequestRejected) and not self._has_answered:
                raise
            return ToolOutput(f"the advisor does not answer: {error}", is_error=True)
        self._has_answered = True
        left = most - self._uses
        return ToolOutput(f"{answer or '(no answer)'}\n[{left} questions left]")


def message_lines(message: Message, most: int | None = _PART_CHARS) -> Iterator[str]:
    """Yield the parts of a message as text, each with at most so many characters."""
    for part in message.content:
        if text := _text(part):
            yield f"{message.role}: {text if most is None else clipped(text, most)}"


def _text(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, ToolCall):
        return f"[calls {part.name}] {json.dumps(part.arguments, ensure_ascii=False)}"
    if isinstance(part, ToolResult):
        return "\n".join(_text(inner) for inner in part.content)
    return "[an image]"
