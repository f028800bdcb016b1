"""Questions to a process that stays in the sandbox: each is one command, and its answer JSON.

The command reads the question from standard input. It prints a line of JSON with the number and the
size of the answer, then the first piece of it; ``{"do": "more"}`` asks for the next one, because
backends cut long output.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.task_tools import as_line, execute_with_input
from pytest_aecbench.text import encodable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = ["GRACE_SEC", "Exchange", "NoAnswerError"]

# The process answers by the deadline; only one that hangs is stopped.
GRACE_SEC = 10.0
# Halves of characters, of which JSON can escape one alone, and UTF-8 can carry only pairs.
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")


class NoAnswerError(Exception):
    """The process gave no answer that makes sense."""


class Exchange:
    """A process in the sandbox; ``peer`` is its name in messages.

    It sends answers in pieces of ``piece`` characters, and none that is longer than ``most``.
    """

    def __init__(self, sandbox: Sandbox, command: str, peer: str, piece: int, most: int) -> None:
        self._sandbox = sandbox
        self._command = command
        self._peer = peer
        self._piece = piece
        self._most = most

    def ask(self, request: Mapping[str, Any], timeout_sec: float) -> dict[str, Any]:
        """Return the answer to a request, put together from its pieces.

        Raises:
            NoAnswerError: the process is gone, late, or says nothing that makes sense.
            BackendError: the sandbox failed.

        """
        number, size, text = self._exchange(request, timeout_sec)
        while len(text) < size:
            if len(text) % self._piece or not text:
                raise NoAnswerError(f"the {self._peer}'s answer was torn")
            more = {"do": "more", "reply": number, "offset": len(text)}
            text += self._exchange(more, timeout_sec)[2]
        try:
            answer = json.loads(text)
            if _HALVES.search(text):
                answer = json.loads(encodable(json.dumps(answer, ensure_ascii=False)))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise NoAnswerError(f"the {self._peer}'s answer was not JSON")
        return answer

    def _exchange(self, request: Mapping[str, Any], timeout_sec: float) -> tuple[int, int, str]:
        """Return an answer's number, its size and a piece of it."""
        line = as_line(request)
        done = execute_with_input(self._sandbox, self._command, line, timeout_sec + GRACE_SEC)
        if done.timed_out:
            raise NoAnswerError(f"the {self._peer} did not answer in time")
        head, _, piece = done.stdout.partition("\n")
        try:
            about = json.loads(head)
            number, size = int(about["reply"]), int(about["size"])
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            raise NoAnswerError(f"the connection to the {self._peer} is lost") from None
        if size > self._most:
            raise NoAnswerError(f"the {self._peer}'s answer is too long")
        return number, size, piece
