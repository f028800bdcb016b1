"""Worked examples of a template: the engine must reproduce each of their printed digits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.suites.engine import EngineError, RejectedError, deadline
from pytest_aecbench.suites.grid import decimal, places
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.suites.schema import ExampleTable, Value
    from pytest_aecbench.suites.template import Template

__all__ = ["agrees", "check_examples"]

AGREEMENT = 1e-9
_SECONDS = 10


def check_examples(template: Template) -> None:
    """Raise SettingsError for an example that ``compute`` or ``solve`` does not reproduce."""
    for index, example in enumerate(template.table.examples):
        where = f"{shown_path(template.path / 'params.toml')}: examples.{index}"
        try:
            with deadline(_SECONDS, f"{where}: compute"):
                _check(template, example)
        except (ValueError, EngineError, RejectedError) as error:
            raise SettingsError(f"{where}: {error}; correct the example or the engine") from None


def _check(template: Template, example: ExampleTable) -> None:
    params = {name: _typed(template, name, value) for name, value in example.params.items()}
    computed = template.engine.call("compute", params)
    for name, printed in example.outputs.items():
        if name not in template.outputs:
            right = did_you_mean(name, template.outputs)
            raise ValueError(f"outputs.{name} is not one of the outputs, {right}")
        if not isinstance(computed, dict) or name not in computed:
            raise ValueError(f"compute returns no {name!r}")
        if not _prints(computed[name], printed):
            raise ValueError(f"outputs.{name} is {printed!r}, but compute gives {computed[name]!r}")
    if template.engine.has("solve") and not agrees(template.engine.call("solve", params), computed):
        raise ValueError("solve and compute do not agree")


def _typed(template: Template, name: str, value: Value) -> Value:
    if name not in template.params:
        raise ValueError(f"params.{name} is not a parameter, {did_you_mean(name, template.params)}")
    param = template.params[name]
    is_float = param.type == "float" or any(isinstance(v, float) for v in param.values or ())
    return float(value) if is_float else value


def _prints(computed: object, printed: Value) -> bool:
    """Return whether the result, rounded as the example is, is what the example says."""
    if isinstance(printed, (bool, str)) or not isinstance(computed, (int, float)):
        return computed == printed and type(computed) is type(printed)
    digits = places(decimal(printed)) if isinstance(printed, float) else 0
    return abs(computed - printed) <= 0.5000001 * float(f"1e-{digits}")


def agrees(found: object, computed: Mapping[str, object]) -> bool:
    """Return whether two ways gave the same results, as far as both gave any."""
    if not isinstance(found, dict) or not found:
        return False
    return all(name in computed and _same(value, computed[name]) for name, value in found.items())


def _same(one: object, other: object) -> bool:
    if isinstance(one, (bool, str)) or isinstance(other, (bool, str)):
        return one == other and type(one) is type(other)
    if not isinstance(one, (int, float)) or not isinstance(other, (int, float)):
        return False
    return math.isclose(one, other, rel_tol=AGREEMENT, abs_tol=AGREEMENT)
