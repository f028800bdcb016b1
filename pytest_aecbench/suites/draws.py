"""Draws without a stream: each value depends only on its own key, so nothing shifts another."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_aecbench.documents.problems import shown
from pytest_aecbench.suites.engine import EngineError, RejectedError
from pytest_aecbench.suites.grid import LARGEST, decimal
from pytest_aecbench.suites.template import PLAIN, is_followed, looked_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.suites.schema import Value
    from pytest_aecbench.suites.template import Level, Params, Template

__all__ = ["SPLITS", "Draw", "Key", "draw", "params_digest", "recomputed"]

FORMAT = "aecgen1"
SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class Key:
    """The place of an instance: equal keys give equal draws."""

    template: str
    major: str
    seed: int
    split: str
    index: int
    attempt: int = 0

    def at(self, attempt: int) -> Key:
        """Return the key of another attempt."""
        return replace(self, attempt=attempt)

    def pick(self, what: str, size: int) -> int:
        """Return a number from 0 to below ``size`` that only depends on the key and ``what``."""
        parts = (FORMAT, self.template, self.major, self.seed, self.split, self.index)
        text = "|".join(map(str, (*parts, self.attempt, what)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % size

    def __str__(self) -> str:
        return f"{self.template}|{self.major}|{self.seed}|{self.split}|{self.index}"


@dataclass(frozen=True, slots=True)
class Draw:
    """The parameters of one attempt, and the scenario that they are drawn for."""

    params: Params
    archetype: str
    site: str


def draw(template: Template, level: Level, key: Key) -> Draw:
    """Return the parameters that belong to the key.

    Raises:
        RejectedError: a value that follows from others is not allowed.
        EngineError: a value does not follow from others.

    """
    # A name with a slash is never a parameter's.
    archetype = level.archetypes[key.pick("/archetype", len(level.archetypes))]
    sites = () if archetype == PLAIN else template.table.archetypes[archetype].site_contexts
    site = sites[key.pick("/site", len(sites))] if sites else ""
    grids = template.grids[level.name, archetype]
    params: Params = {}
    for name in level.params:
        if is_followed(template.params[name], template.data):
            params[name] = _followed(template, name, params)
            if name in grids and not grids[name].has(params[name]):
                raise RejectedError(f"{name} outside its values")
        else:
            grid = grids[name]
            params[name] = grid.at(key.pick(name, grid.size))
    return Draw(params, archetype, site)


def _followed(template: Template, name: str, params: Mapping[str, Value]) -> Value:
    derive = template.params[name].derive
    assert derive is not None
    if derive.rule is not None:
        return recomputed(template, name, params)
    key = str(derive.key)
    wanted = derive.row if derive.row is not None else template.shown(key, params[key])
    try:
        cell = looked_up(template.data[str(derive.file)], derive, wanted)
        return template.value(name, cell)
    except ValueError as error:
        raise EngineError(str(error)) from None


def recomputed(template: Template, name: str, params: Mapping[str, Any]) -> float:
    """Return the value of a formula, on the parameter's grid of decimals, or raise EngineError."""
    param, rule = template.params[name], template.formulas[name]
    assert param.step is not None
    step, exact = decimal(param.step), rule.of(params)
    if not isinstance(exact, (int, float)) or not abs(exact) <= LARGEST:
        raise EngineError(f"the rule {rule.text!r} gives {shown(exact)}, must give a number")
    return float((decimal(float(exact)) / step).to_integral_value() * step)


def params_digest(template_id: str, params: Mapping[str, Value]) -> str:
    """Return the digest by which two instances with the same parameters are the same."""
    content = json.dumps([template_id, params], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()
