"""Figures of a template over many draws, and a line for each problem."""

from __future__ import annotations

import ast
import hashlib
import math
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.engine import EngineError, RejectedError
from pytest_aecbench.suites.generation import key_of
from pytest_aecbench.suites.grading import fields_of, reward_of
from pytest_aecbench.suites.guesses import guesses
from pytest_aecbench.suites.instance import task_files
from pytest_aecbench.suites.loading import load_template
from pytest_aecbench.suites.prompt import Cell
from pytest_aecbench.suites.sampling import READING, Instance, mistaken, sample, varied
from pytest_aecbench.suites.sloppy import sloppy_engine
from pytest_aecbench.tasks.revealed import Expected, found

if TYPE_CHECKING:
    from pytest_aecbench.suites.engine import Answer, Engine
    from pytest_aecbench.suites.template import Template

__all__ = ["Audit", "Row", "audit", "fingerprint", "instances_of"]

MIN_ACCEPTANCE = 0.1
MAX_BASELINE = 0.1
MIN_SLOPPY = 0.995
MIN_SPACE = 2000
FLAGS = (0.3, 0.7)
_SEED = 1


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one level and visibility."""

    difficulty: str
    visibility: str
    acceptance: float
    space: float
    condition: float
    sloppy: float
    mistake: float
    baseline: float
    flags: Mapping[str, float]
    milliseconds: float
    rejected: Mapping[str, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Audit:
    """The rows of a template, and its problems."""

    template: str
    rows: tuple[Row, ...]
    problems: tuple[str, ...]


def audit(
    template: Template, draws: int = 200, progress: Callable[[str], None] = lambda _: None
) -> Audit:
    """Draw instances of every level and visibility, and measure them."""
    rows, problems = [], []
    for level in template.levels.values():
        for visibility in level.visibility:
            progress(f"{level.name}, {visibility}")
            cell = Cell(level.name, visibility, template.tool_modes[0])
            try:
                row, found_problems = _measured(template, cell, draws)
            except SettingsError as error:
                problems.append(str(error))
                continue
            rows.append(row)
            problems += [f"{level.name}, {visibility}: {problem}" for problem in found_problems]
    progress("tools and hash seeds")
    if rows:
        problems += dict.fromkeys(_tool_problems(template))
        problems += _seed_problems(template)
    return Audit(template.id, tuple(rows), tuple(problems))


def instances_of(
    template: Template, cell: Cell, draws: int, rejected: Counter[str] | None = None
) -> list[Instance]:
    """Return that many different instances of one cell."""
    taken: set[str] = set()
    keys = (key_of(template, _SEED, "", index) for index in range(draws))
    return [sample(template, key, cell, taken, rejected=rejected) for key in keys]


def _measured(template: Template, cell: Cell, draws: int) -> tuple[Row, list[str]]:
    rejected: Counter[str] = Counter()
    started = time.perf_counter()
    instances = instances_of(template, cell, draws, rejected)
    seconds = time.perf_counter() - started
    baselines = {name: _earned(instances, answers) for name, answers in guesses(instances)}
    row = Row(
        difficulty=cell.difficulty,
        visibility=cell.visibility,
        acceptance=draws / (draws + sum(rejected.values())),
        space=_space(template, cell.difficulty),
        condition=max(map(_condition, instances)),
        sloppy=_sloppy_share(template, instances),
        mistake=_best_mistake(instances),
        baseline=max(statistics.fmean(rewards) for rewards in baselines.values()),
        flags=_flag_shares(template, instances),
        milliseconds=1000 * seconds / draws,
        rejected=dict(rejected.most_common()),
    )
    return row, [*_row_problems(row), *_baseline_problems(baselines)]


def _row_problems(row: Row) -> Iterator[str]:
    if row.acceptance < MIN_ACCEPTANCE:
        most = ", ".join(f"{reason} {count}" for reason, count in [*row.rejected.items()][:3])
        yield (
            f"only {row.acceptance:.1%} of the draws are accepted, {MIN_ACCEPTANCE:.0%} are needed "
            f"({most}); narrow the ranges towards what is accepted"
        )
    if row.space < MIN_SPACE:
        yield (
            f"there are only {row.space:g} sets of parameters, {MIN_SPACE} are needed; "
            "widen a range or make a step smaller"
        )
    if row.sloppy < MIN_SLOPPY:
        yield (
            f"{1 - row.sloppy:.1%} of the answers with four digits are wrong; "
            "widen a tolerance, or keep away from where digits cancel"
        )
    for name, share in row.flags.items():
        if not FLAGS[0] <= share <= FLAGS[1]:
            yield (
                f"{name} has the same value in {max(share, 1 - share):.0%} of the draws, "
                f"at most {FLAGS[1]:.0%} are allowed; move a range so that it is open"
            )


def _baseline_problems(baselines: Mapping[str, Sequence[float]]) -> Iterator[str]:
    for name, rewards in baselines.items():
        mean, best = statistics.fmean(rewards), max(rewards)
        if mean >= MAX_BASELINE or best >= 1:
            yield (
                f"{name} earns {mean:.2f} on average and {best:.2f} at most; "
                "let guessable fields need a number, or give them less weight"
            )


def _best_mistake(instances: Sequence[Instance]) -> float:
    """Return the most that a named mistake earns."""
    best = 0.0
    for instance in instances:
        fields = fields_of(instance.template, instance.truth)
        wrong = mistaken(instance.template, instance.params, instance.truth)
        best = max([best, *(reward_of(fields, answer) for answer in wrong.values())])
    return best


def _earned(instances: Sequence[Instance], answers: Sequence[Answer]) -> list[float]:
    return [
        reward_of(fields_of(instance.template, instance.truth), answer)
        for instance, answer in zip(instances, answers, strict=True)
    ]


def _condition(instance: Instance) -> float:
    """Return the largest relative change of a number per relative change of an input."""
    worst = 0.0
    for _, changed in varied(instance.template, instance.params, READING):
        answer = instance.template.engine.call("compute", changed)
        for name, expected in instance.truth.items():
            if isinstance(expected, float) and expected:
                worst = max(worst, abs(answer[name] / expected - 1) / READING)
    return worst


def _sloppy_share(template: Template, instances: Sequence[Instance]) -> float:
    engine = sloppy_engine(template.engine)
    right = sum(_is_right(engine, instance) for instance in instances)
    return right / len(instances)


def _is_right(engine: Engine, instance: Instance) -> bool:
    try:
        answer = engine.call("compute", instance.params)
    except (EngineError, RejectedError):
        return False
    return reward_of(fields_of(instance.template, instance.truth), answer) >= 1


def _space(template: Template, difficulty: str) -> float:
    """Return how many sets of parameters a level has, in all its scenarios."""
    return math.fsum(
        math.prod(grid.size for grid in grids.values())
        for (level, _), grids in template.grids.items()
        if level == difficulty
    )


def _flag_shares(template: Template, instances: Sequence[Instance]) -> dict[str, float]:
    """Return how often each flag is true, and each choice has its commonest value."""
    shares = {}
    for name in instances[0].truth:
        kind = template.outputs[name].type
        values = Counter(instance.truth[name] for instance in instances)
        if kind == "flag":
            shares[name] = values[True] / len(instances)
        elif kind == "choice":
            shares[name] = max(values.most_common(1)[0][1] / len(instances), FLAGS[0])
    return shares


def _tool_problems(template: Template) -> Iterator[str]:
    if not template.tools:
        return
    engine = _functions(template.engine.source)
    for name, source in template.tools.items():
        if copied := engine.keys() & _functions(source).keys():
            both = min(engine[one] for one in copied)
            yield f"tools/{name}: contains {both!r} of the engine; give the agent only a part"
    for level in template.levels.values():
        for instance in instances_of(template, Cell(level.name, "all_given", "with-tool"), 2):
            for name, tool in template.table.tools.items():
                yield from _run_tool(instance, name, tool.args)


def _functions(source: str) -> dict[str, str]:
    """Return the names of the functions, by what they do."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return {ast.dump(ast.Module(node.body, [])): node.name for node in nodes}


