"""Splitting a text into chunks, without losing a character."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_aecbench.agents.lambda_rlm.planning import SourcePlan

__all__ = ["split"]

# Where a text is best cut: after a paragraph, a line, a word.
_ENDS = (re.compile(r"\n[ \t]*\n+"), re.compile(r"\n"), re.compile(r"\s"))


def split(text: str, plan: SourcePlan) -> list[str]:
    """Return as many chunks of a text as planned; joined they are the text, none is too long."""
    chunks: list[str] = []
    start = 0
    for left in range(plan.leaves, 0, -1):
        rest = len(text) - start
        share = -(-rest // left)
        first = max(1, rest - (left - 1) * plan.tau)
        last = min(plan.tau, rest - (left - 1))
        end = start + _cut(text[start + first - 1 : start + last], share - first) + first
        chunks.append(text[start:end])
        start = end
    return chunks


def _cut(window: str, wanted: int) -> int:
    """Return the index in ``window`` after whose character to cut, near ``wanted``."""
    for end in _ENDS:
        found = [match.end() - 1 for match in end.finditer(window)]
        if found:
            return min(found, key=lambda index: abs(index - wanted))
    return min(wanted, len(window) - 1)
