"""Compaction: a conversation that is replaced by a summary before the model's context is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.agents.advisor import message_lines
from pytest_aecbench.agents.rlm.prompts import COMPACTION, resumed
from pytest_aecbench.errors import ContextExceeded, Refused, RequestRejected
from pytest_aecbench.providers import Message, Text
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from pytest_aecbench.agents.rlm.link import CellEnd, Repl
    from pytest_aecbench.agents.rlm.models import Models, Place
    from pytest_aecbench.providers.calls import Call

__all__ = ["Compaction"]

# A token is at least about so many characters, so that the summary's own request fits.
_CHARS_PER_TOKEN = 2


@dataclass(slots=True)
class Compaction:
    """Watches how full the context is; ``context_limit`` is that of the task or of the agent."""

    models: Models
    context_limit: int
    is_due: bool = False
    is_fresh: bool = False
    count: int = 0

    def look(self, call: Call) -> bool:
        """Note how full the context was; return whether it is too full right after a compaction."""
        usage, execution = call.reply.usage, self.models.config.execution
        share = usage.total / self.context_limit
        self.is_due = share > execution.compaction_threshold_pct
        is_above = self.is_fresh and share > execution.hard_ceiling_pct
        self.is_fresh = False
        return is_above

    def compact(
        self, messages: list[Message], asked: str, repl: Repl, last: CellEnd, place: Place
    ) -> None:
        """Replace a conversation by its task, word for word, and a summary of the rest.

        All of it goes into the REPL's variable ``history``.
        """
        told = [
            {"role": message.role, "content": "\n".join(message_lines(message, None))}
            for message in messages
        ]
        repl.history += told
        repl.tell_history()
        shown = "\n\n".join(line for message in messages[1:] for line in message_lines(message))
        shown = both_ends(shown, self.context_limit * _CHARS_PER_TOKEN // 2)
        prompt = f"The task:\n\n{asked}\n\nThe conversation:\n\n{shown}"
        try:
            model = self.models.config.execution.compaction_model
            call = self.models.ask("compaction", COMPACTION, prompt, place, model=model)
            summary = call.reply.message.text or "(the summary is empty)"
        except (ContextExceeded, Refused, RequestRejected) as error:
            summary = f"(there is no summary: {error})"
        self.count += 1
        self.is_due, self.is_fresh = False, True
        resume = resumed(summary, last.variables, last.notes)
        messages[:] = [Message("user", (Text(asked), Text(resume)))]
