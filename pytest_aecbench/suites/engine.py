"""A template's ``engine.py``: pure functions of the parameters, checked before they run."""

from __future__ import annotations

import ast
import inspect
import math
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import one_line

__all__ = ["Answer", "Engine", "EngineError", "RejectedError", "deadline", "load_engine"]

Answer: TypeAlias = "dict[str, bool | int | float | str]"

HOOKS = ("compute", "solve", "mistakes", "guards", "files")
# Syntax that the verifier's Python understands, whichever image the task has.
_OLDEST = (3, 8)
# fmt: off
_ALLOWED = (
    ArithmeticError, Exception, IndexError, KeyError, LookupError, OverflowError, ValueError,
    ZeroDivisionError, abs, all, any, bool, dict, divmod, enumerate, filter, float, int, isinstance,
    len, list, map, max, min, next, pow, range, reversed, sorted, str, tuple, zip,
)
# fmt: on
_BUILTINS: dict[str, object] = {one.__name__: one for one in _ALLOWED}
_INSTEAD = {
    "sum": "use math.fsum, because sum differs between versions of Python",
    "round": "return exact results, because the verifier compares them with a tolerance",
    "set": "use a list or a dict, because the order of a set is random",
    "frozenset": "use a tuple, because the order of a set is random",
}
# Attributes that lead from a value to the interpreter; format() can follow them in a text.
_INNER = ("_", "ag_", "co_", "cr_", "f_", "format", "gi_", "tb_")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STATEMENTS = (
    ast.Global,
    ast.Nonlocal,
    ast.AsyncFunctionDef,
    ast.With,
    ast.AsyncWith,
    ast.Delete,
    ast.Set,
    ast.SetComp,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
)


class RejectedError(Exception):
    """A draw that the engine, a constraint or a check does not take; the message is the reason."""


class EngineError(Exception):
    """A mistake in the engine: it raised, or returned something else than an answer."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The functions of an engine, and its source."""

    source: str
    functions: Mapping[str, Callable[..., Any]] = field(repr=False)
    solution: str

    def has(self, name: str) -> bool:
        """Return whether the engine defines this function."""
        return name in self.functions

    def call(self, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call a function of the engine.

        Raises:
            RejectedError: it raised ``Reject``.
            EngineError: it raised anything else, or did not return a dict.

        """
        try:
            result = self.functions[name](**params)
        except Exception as error:
            if type(error).__name__ == "Reject":
                raise RejectedError(str(error) or "rejected by the engine") from None
            what = f"{type(error).__name__}: {one_line(error)}"
            raise EngineError(f"{name} raises {what} for {_shown(params)}") from error
        if not isinstance(result, dict):
            raise EngineError(f"{name} returns {type(result).__name__}, must return a dict")
        return result

    def parameters(self, name: str) -> tuple[set[str], set[str], bool]:
        """Return a function's parameters, those without a default, and whether it takes any."""
        found = inspect.signature(self.functions[name]).parameters.values()
        named = {one.name for one in found if one.kind is not one.VAR_KEYWORD}
        needed = {one.name for one in found if one.name in named and one.default is one.empty}
        return named, needed, any(one.kind is one.VAR_KEYWORD for one in found)


def _shown(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items())


def load_engine(source: str, where: str) -> Engine:
    """Return the engine of a source text.

    Raises:
        SettingsError: the source is not pure, or lacks ``compute``.

    """
    try:
        tree = ast.parse(source, feature_version=_OLDEST)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        at = f"line {line}: " if line else ""
        what = getattr(error, "msg", None) or one_line(error)
        raise SettingsError(f"{where}: {at}{what}; write Python that 3.8 understands") from None
    if problem := next(_impurities(tree), None):
        raise SettingsError(f"{where}: {problem}")
    namespace = {"__builtins__": _builtins(), "__name__": "engine"}
    try:
        with deadline(5, f"{where}: importing it"):
            exec(compile(source, where, "exec"), namespace)  # noqa: S102  (what templates are)
    except SettingsError:
        raise
    except Exception as error:  # noqa: BLE001  (whatever the author's code raises)
        what = f"{type(error).__name__}: {one_line(error)}"
        raise SettingsError(f"{where}: cannot be imported, {what}; correct it") from None
    functions = {name: namespace[name] for name in HOOKS if callable(namespace.get(name))}
    if "compute" not in functions:
        raise SettingsError(f"{where}: has no compute; add 'def compute(*, ...) -> dict'")
    return Engine(source, functions, _solution(source, tree, where))  # type: ignore[arg-type]


def _builtins() -> dict[str, object]:
    def imported(name: str, *_: object) -> object:
        return {"math": math, "__future__": __import__("__future__")}[name]

    return {**_BUILTINS, "__import__": imported, "__build_class__": __build_class__}


def _impurities(tree: ast.Module) -> Iterator[str]:
    """Yield what makes an engine's results depend on more than its parameters."""
    bound = _bound_names(tree)
    for node in ast.walk(tree):
        at = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules = modules or [alias.name for alias in node.names]
            for module in modules:
                if module not in ("math", "__future__"):
                    yield f"{at}: imports {module!r}; use nothing but math"
        elif isinstance(node, _STATEMENTS):
            yield f"{at}: {type(node).__name__.lower()} is not allowed; write plain functions"
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{at}: an except without a class is not allowed; name what it catches"
        elif isinstance(node, ast.Try) and node.finalbody:
            yield f"{at}: finally is not allowed; write plain functions"
        elif isinstance(node, ast.ClassDef) and node.name != "Reject":
            yield f"{at}: the class {node.name!r} is not allowed; only 'Reject' may be one"
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _SURROGATE.search(node.value)
        ):
            yield f"{at}: half a character cannot be written to a file; use whole characters"
        elif isinstance(node, ast.Attribute) and node.attr.startswith(_INNER):
            yield f"{at}: the attribute {node.attr!r} is not allowed; use math and plain methods"
        elif isinstance(node, ast.Name) and node.id not in bound and node.id not in _BUILTINS:
            right = _INSTEAD.get(node.id, "use arithmetic, math and the plain built-ins")
            yield f"{at}: {node.id!r} is not allowed; {right}"


