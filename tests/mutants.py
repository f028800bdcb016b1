"""Mutants: small mistakes put into the modules whose mistakes cost most, which tests must catch.

`python -m tests.mutants` tries some of each module's mutants on copies of the project, prints a
table, and fails if too few are caught. Arguments name modules; `--most 0` tries every mutant.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import Queue

_ROOT = Path(__file__).parents[1]
_EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
_ENOUGH = 0.95

# The tests that have to notice. Runs of pytest are costly, so these modules name few.
TESTS = {
    "reports/statistics": "tests/unit/test_statistics.py",
    "reports/scores": "tests/unit/test_statistics.py tests/unit/test_gates.py",
    "reports/paired": "tests/unit/test_paired.py",
    "reports/comparison": "tests/unit/test_comparison.py",
    "reports/gates": "tests/unit/test_gates.py",
    "reports/gate_parser": "tests/unit/test_gates.py",
    "trials/reward": "tests/unit/test_reward.py",
    "ledger/store": "tests/unit/test_ledger.py -k 'not killed and not documented'",
    "ledger/query": "tests/unit/test_query.py",
    "ledger/identity": "tests/unit/test_identity.py",
    "ledger/journal": "tests/unit/test_journal.py",
    "host/heartbeat": "tests/unit/test_heartbeat.py tests/unit/test_ownership.py",
    "host/owner": "tests/unit/test_ownership.py",
    "host/runs": "tests/unit/test_leases.py",
    "host/slots": "tests/unit/test_slots.py",
    "plugin/retries": "tests/plugin/test_retries.py tests/plugin/test_broken_sandboxes.py"
    " -k 'tried or number or delays or finishes or lost'",
    "trials/stages": "tests/unit/test_stages.py",
}

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A module's source with one mistake."""

    module: str
    number: int
    line: str
    before: str
    after: str
    source: str
    place: int = 1

    @property
    def name(self) -> str:
        """The mutant in words, the same after lines elsewhere have moved."""
        nth = f" ({self.place})" if self.place > 1 else ""
        return f"{self.module} | {self.line} | {self.before} -> {self.after}{nth}"

    @property
    def rank(self) -> str:
        """Orders mutants at random, but always alike."""
        return hashlib.sha256(self.name.encode()).hexdigest()


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Yield the mutants of a module."""
    seen: Counter[str] = Counter()
    for node in _mutable(ast.parse(source)):
        for changed in _mistakes(node):
            before, after = ast.get_source_segment(source, node), ast.unparse(changed)
            if before is not None and after != ast.unparse(node):
                text = f"({after})" if isinstance(node, ast.expr) else after
                mutant = Mutant(
                    module,
                    node.lineno,
                    source.splitlines()[node.lineno - 1].strip(),
                    " ".join(before.split()),
                    " ".join(after.split()),
                    _replaced(source, node, text),
                )
                seen[mutant.name] += 1
                yield replace(mutant, place=seen[mutant.name])


def _mutable(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the statements and expressions that do something when the module is used."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_idle(child):
                continue
            if isinstance(child, (ast.expr, ast.stmt)):
                yield child
            # Parts of a formatted string have no positions of their own before Python 3.12.
            if not isinstance(child, ast.JoinedStr):
                yield from _mutable(child)


def _is_idle(node: ast.AST) -> bool:
    """Return whether this is a docstring, an import, for type checkers or for bugs alone."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict"  # of zip, where lengths are known to be the same
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _mistakes(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    """Yield what a careless author might have written instead."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                operators = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                yield ast.Compare(node.left, operators, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        if not any(
            isinstance(side, (ast.Constant, ast.JoinedStr)) and _is_text(side)
            for side in (node.left, node.right)
        ):
            yield ast.BinOp(node.left, _OPERATIONS[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node)
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in _SWAPPED:
            yield ast.Call(ast.Name(_SWAPPED[node.func.id]), node.args, node.keywords)
    elif isinstance(node, ast.Return):
        if node.value is not None and not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
    elif isinstance(node, (ast.Expr, ast.Raise, ast.AugAssign, ast.Delete)):
        yield ast.Pass()
    elif isinstance(node, (ast.Break, ast.Continue)):
        yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()
    elif isinstance(node, (ast.If, ast.While)) and isinstance(
        node.test, (ast.Name, ast.Call, ast.Attribute)
    ):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield changed


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def _other_constants(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1)


def _replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    """Return the source with another text in a node's place."""
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    indented = text.replace("\n", "\n" + " " * node.col_offset)
    raw = source.encode()
    return (raw[:start] + indented.encode() + raw[end:]).decode()


class Laboratory:
    """Copies of the project, on which tests are run with a mutant in place."""

    def __init__(self, home: Path, copies: int) -> None:
        self._free: Queue[Path] = Queue()
        home.chmod(0o755)  # some tests run as another user
        for number in range(copies):
            place = home / str(number)
            copy_project(place)
            self._free.put(place)
        self._limits: dict[str, float] = {}

    def measure(self, module: str) -> None:
        """Raise unless the module's tests pass as it is; remember how long they take."""
        started = time.monotonic()
        if self._is_caught(module, (source_of(_ROOT, module)).read_text(), 600):
            raise SystemExit(f"{module}: its tests fail without a mutant; mend them first")
        self._limits[module] = 3 * (time.monotonic() - started) + 10

    def is_caught(self, mutant: Mutant) -> bool:
        """Return whether the tests of the mutant's module fail."""
        return self._is_caught(mutant.module, mutant.source, self._limits[mutant.module])

    def _is_caught(self, module: str, source: str, limit: float) -> bool:
        place = self._free.get()
        path = source_of(place, module)
        original = path.read_text()
        try:
            path.write_text(source)
            return is_failing(place, shlex.split(TESTS[module]), limit)
        finally:
            path.write_text(original)
            self._free.put(place)


def copy_project(place: Path) -> None:
    """Copy the project, without what is hidden, to a place that does not exist."""
    shutil.copytree(_ROOT, place, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    # Most of a short run is compiling. A time stamp may not tell a mutant from what it was.
    compileall.compile_dir(
        place, quiet=2, workers=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH
    )


def source_of(root: Path, module: str) -> Path:
    """Return the file of a module of the package."""
    return root / "pytest_aecbench" / f"{module}.py"


def is_failing(place: Path, tests: list[str], limit: float) -> bool:
    """Return whether tests fail, or do not end within a limit in seconds."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(place),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "--assert=plain",  # else pytest compiles every module anew
        "HYPOTHESIS_PROFILE": "ci",
    }
    with subprocess.Popen(
        command,
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(limit) != 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return True


def chosen_mutants(module: str, text: str, most: int) -> list[Mutant]:
    """Return mutants with a text in their names, but none that behaves as the original does."""
    listed = equivalents()
    found = mutants(module, source_of(_ROOT, module).read_text())
    wanted = [one for one in found if text in one.name and not is_listed(one, listed)]
    return sorted(wanted, key=lambda one: one.rank)[: most or None]


def is_listed(mutant: Mutant, listed: Collection[str]) -> bool:
    """Return whether the mutant is listed by its name, or with all others of its line."""
    return mutant.name in listed or f"{mutant.module} | {mutant.line}" in listed


def equivalents() -> set[str]:
    """Return the names of mutants that behave as the original does, or as well."""
    lines = _EQUIVALENT.read_text().splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def main() -> int:
    """Try mutants and print a table; return how the process shall end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as reports/gates")
    parser.add_argument("--most", type=int, default=30, help="mutants of a module; 0 is all")
    parser.add_argument("--with", dest="text", default="", help="what their names shall contain")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    unknown = sorted(set(options.modules) - set(TESTS))
    if unknown:
        parser.error(f"{unknown[0]!r} has no tests here; one of {', '.join(TESTS)}")
    table, weak = [], 0
    with (
        tempfile.TemporaryDirectory(prefix="aec-mutants-") as home,
        ThreadPoolExecutor(options.at_once) as pool,
    ):
        laboratory = Laboratory(Path(home), options.at_once)
        for module in options.modules or TESTS:
            laboratory.measure(module)
            chosen = chosen_mutants(module, options.text, options.most)
            caught = 0
            for mutant, is_caught in zip(
                chosen, pool.map(laboratory.is_caught, chosen), strict=True
            ):
                caught += is_caught
                if not is_caught:
                    print(f"not caught: {mutant.number}: {mutant.name}", flush=True)
            share = caught / len(chosen) if chosen else 1.0
            weak += share < _ENOUGH
            table.append(f"{module:22} {caught:4} of {len(chosen):4} caught {share:6.1%}")
    print(*table, sep="\n")
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())