def _run_tool(instance: Instance, name: str, arguments: Sequence[str]) -> Iterator[str]:
    template = instance.template
    shown = {key: template.shown(key, value) for key, value in instance.params.items()}
    where = f"tools/{name}.py"
    try:
        argv = [argument.format_map(shown) for argument in arguments]
        done = subprocess.run(
            [sys.executable, "-I", template.path / "tools" / f"{name}.py", *argv],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        yield f"{where}: cannot be run with args, {error!r}; correct tools.{name}.args"
        return
    except subprocess.TimeoutExpired:
        yield f"{where}: takes more than 10 s with args; shorten its loops"
        return
    if done.returncode:
        yield f"{where}: ends with {done.returncode} for {' '.join(argv)!r}; correct it"
    expected = [
        Expected(key, float(value))
        for key, value in instance.truth.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    for one, token in found(done.stdout, expected):
        yield f"{where}: prints {token}, the expected {one.name}; let it do a part of the work"


def _seed_problems(template: Template) -> Iterator[str]:
    """Yield a problem if the files depend on Python's hash seed."""
    prints = {_fingerprint_with(seed, template.path) for seed in ("0", "1")}
    if len(prints) > 1:
        yield "engine.py: its results depend on PYTHONHASHSEED; do not rely on an order of texts"


def _fingerprint_with(seed: str, path: Path) -> str:
    code = (
        "import sys, pathlib; from pytest_aecbench.suites.audit import fingerprint; "
        "print(fingerprint(pathlib.Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout or done.stderr


def fingerprint(path: Path, draws: int = 3) -> str:
    """Return a digest of the files of some instances of every cell."""
    template = load_template(path)
    digest = hashlib.sha256()
    for level in template.levels.values():
        for visibility in level.visibility:
            for instance in instances_of(template, Cell(level.name, visibility, "no-tool"), draws):
                for name, text in sorted(task_files(instance).items()):
                    digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()