def _bound_names(tree: ast.Module) -> set[str]:
    bound = {"__name__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return bound


def _solution(source: str, tree: ast.Module, where: str) -> str:
    """Return the source of ``solve`` with everything that it uses, as a function ``solve``.

    An engine without it solves with ``compute``.
    """
    parts = {name: node for node in tree.body for name in _defined(node)}
    if "solve" not in parts:
        return _kept(source, tree, _closure(parts, "compute")) + "\n\nsolve = compute\n"
    used, own = _closure(parts, "solve"), _closure(parts, "compute")
    shared = [n for n in used & own if isinstance(parts.get(n), ast.FunctionDef)]
    if shared:
        raise SettingsError(
            f"{where}: solve and compute share {min(shared)!r}; "
            "let solve find the result in another way, with functions of its own"
        )
    return _kept(source, tree, used)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    names = (name for target in targets for name in ast.walk(target))
    return [name.id for name in names if isinstance(name, ast.Name)]


def _closure(parts: Mapping[str, ast.stmt], start: str) -> set[str]:
    """Return the names that ``start`` uses, directly or not."""
    used: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name in used or name not in parts:
            continue
        used.add(name)
        pending += [one.id for one in ast.walk(parts[name]) if isinstance(one, ast.Name)]
    return used


def _kept(source: str, tree: ast.Module, names: set[str]) -> str:
    """Return the lines that define these names, with all imports, as they are written."""
    lines = source.splitlines()
    imports, definitions = [], []
    for node in tree.body:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(text)
        elif not names.isdisjoint(_defined(node)):
            definitions.append(text)
    return "\n\n\n".join(["\n".join(imports), *definitions]).lstrip() + "\n"


class _OverdueError(BaseException):
    """The end of a deadline; not an Exception, so that no handler of an engine catches it."""


@contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """Raise SettingsError in code that takes longer; only the main thread can be stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _OverdueError

    before = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _OverdueError:
        raise SettingsError(f"{what} takes more than {seconds:g} s; shorten its loops") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
