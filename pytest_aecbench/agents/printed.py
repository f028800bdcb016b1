"""Usage that a program prints: JSON, or lines of JSON, with tokens, cost and turns.

Programs call the same numbers by different names; the names below are those of Anthropic, OpenAI,
litellm and of our own records.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_aecbench.providers import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Reading", "printed_objects", "read_printed", "read_usage"]

_COSTS = ("cost_usd", "total_cost_usd", "costUSD")
_TURNS = ("turns", "num_turns")
_INPUT = ("tokens_in", "input_tokens", "prompt_tokens")
_OUTPUT = ("tokens_out", "output_tokens", "completion_tokens")
# Without these, the number of input tokens includes those of the cache, as OpenAI counts.
_APART_READ = ("tokens_cache_read", "cache_read_input_tokens")
_APART_WRITTEN = ("tokens_cache_write", "cache_creation_input_tokens")
_WITHIN_READ = ("cached_input_tokens", "cached_tokens")
_WITHIN_WRITTEN = ("cache_write_input_tokens", "cache_creation_tokens")
_REASONING = ("tokens_reasoning", "reasoning_output_tokens", "reasoning_tokens", "thinking_tokens")
_DETAILS = (
    "input_tokens_details",
    "output_tokens_details",
    "prompt_tokens_details",
    "completion_tokens_details",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The use of a model, as a program's output states it; None is unknown."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    turns: int | None = None


def read_printed(text: str) -> Reading:
    """Return the usage, the cost and the turns that were printed last, each by itself."""
    usage, cost_usd, turns = Usage(), None, None
    for printed in printed_objects(text):
        counted = printed.get("usage", printed)
        found = read_usage(counted) if isinstance(counted, dict) else Usage()
        usage = found if found != Usage() else usage
        cost = _number(printed, _COSTS)
        cost_usd = cost_usd if cost is None else cost
        count = _count(printed, _TURNS)
        turns = turns if count is None else count
    return Reading(usage, cost_usd, turns)


def printed_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in ``text``: the whole of it, or lines among others."""
    whole = _loaded(text)
    if isinstance(whole, dict):
        yield whole
        return
    for line in text.splitlines():
        if line.lstrip().startswith("{") and isinstance(found := _loaded(line), dict):
            yield found


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_usage(given: Mapping[str, Any]) -> Usage:
    """Return the tokens that ``given`` counts; input without what the cache read or kept."""
    details = [given[name] for name in _DETAILS if isinstance(given.get(name), dict)]
    counts = {name: value for one in (*details, given) for name, value in one.items()}
    total = _count(counts, _INPUT)
    is_apart = "prompt_tokens" not in given and any(name in given for name in _APART_READ)
    read = _count(counts, _APART_READ if is_apart else (*_WITHIN_READ, *_APART_READ))
    written = _count(counts, _APART_WRITTEN if is_apart else (*_WITHIN_WRITTEN, *_APART_WRITTEN))
    if total is not None and not is_apart:
        total = max(0, total - (read or 0) - (written or 0))
    return Usage(total, _count(counts, _OUTPUT), read, written, _count(counts, _REASONING))


def _number(given: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = given.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value) if math.isfinite(value) and value >= 0 else None
    return None


def _count(given: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    number = _number(given, names)
    return None if number is None else int(number)
