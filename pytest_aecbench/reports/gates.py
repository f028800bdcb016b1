"""Gates for CI: whether a run's figures are good enough, as in ``mean>=0.6 and errors<=5%``."""

from __future__ import annotations

import math
import operator
import re
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_aecbench.reports.columns import bounds_text
from pytest_aecbench.reports.results import final_results
from pytest_aecbench.reports.statistics import (
    mean_interval,
    mean_interval_by_task,
    pass_at_k,
    pass_hat_k,
    wilson,
)
from pytest_aecbench.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.statistics import Interval

__all__ = [
    "FILTERS",
    "METRICS",
    "OPERATORS",
    "WORD",
    "Clause",
    "Combination",
    "Condition",
    "Filter",
    "Gate",
    "Not",
    "Verdict",
    "judge_error_rate",
]

WORD = re.compile(r"""[^\s()\[\],=<>"']+""")
METRICS = ("errors", "mean", "min", "pass@K", "pass^K", "trials")
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
}
FILTERS: dict[str, Callable[[TrialResult], str]] = {
    "agent": lambda trial: trial.agent,
    "difficulty": lambda trial: trial.difficulty or "unspecified",
    "domain": lambda trial: trial.domain,
    "task": lambda trial: trial.task_id,
}


# Sums and differences of binary fractions are off by less: 1 - 0.7 is to be no more than 0.3.
_DECIMALS = 9


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a gate, and a line per clause that says why."""

    passed: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the trials that a clause looks at; ``*`` stands for any text."""

    key: str
    value: str

    def __str__(self) -> str:
        if WORD.fullmatch(self.value):
            return f"{self.key}={self.value}"
        quote = "'" if '"' in self.value else '"'
        return f"{self.key}={quote}{self.value}{quote}"

    def admits(self, trial: TrialResult) -> bool:
        """Return whether the trial is one of those asked for."""
        pattern = re.sub(r"[?\[]", r"[\g<0>]", self.value)
        return fnmatchcase(FILTERS[self.key](trial), pattern)


@dataclass(frozen=True, slots=True)
class Clause:
    """One figure and what it must be, for each agent on its own."""

    metric: str
    filters: tuple[Filter, ...]
    operator: str
    needed: float

    def __str__(self) -> str:
        return f"{_labelled(self.metric, self.filters)}{self.operator}{_number_text(self.needed)}"


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: Condition

    def __str__(self) -> str:
        return f"not {_parenthesised(self.part, isinstance(self.part, Combination))}"


@dataclass(frozen=True, slots=True)
class Combination:
    """Conditions joined by ``and`` or ``or``."""

    word: str
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(
            _parenthesised(
                part, isinstance(part, Combination) and (self.word, part.word) != ("or", "and")
            )
            for part in self.parts
        )


Condition: TypeAlias = "Clause | Not | Combination"


def _parenthesised(condition: Condition, needed: bool) -> str:
    return f"({condition})" if needed else str(condition)


def _labelled(metric: str, filters: Sequence[Filter]) -> str:
    return f"{metric}[{','.join(map(str, filters))}]" if filters else metric


def _number_text(value: float) -> str:
    return f"{value:.{_DECIMALS}f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on a run's results; its text is what ``parse_gate`` reads."""

    condition: Condition

    def __str__(self) -> str:
        return str(self.condition)

    def judge(self, results: Sequence[TrialResult]) -> Verdict:
        """Return whether the results pass, over every task and each trial's final attempt."""
        lines: list[str] = []
        passed = _holds(self.condition, final_results(results), lines)
        return Verdict(passed, tuple(lines))


def judge_error_rate(results: Sequence[TrialResult], maximum: float) -> Verdict:
    """Return whether each agent's share of trials that ended in an error is at most ``maximum``."""
    return Gate(Clause("errors", (), "<=", round(maximum, _DECIMALS))).judge(results)


def _holds(
    condition: Condition, trials: Sequence[TrialResult], lines: list[str], negated: bool = False
) -> bool:
    """Judge every clause, adding its lines.

    A figure that is not known satisfies neither a comparison nor its opposite, hence ``not`` is
    carried down to the comparisons and never turns what is not known into a pass.
    """
    if isinstance(condition, Not):
        return _holds(condition.part, trials, lines, not negated)
    if isinstance(condition, Combination):
        verdicts = [_holds(part, trials, lines, negated) for part in condition.parts]
        return all(verdicts) if (condition.word == "and") != negated else any(verdicts)
    verdicts = []
    for filters, chosen in _selections(condition.filters, trials):
        figure = _figure(condition.metric, chosen)
        verdict = (
            figure.value is not None
            and OPERATORS[condition.operator](figure.value, condition.needed) is not negated
        )
        verdicts.append(verdict)
        lines.append(_line(condition, filters, figure, negated, verdict))
    return all(verdicts)


