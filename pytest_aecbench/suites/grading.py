"""The fields of an answer as the verifier grades them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_aecbench import verify
from pytest_aecbench.suites.engine import EngineError, RejectedError
from pytest_aecbench.suites.grid import LARGEST

if TYPE_CHECKING:
    from pytest_aecbench.suites.engine import Answer
    from pytest_aecbench.suites.schema import OutputTable
    from pytest_aecbench.suites.template import Template

__all__ = ["allowed", "checked_answer", "field_source", "fields_of", "known_unit", "reward_of"]


def checked_answer(template: Template, answer: Mapping[str, Any], asked: Iterable[str]) -> Answer:
    """Return the asked fields of an engine's result.

    Raises:
        EngineError: a field is missing, is not declared, or is of another kind.
        RejectedError: a number is not finite or too near 0 for a relative tolerance.

    """
    for name in answer:
        if name not in template.outputs:
            raise EngineError(f"compute returns {name!r}, which is not one of the outputs")
    checked: Answer = {}
    for name in asked:
        if name not in answer:
            raise EngineError(f"compute returns no {name!r}")
        output = template.outputs[name]
        _check_kind(name, output, answer[name])
        checked[name] = answer[name]
    return checked


_KINDS = {"number": (int, float), "integer": (int,), "flag": (bool,), "choice": (str,)}


def _check_kind(name: str, output: OutputTable, value: object) -> None:
    is_bool = isinstance(value, bool)
    if not isinstance(value, _KINDS[output.type]) or is_bool != (output.type == "flag"):
        kind = type(value).__name__
        raise EngineError(f"compute returns {kind} as {name!r}, must return a {output.type}")
    if output.type == "choice" and value not in output.values:
        raise EngineError(f"compute returns {value!r} as {name!r}, which is not one of its values")
    if isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST:
        raise RejectedError(f"{name} is not finite")
    if output.type == "number":
        assert isinstance(value, (int, float))
        if output.abs is None and abs(value) < output.floor:
            raise RejectedError(f"{name} is too near 0")


def allowed(output: OutputTable, expected: float) -> float:
    """Return how far from the expected number an answer may be."""
    rel = output.rel or output.tolerance or 0.0
    return max(output.abs or 0.0, rel * abs(expected))


def known_unit(unit: str | None) -> str | None:
    """Return the unit if the verifier can convert to it; others are only shown."""
    try:
        verify.Number(1.0, unit=unit)
    except ValueError:
        return None
    return unit


def fields_of(template: Template, truth: Answer) -> dict[str, verify.Field]:
    """Return the fields that the verifier of an instance has."""
    names = {"Number": verify.Number, "Flag": verify.Flag, "Choice": verify.Choice}
    fields = {}
    for name, expected in truth.items():
        kind, options = _field(template.outputs[name])
        values = [options.pop("values")] if "values" in options else []
        fields[name] = names[kind](expected, *values, **options)
    return fields


def _field(output: OutputTable) -> tuple[str, dict[str, Any]]:
    """Return the class of a field and its options."""
    options: dict[str, Any] = {}
    if output.type == "choice":
        options["values"] = list(output.values)
    if output.type == "number":
        rel = output.rel or output.tolerance
        options |= {"rel": rel} if rel else {}
        options |= {"abs": output.abs} if output.abs else {}
        options |= {"unit": output.unit} if known_unit(output.unit) else {}
    options |= {"weight": output.weight} if output.weight != 1 else {}
    options |= {"needs": list(output.needs)} if output.needs else {}
    kind = {"flag": "Flag", "choice": "Choice"}.get(output.type, "Number")
    return kind, options


def field_source(name: str, output: OutputTable) -> str:
    """Return the field as Python source, with the expected value from ``expected``."""
    kind, options = _field(output)
    values = [repr(options.pop("values"))] if "values" in options else []
    rest = (f"{key}={value!r}" for key, value in options.items())
    return f"{kind}({', '.join([f'expected[{name!r}]', *values, *rest])})"


def reward_of(fields: Mapping[str, verify.Field], answer: Mapping[str, object]) -> float:
    """Return what an answer earns."""
    return verify.grade(fields, answer).reward
