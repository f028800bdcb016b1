"""Checks that the vendors' formats share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["Malformed", "answered", "check_schema", "keys", "require", "sealed"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Malformed(Exception):  # noqa: N818  (a state)
    """A request that the vendor would answer with 400; ``code`` is OpenAI's."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


def require(holds: object, message: str, code: str | None = None) -> None:
    if not holds:
        raise Malformed(message, code)


def keys(
    value: Any, where: str, needed: Iterable[str], optional: Iterable[str] = ()
) -> Mapping[str, Any]:
    """Return an object that has these keys and no others."""
    require(isinstance(value, dict), f"{where}: Input should be an object")
    for key in needed:
        require(key in value, f"{where}.{key}: Field required")
    for key in set(value) - {*needed, *optional}:
        raise Malformed(f"{where}.{key}: Extra inputs are not permitted")
    return dict(value)


def check_schema(name: Any, schema: Any) -> None:
    require(isinstance(name, str) and _NAME.fullmatch(name), f"tools: {name!r} is not a name")
    require(isinstance(schema, dict) and schema.get("type") == "object", f"{name}: not an object")


def answered(asked: list[str], answers: list[str]) -> None:
    """Check that every tool call of a turn is answered once, right after it."""
    for call_id in answers:
        require(call_id in asked, f"unexpected tool result: {call_id}")
        require(answers.count(call_id) == 1, f"each tool call must have a single result: {call_id}")
    for call_id in asked:
        require(call_id in answers, f"tool call without a result right after it: {call_id}")


def sealed(thinking: str) -> str:
    """Return what proves that some thinking is unchanged."""
    return hashlib.sha256(thinking.encode()).hexdigest()
