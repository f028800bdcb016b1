"""Lines about a report after each cell: how far it is, and a nudge where it stands still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from pytest_aecbench.agents.rlm.link import CellEnd

__all__ = ["Nudges"]

# Turns without any section after which the model is told to begin, and is told so again.
_GENTLE_TURNS = 10
_STRONG_TURNS = 20
# Turns without a further section after which it is reminded of those that it can fill.
_STILL_TURNS = 3


@dataclass(slots=True)
class Nudges:
    """Remembers when the last section was filled, and the compactions that were told of."""

    _most: int = 0
    _since: int = 0
    _compactions: int = 0

    def footer(self, end: CellEnd, turn: int, compactions: int) -> str:
        """Return one line about the report of a cell's end, in the given turn."""
        progress = end.progress
        assert progress is not None
        done = len(progress.filled)
        if done > self._most:
            self._most, self._since = done, turn
        state = f"{done} of {progress.total} sections filled"
        unlocked = ", ".join(progress.unlocked) or "none"
        still = turn - self._since
        if compactions > self._compactions:
            self._compactions = compactions
            notes = counted(len(end.notes), "note")
            return (
                f"[the conversation was shortened, the REPL has everything: {state}, {notes}; "
                f"next: {unlocked}]"
            )
        if done == progress.total:
            return f"[{state}; SUBMIT() writes the report]"
        if not done and turn >= _STRONG_TURNS:
            return (
                f"[{state} after {turn} turns; stop reading and FILL one now with what you know: "
                f"{unlocked}]"
            )
        if not done and turn >= _GENTLE_TURNS:
            return f"[{state} after {turn} turns; begin to FILL: {unlocked}]"
        if still >= _STILL_TURNS:
            return f"[{state}, none in the last {still} turns; can be filled now: {unlocked}]"
        return f"[{state}; can be filled now: {unlocked}]"
