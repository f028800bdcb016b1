"""Values in the JSON of a provider's reply: what is not of the right type raises TypeError."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_aecbench.documents.encoding import finite_json
from pytest_aecbench.providers import ToolCall

if TYPE_CHECKING:
    from pytest_aecbench.providers import Part, Stop

__all__ = [
    "as_object",
    "count",
    "identifier",
    "listed",
    "mapping",
    "string",
    "thoughts",
    "tool_call",
    "turns",
    "why_stopped",
]


def string(value: Any) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a string")
    return value


def mapping(value: Any) -> dict[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} instead of an object")
    return value


def listed(value: Any) -> list[dict[str, Any]]:
    """Return a list of objects."""
    if not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} instead of a list")
    return [mapping(item) for item in value]


def count(values: Any, *path: str) -> int | None:
    """Return a number of tokens, or None where the provider gives none that makes sense."""
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    known = isinstance(values, int) and not isinstance(values, bool) and values >= 0
    return values if known else None


def identifier(value: Any) -> str | None:
    """Return the name of a model or a request, or None where there is none."""
    return value if isinstance(value, str) and value else None


def thoughts(values: Iterable[Any]) -> str:
    """Return the texts among what a provider shows of a model's reasoning."""
    return "\n".join(value for value in values if isinstance(value, str) and value)


def tool_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """Return a tool call whose arguments are an object, or the JSON of one, or neither."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    try:
        # Python reads NaN, which no provider takes back.
        parsed = finite_json(raw or "{}")
    except (RecursionError, ValueError):
        parsed = None
    is_object = isinstance(parsed, dict)
    return ToolCall(
        string(call_id), string(name), parsed if is_object else None, "" if is_object else raw
    )


def as_object(call: ToolCall) -> dict[str, Any]:
    """Return the arguments as providers take them back, also where the model wrote no object."""
    return {"invalid": call.raw} if call.arguments is None else dict(call.arguments)


def why_stopped(reason: Any, reasons: Mapping[str, Stop], parts: Iterable[Part]) -> Stop:
    """Return why the model stopped; a reason without a meaning of its own leaves it to the parts.

    A reply that says it is complete and has tool calls wants them run.
    """
    known = reasons.get(string(reason), "end")
    calls = any(isinstance(part, ToolCall) for part in parts)
    if known in ("end", "tool_calls"):
        return "tool_calls" if calls else "end"
    return known


def turns(messages: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Return messages whose roles alternate: empty ones are left out, neighbours become one."""
    merged: list[dict[str, Any]] = []
    for role, blocks in messages:
        if not blocks:
            continue
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += blocks
        else:
            merged.append({"role": role, "content": list(blocks)})
    return merged
