"""Read ATIF, the trajectory format of Harbor's viewers, as entries of a trajectory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.trajectory import Entry
from pytest_aecbench.host.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MAX_BYTES", "parse_atif", "read_atif"]

MAX_BYTES = 64 << 20
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}
_COUNTS = {
    "prompt_tokens": "tokens_in",
    "completion_tokens": "tokens_out",
    "cached_tokens": "tokens_cache_read",
}


def read_atif(path: Path) -> Iterator[Entry]:
    """Yield the entries of a ``trajectory.json`` of version 1; unknown keys are ignored.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not ATIF of version 1.

    """
    yield from parse_atif(read_regular(path, MAX_BYTES, follow=False))


def parse_atif(text: bytes) -> Iterator[Entry]:
    """Yield the entries of such a file's text; raise ValueError as ``read_atif`` does."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, str) or not version.startswith("ATIF-v1."):
        raise ValueError("is not ATIF of version 1")
    turn = 0
    for step in data.get("steps") or ():
        if isinstance(step, dict) and step.get("source") in _ROLES:
            turn += step["source"] == "agent"
            yield from _step(step, turn)
    if isinstance(following := data.get("continued_trajectory_ref"), str):
        yield Entry("system", metadata={"link": f"continued in {following}"})


def _step(step: Mapping[str, Any], turn: int) -> Iterator[Entry]:
    is_agent = step["source"] == "agent"
    yield Entry(
        _ROLES[step["source"]],  # type: ignore[arg-type]  # these are roles
        _text(step.get("message")),
        turn=turn if is_agent else None,
        duration_ms=_duration_ms(step),
        metadata=_metadata(step),
        timestamp=step["timestamp"] if isinstance(step.get("timestamp"), str) else None,
    )
    for call in _dicts(step.get("tool_calls")):
        arguments = call.get("arguments")
        yield Entry(
            "tool_call",
            turn=turn,
            call_id=str(call.get("tool_call_id") or ""),
            tool_name=str(call.get("function_name") or ""),
            arguments=arguments if isinstance(arguments, dict) else None,
        )
    for result in _dicts(_dict(step.get("observation")).get("results")):
        extra = _dict(result.get("extra"))
        exit_code = extra.get("exit_code")
        yield Entry(
            "tool_result",
            _text(result.get("content")),
            turn=turn,
            call_id=str(result.get("source_call_id") or ""),
            exit_code=exit_code if isinstance(exit_code, int) else None,
            duration_ms=_duration_ms(result),
            metadata={**extra, **_subagents(result)},
        )


def _metadata(step: Mapping[str, Any]) -> dict[str, Any]:
    metrics = _dict(step.get("metrics"))
    found = {ours: metrics.get(theirs) for theirs, ours in _COUNTS.items()}
    if isinstance(found["tokens_in"], int) and isinstance(found["tokens_cache_read"], int):
        found["tokens_in"] -= found["tokens_cache_read"]  # ours are without those of the cache
    found["cost_usd"] = metrics.get("cost_usd")
    known = {name: count for name, count in found.items() if isinstance(count, (int, float))}
    for theirs, ours in (("model_name", "model"), ("reasoning_content", "reasoning")):
        if isinstance(step.get(theirs), str):
            known[ours] = step[theirs]
    return known


def _subagents(result: Mapping[str, Any]) -> dict[str, str]:
    references = [
        str(one.get("trajectory_path") or one.get("session_id") or one.get("trajectory_id"))
        for one in _dicts(result.get("subagent_trajectory_ref"))
    ]
    return {"link": f"subagent: {', '.join(references)}"} if references else {}


def _duration_ms(part: Mapping[str, Any]) -> int | None:
    found = _dict(part.get("extra")).get("duration_ms")
    return found if isinstance(found, int) else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(content: object) -> str:
    """Return a message's text; of parts that are not text, what they are."""
    if isinstance(content, str):
        return content
    parts = _dicts(content)
    return "\n".join(
        str(part["text"]) if isinstance(part.get("text"), str) else f"[{part.get('type')}]"
        for part in parts
    )
