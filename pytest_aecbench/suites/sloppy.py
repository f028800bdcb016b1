"""A sloppy but right solver: an engine that rounds every intermediate result to four digits."""

from __future__ import annotations

import ast
from typing import Any

from pytest_aecbench.suites.engine import Engine, load_engine

__all__ = ["sloppy_engine"]

DIGITS = 4
_ROUND = "sloppily_rounded"
_SOURCE = f"""

def {_ROUND}(value):
    if isinstance(value, float) and value and math.isfinite(value):
        return float(("%.{DIGITS}g") % value)
    if isinstance(value, tuple):
        return tuple({_ROUND}(one) for one in value)
    if isinstance(value, dict):
        return {{name: {_ROUND}(one) for name, one in value.items()}}
    return value
"""


class _Rounding(ast.NodeTransformer):
    """Round what is assigned and returned, but not within loops, which would not converge."""

    def visit_For(self, node: ast.For) -> ast.For:
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        return ast.Assign(node.targets, _wrapped(node.value))

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.Return(_wrapped(node.value) if node.value else None)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node


def _wrapped(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(_ROUND, ast.Load()), [value], [])


def sloppy_engine(engine: Engine) -> Engine:
    """Return an engine that computes by the same method, with four digits."""
    tree = ast.parse(engine.source)
    rounding: Any = _Rounding()
    body = [
        rounding.visit(node) if isinstance(node, ast.FunctionDef) else node
        for node in tree.body
        if getattr(node, "name", "") != "solve"
    ]
    tree = ast.fix_missing_locations(ast.Module(body, []))
    return load_engine(f"{ast.unparse(tree)}\nimport math\n{_SOURCE}", "engine.py")