def _selections(
    filters: tuple[Filter, ...], trials: Sequence[TrialResult]
) -> Iterator[tuple[tuple[Filter, ...], list[TrialResult]]]:
    """Yield what a comparison looks at, an agent at a time: agents are never averaged."""
    of_agent = [one for one in filters if one.key == "agent"]
    others = [one for one in filters if one.key != "agent"]
    agents = sorted({trial.agent for trial in trials if all(one.admits(trial) for one in of_agent)})
    for agent in agents:
        shown = (Filter("agent", agent), *others) if len(agents) > 1 else filters
        of_this = (trial for trial in trials if trial.agent == agent)
        yield shown, [trial for trial in of_this if all(one.admits(trial) for one in others)]
    if not agents:
        yield filters, []


def _line(
    clause: Clause,
    filters: Sequence[Filter],
    figure: _Figure,
    negated: bool,
    verdict: bool,
) -> str:
    needed = clause.needed
    shown = "unknown" if figure.value is None else _figure_text(figure.value, needed)
    line = (
        f"{_labelled(clause.metric, filters)} = {shown} ({figure.basis}), "
        f"needs {'not ' if negated else ''}{clause.operator} {_number_text(needed)}: "
        f"{'holds' if verdict else 'does not hold'}"
    )
    # Names of agents come from outside and must not start a new line.
    return printable(line)


def _figure_text(value: float, needed: float) -> str:
    """Return the value, with as many decimals as show on which side of ``needed`` it is."""
    if isinstance(value, int):
        return str(value)
    side = (value > needed, value == needed)
    texts = (f"{value:.{decimals}f}" for decimals in range(2, _DECIMALS))
    return next(
        (text for text in texts if (float(text) > needed, float(text) == needed) == side),
        repr(value),
    )


class _Figure(NamedTuple):
    """The value of a metric and its basis; None where it is not known."""

    value: float | None
    basis: str


def _figure(metric: str, trials: Sequence[TrialResult]) -> _Figure:
    if not trials:
        return _Figure(None, "no trial")
    if metric == "errors":
        errors = sum(trial.error_cause is not None for trial in trials)
        share = round(errors / len(trials), _DECIMALS)
        return _Figure(share, f"{errors} of {_counted(len(trials), 'trial')}")
    rewards: dict[str, list[float]] = defaultdict(list)
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for trial in trials:
        if trial.reward is not None and trial.passed is not None:
            rewards[trial.task_id].append(trial.reward)
            outcomes[trial.task_id].append(trial.passed)
    if metric == "trials":
        return _Figure(sum(map(len, rewards.values())), f"scored, of {len(trials)}")
    if not rewards:
        return _Figure(None, "no scored trial")
    tasks = len({trial.task_id for trial in trials})
    if metric == "min":
        lowest = min(math.fsum(values) / len(values) for values in rewards.values())
        return _Figure(round(lowest, _DECIMALS), _counted(len(rewards), "task", tasks))
    if metric == "mean":
        return _mean_figure(mean_interval_by_task(rewards), tasks)
    return _pass_figure(metric, list(outcomes.values()), tasks)


def _pass_figure(metric: str, outcomes: Sequence[Sequence[bool]], tasks: int) -> _Figure:
    k = int(metric[len("pass@") :])
    if all(len(of_task) == k == 1 for of_task in outcomes):
        return _mean_figure(wilson(sum(map(sum, outcomes)), len(outcomes)), tasks)
    estimate = pass_at_k if metric.startswith("pass@") else pass_hat_k
    enough = [estimate(len(o), sum(o), k) for o in outcomes if len(o) >= k]
    if not enough:
        needs = f"no task has {k} scored trials; use --aec-repetitions={k} or more"
        return _Figure(None, needs)
    return _mean_figure(mean_interval(enough), tasks)


def _mean_figure(interval: Interval, tasks: int) -> _Figure:
    counted = _counted(interval.n, "task", tasks)
    known = interval.low is not None
    basis = f"95 % interval {bounds_text(interval)}, {counted}" if known else counted
    return _Figure(round(interval.mean, _DECIMALS), basis)


def _counted(n: int, noun: str, of: int | None = None) -> str:
    total = n if of is None else of
    part = f"{n} of " if total != n else ""
    return f"{part}{total} {noun}{'' if total == 1 else 's'}"
