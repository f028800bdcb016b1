"""Formulas in ``params.toml``: arithmetic and comparisons of parameters, nothing else."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from pytest_aecbench.suites.engine import EngineError
from pytest_aecbench.text import did_you_mean, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Rule", "parse_rule"]

_ALLOWED = (
    ast.Expression,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
    ast.UAdd,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.Pow,
    ast.Compare,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.In,
    ast.NotIn,
    ast.Tuple,
    ast.List,
    ast.Name,
    ast.Load,
    ast.Constant,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula over parameters."""

    text: str
    names: frozenset[str]
    _code: CodeType = field(repr=False, compare=False)

    def of(self, params: Mapping[str, Any]) -> Any:
        """Return the formula's value, or raise EngineError."""
        try:
            return eval(self._code, {"__builtins__": {}}, dict(params))  # noqa: S307  (checked)
        except (ArithmeticError, MemoryError, TypeError, ValueError) as error:
            shown = {name: params[name] for name in sorted(self.names)}
            raise EngineError(
                f"the rule {self.text!r} fails for {shown}, {one_line(error)}"
            ) from None


def parse_rule(text: str, known: Iterable[str]) -> Rule:
    """Return the formula, or raise a ValueError of one line."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # also nested too deep
        raise ValueError(f"{text!r} is not a formula; write one such as 'a * b <= 20'") from None
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            what = type(node).__name__.lower()
            right = "use numbers, names of parameters, + - * / **, comparisons, and, or, not"
            raise ValueError(f"{text!r} has a {what}; {right}")
        if isinstance(node, ast.Name):
            names.add(node.id)
    known = set(known)
    for name in sorted(names - known):
        raise ValueError(f"{name!r} is not a parameter; {did_you_mean(name, known)}")
    return Rule(text.strip(), frozenset(names), compile(tree, "<rule>", "eval"))
