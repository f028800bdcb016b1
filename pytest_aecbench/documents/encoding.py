"""JSON that every reader takes, of data that people, models and programs gave us."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["encoded", "finite_json"]


def encoded(data: object, **options: Any) -> bytes:
    """Return data as JSON in UTF-8, with text for numbers that JSON has not, such as NaN.

    ``options`` are those of ``json.dumps``.
    """
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, **options)
    except ValueError:
        text = json.dumps(_finite(data), ensure_ascii=False, **options)
    return text.encode("utf-8", "replace")


def finite_json(text: str) -> Any:
    """Read JSON; raise ValueError also for the numbers that only Python takes for JSON."""
    return json.loads(text, parse_constant=_refused, parse_float=_finite_float)


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
