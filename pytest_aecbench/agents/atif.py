"""ATIF, the trajectory format of Harbor's viewers: make it from a ``trajectory.jsonl``.

A reply of the model, its tool calls and their results are one step. Tool calls that no reply asked
for are a step of their own, with no call to a model. Calls to models that a tool made come after
the step of that tool; their ``extra`` says what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.trajectory import FILE, read_trajectory
from pytest_aecbench.documents.encoding import encoded
from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.files import whole
from pytest_aecbench.providers import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_aecbench.agents.trajectory import Entry
    from pytest_aecbench.providers import ToolSpec

__all__ = ["ATIF_FILE", "VERSION", "write_atif"]

ATIF_FILE = "trajectory.json"
VERSION = "ATIF-v1.7"

# Metadata of a reply that has a place of its own in a step; the rest is its ``extra``.
_PLACED = ("cost_usd", "model", "reasoning", "reasoning_effort", *Usage.__dataclass_fields__)


def write_atif(
    directory: Path,
    agent_name: str,
    version: str,
    model: str | None = None,
    *,
    session_id: str | None = None,
    tools: Sequence[ToolSpec] = (),
    extra: Mapping[str, Any] | None = None,
) -> Path | None:
    """Write the ``trajectory.json`` of the ``trajectory.jsonl`` in a directory; return its path.

    Only one step at a time is in memory. Without entries there is nothing to write, because ATIF
    asks for a step.

    Raises:
        LedgerError: a file cannot be read or written.

    """
    agent = _agent(agent_name, version, model, tools, extra)
    head = {"session_id": session_id, "trajectory_id": session_id, "agent": agent}
    try:
        steps = _steps(read_trajectory(directory / FILE))
        first = next(steps, None)
        if first is None:
            return None
        path = directory / ATIF_FILE
        with whole(path, durable=False) as file:
            file.writelines(
                _document({"schema_version": VERSION, **_without_none(head)}, first, steps)
            )
    except OSError as error:
        raise LedgerError(
            f"{directory / ATIF_FILE}: cannot be written, {error.strerror}; the trajectory needs a "
            "directory that can be written and has space left"
        ) from None
    return path


def _agent(
    name: str,
    version: str,
    model: str | None,
    tools: Sequence[ToolSpec],
    extra: Mapping[str, Any] | None,
) -> dict[str, Any]:
    definitions = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]
    agent = {"name": name, "version": version, "model_name": model}
    return _without_none(
        {**agent, "tool_definitions": definitions or None, "extra": dict(extra or {}) or None}
    )


def _document(
    head: Mapping[str, Any], first: Mapping[str, Any], rest: Iterable[Mapping[str, Any]]
) -> Iterator[bytes]:
    """Yield the document piece by piece, a line per step."""
    totals = _Totals()
    yield _encoded(head)[:-1] + b', "steps": [\n'
    yield _encoded({"step_id": totals.add(first), **first})
    for step in rest:
        yield b",\n" + _encoded({"step_id": totals.add(step), **step})
    yield b'\n], "final_metrics": ' + _encoded(totals.metrics()) + b"}\n"


def _encoded(data: Mapping[str, Any]) -> bytes:
    return encoded(data, default=str)


@dataclass(slots=True)
class _Totals:
    """The sums over the steps so far; the cost is known only if that of every call is."""

    steps: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    has_unknown_cost: bool = False

    def add(self, step: Mapping[str, Any]) -> int:
        """Count a step; return its number."""
        self.steps += 1
        if step.get("llm_call_count"):
            metrics = step.get("metrics", {})
            for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
                if name in metrics:
                    setattr(self, name, (getattr(self, name) or 0) + metrics[name])
            self.has_unknown_cost |= "cost_usd" not in metrics
        return self.steps

    def metrics(self) -> dict[str, Any]:
        """Return the ``final_metrics``."""
        return _without_none(
            {
                "total_prompt_tokens": self.prompt_tokens,
                "total_completion_tokens": self.completion_tokens,
                "total_cached_tokens": self.cached_tokens,
                "total_cost_usd": None if self.has_unknown_cost else self.cost_usd,
                "total_steps": self.steps,
            }
        )


def _steps(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    step: dict[str, Any] | None = None
    beside: list[dict[str, Any]] = []  # calls to models from the tools of the step
    for entry in entries:
        if entry.is_beside:
            _add_beside(beside, entry)
            continue
        is_tool = entry.role in ("tool_call", "tool_result")
        if step is None or not is_tool or step["source"] != "agent":
            if step is not None:
                yield step
            yield from beside
            beside.clear()
            step = _dispatch(entry) if is_tool else _said(entry)
        if entry.role == "tool_call":
            _add_call(step, entry)
        elif entry.role == "tool_result":
            _add_result(step, entry)
    if step is not None:
        yield step
    yield from beside


def _add_beside(steps: list[dict[str, Any]], entry: Entry) -> None:
    """Add a call to a model, or a cell of the model that was called, to the steps of a tool."""
    if entry.role not in ("tool_call", "tool_result"):
        steps.append(_said(entry))
        return
    if not steps:
        steps.append(_dispatch(entry))
    if entry.role == "tool_call":
        _add_call(steps[-1], entry)
        return
    asked = [step for step in steps if entry.call_id in _call_ids(step)]
    _add_result(asked[-1] if asked else steps[-1], entry)


def _call_ids(step: Mapping[str, Any]) -> set[str]:
    return {call["tool_call_id"] for call in step.get("tool_calls", ())}


def _said(entry: Entry) -> dict[str, Any]:
    """Return the step of a message, without the tools that it may ask for."""
    common = {"timestamp": _timestamp(entry), "message": entry.content}
    rest = {name: value for name, value in entry.metadata.items() if name not in _PLACED}
    times = {"turn": entry.turn, "duration_ms": entry.duration_ms}
    extra = {**rest, **_without_none(times)} or None
    if entry.role != "assistant":
        return _without_none({"source": entry.role, **common, "extra": extra})
    return _without_none(
        {
            "source": "agent",
            **common,
            "model_name": entry.text("model"),
            "reasoning_effort": entry.text("reasoning_effort"),
            "reasoning_content": entry.text("reasoning"),
            "metrics": _metrics(entry),
            "llm_call_count": 1,
            "extra": extra,
        }
    )


def _dispatch(entry: Entry) -> dict[str, Any]:
    """Return the step of tools that the agent used without asking a model."""
    step = {"source": "agent", "timestamp": _timestamp(entry), "message": "", "llm_call_count": 0}
    return _without_none(step)


def _metrics(entry: Entry) -> dict[str, Any] | None:
    usage = entry.usage
    prompt = (usage.tokens_in, usage.tokens_cache_read, usage.tokens_cache_write)
    known = [count for count in prompt if count is not None]
    more = {
        "cache_write_tokens": usage.tokens_cache_write,
        "reasoning_tokens": usage.tokens_reasoning,
    }
    metrics = {
        "prompt_tokens": sum(known) if known else None,
        "completion_tokens": usage.tokens_out,
        "cached_tokens": usage.tokens_cache_read,
        "cost_usd": entry.number("cost_usd"),
        "extra": _without_none(more) or None,
    }
    return _without_none(metrics) or None


def _add_call(step: dict[str, Any], entry: Entry) -> None:
    calls = step.setdefault("tool_calls", [])
    arguments = entry.arguments
    if arguments is None:
        arguments = {} if entry.command is None else {"command": entry.command}
    call = {
        "tool_call_id": entry.call_id or f"unnamed_{len(calls) + 1}",
        "function_name": entry.tool_name or "unknown",
        "arguments": arguments,
        "extra": {**entry.metadata, **({"content": entry.content} if entry.content else {})}
        or None,
    }
    calls.append(_without_none(call))


def _add_result(step: dict[str, Any], entry: Entry) -> None:
    is_known = entry.call_id in _call_ids(step)
    about = {
        "call_id": None if is_known else entry.call_id,
        "exit_code": entry.exit_code,
        "duration_ms": entry.duration_ms,
    }
    result = {
        "source_call_id": entry.call_id if is_known else None,
        "content": entry.content or "".join((entry.stdout or "", entry.stderr or "")),
        "extra": {**entry.metadata, **_without_none(about)} or None,
    }
    step.setdefault("observation", {"results": []})["results"].append(_without_none(result))


def _timestamp(entry: Entry) -> str | None:
    try:
        datetime.fromisoformat(entry.timestamp or "")
    except ValueError:
        return None
    return entry.timestamp


def _without_none(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
