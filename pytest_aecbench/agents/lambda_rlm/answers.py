"""Answers of models: facts and reviews, as tools with a JSON schema or as JSON in the text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_aecbench.providers import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_aecbench.providers import Message

__all__ = [
    "GIVE_FACTS",
    "GIVE_REVIEW",
    "BadAnswerError",
    "Extraction",
    "Fact",
    "Review",
    "merged",
    "read_answer",
    "read_extraction",
    "read_review",
]

_STATUSES = ("pass", "needs_reextract", "needs_supplement")
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
_TEXTS = {"type": "array", "items": {"type": "string"}}

GIVE_FACTS = ToolSpec(
    "give_facts",
    "Give what you found: each fact with a short name, its value with its unit, and the words of "
    "the source that say so; and what was asked for but is not there.",
    {
        "type": "object",
        "properties": {
            "facts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "value": {"type": "string"},
                        "quote": {"type": "string"},
                    },
                    "required": ["name", "value", "quote"],
                    "additionalProperties": False,
                },
            },
            "missing": _TEXTS,
        },
        "required": ["facts", "missing"],
        "additionalProperties": False,
    },
)
GIVE_REVIEW = ToolSpec(
    "give_review",
    "Give your judgement: pass, or which sources to read again, or what to supplement.",
    {
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": list(_STATUSES)},
            "gaps": _TEXTS,
            "risks": _TEXTS,
            "reextract_sources": _TEXTS,
            "supplement_guidance": {"type": "string"},
        },
        "required": ["status", "gaps", "risks", "reextract_sources", "supplement_guidance"],
        "additionalProperties": False,
    },
)


class BadAnswerError(Exception):
    """An answer is not what was asked for; the message tells the model why."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a source says."""

    name: str
    value: str
    quote: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the fact for a prompt."""
        return {"name": self.name, "value": self.value, "quote": self.quote}


@dataclass(frozen=True, slots=True)
class Extraction:
    """The facts of a source, or a part of it; ``failures`` say what could not be read."""

    facts: tuple[Fact, ...] = ()
    missing: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the extraction for a prompt."""
        facts = [fact.to_json() for fact in self.facts]
        return {"facts": facts, "missing": list(self.missing)}


@dataclass(frozen=True, slots=True)
class Review:
    """A judgement of what was found for a section."""

    status: str
    gaps: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    reextract_sources: tuple[str, ...] = ()
    supplement_guidance: str = ""


def merged(extractions: Iterable[Extraction], *, failures: tuple[str, ...] = ()) -> Extraction:
    """Return all facts of several extractions, each once."""
    every = list(extractions)
    facts = dict.fromkeys(fact for one in every for fact in one.facts)
    missing = dict.fromkeys(text for one in every for text in one.missing)
    failed = dict.fromkeys((*(text for one in every for text in one.failures), *failures))
    return Extraction(tuple(facts), tuple(missing), tuple(failed))


_T = TypeVar("_T")


def read_answer(message: Message, tool: ToolSpec, read: Callable[[Mapping[str, Any]], _T]) -> _T:
    """Return what a reply answers: the tool's arguments, or JSON in the text."""
    for call in message.tool_calls:
        if call.name == tool.name:
            if call.arguments is None:
                raise BadAnswerError("the arguments are not a JSON object")
            return read(call.arguments)
    fenced = _FENCED.findall(message.text)
    try:
        data = json.loads(fenced[-1] if fenced else message.text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise BadAnswerError(f"there is no call of {tool.name} and no JSON object")
    return read(data)


def read_extraction(data: Mapping[str, Any]) -> Extraction:
    """Return the facts of an answer, or raise BadAnswerError."""
    listed = data.get("facts")
    if not isinstance(listed, list):
        raise BadAnswerError("'facts' has to be a list")
    return Extraction(tuple(map(_fact, listed)), _texts(data, "missing"))


def _fact(data: Any) -> Fact:
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise BadAnswerError("each fact has to be an object with 'name' and 'value'")
    value = data.get("value")
    if value is None:
        raise BadAnswerError(f"the fact {data['name']!r} has no 'value'")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    quote = data.get("quote", "")
    return Fact(data["name"], text, quote if isinstance(quote, str) else "")


def read_review(data: Mapping[str, Any]) -> Review:
    """Return the review of an answer, or raise BadAnswerError."""
    if data.get("status") not in _STATUSES:
        raise BadAnswerError(f"'status' has to be one of {', '.join(map(repr, _STATUSES))}")
    guidance = data.get("supplement_guidance") or ""
    if not isinstance(guidance, str):
        raise BadAnswerError("'supplement_guidance' has to be a string")
    return Review(
        data["status"],
        _texts(data, "gaps"),
        _texts(data, "risks"),
        _texts(data, "reextract_sources"),
        guidance,
    )


def _texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    listed = data.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise BadAnswerError(f"{name!r} has to be a list of strings")
    return tuple(listed)
