"""Claude's parameters of thinking, which Anthropic and Bedrock share."""

from __future__ import annotations

import re
from typing import Any

from pytest_aecbench.errors import RequestRejected
from pytest_aecbench.text import did_you_mean

__all__ = ["thinking", "version"]

# Since 4.6 models think as much as they see fit, and take an effort instead of a budget.
_ADAPTIVE = (4, 6)
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2})(?!\d))?")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_EFFORTS["max"] = "max"
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576}
_BUDGETS["max"] = 32768
_SMALLEST_BUDGET = 1024


def version(model: str) -> tuple[int, int] | None:
    """Return the version that a model's name says, such as (4, 5)."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def thinking(model: str, effort: str | None, max_tokens: int) -> dict[str, Any]:
    """Return the parameters for an effort of reasoning, as the model takes them.

    Raises:
        RequestRejected: there is no such effort.

    """
    if effort is None:
        return {}
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    if effort not in _EFFORTS:
        right = did_you_mean(effort, ["none", *_EFFORTS])
        raise RequestRejected(f"reasoning_effort: {effort!r} is not known; {right}")
    known = version(model)
    if known is None or known >= _ADAPTIVE:
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": _EFFORTS[effort]}}
    # Thinking counts towards max_tokens, so half of it is left for the answer.
    budget = max(_SMALLEST_BUDGET, min(_BUDGETS[effort], max_tokens // 2))
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}
