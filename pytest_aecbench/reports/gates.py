"""Gates for CI: whether a run's figures are good enough, as in ``mean>=0.6 and errors<=5%``."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_aecbench.reports.columns import bounds_text
from pytest_aecbench.reports.results import final_results
from pytest_aecbench.reports.scores import MAX_MISSING, Scores, missing_text
from pytest_aecbench.reports.statistics import DECIMALS, mean_interval, pass_at_k, pass_hat_k
from pytest_aecbench.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_aecbench.reports.results import TrialResult

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
    return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on a run's results; its text is what ``parse_gate`` reads."""

    condition: Condition

    def __str__(self) -> str:
        return str(self.condition)

    def judge(self, results: Sequence[TrialResult], max_missing: float = MAX_MISSING) -> Verdict:
        """Return whether the results pass, over every task and each trial's final attempt.

        A figure of rewards is not known if more than ``max_missing`` of the scores are missing.
        """
        judge = _Judge(final_results(results), max_missing)
        passed = judge.holds(self.condition)
        return Verdict(passed, tuple(judge.lines))


def judge_error_rate(results: Sequence[TrialResult], maximum: float) -> Verdict:
    """Return whether each agent's share of trials that ended in an error is at most ``maximum``."""
    return Gate(Clause("errors", (), "<=", round(maximum, DECIMALS))).judge(results)


class _Judge:
    """Judges conditions on some trials, and has a line for every clause."""

    def __init__(self, trials: Sequence[TrialResult], max_missing: float) -> None:
        self.lines: list[str] = []
        self._trials = trials
        self._max_missing = max_missing

    def holds(self, condition: Condition, negated: bool = False) -> bool:
        """Judge every clause, adding its lines.

        A figure that is not known satisfies neither a comparison nor its opposite, hence ``not`` is
        carried down to the comparisons and never turns what is not known into a pass.
        """
        if isinstance(condition, Not):
            return self.holds(condition.part, not negated)
        if isinstance(condition, Combination):
            verdicts = [self.holds(part, negated) for part in condition.parts]
            return all(verdicts) if (condition.word == "and") != negated else any(verdicts)
        verdicts = []
        for filters, chosen in _selections(condition.filters, self._trials):
            figure = _figure(condition.metric, chosen, self._max_missing)
            verdict = (
                figure.value is not None
                and OPERATORS[condition.operator](figure.value, condition.needed) is not negated
            )
            verdicts.append(verdict)
            self.lines.append(_line(condition, filters, figure, negated, verdict))
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
    texts = (f"{value:.{decimals}f}" for decimals in range(2, DECIMALS))
    return next(
        (text for text in texts if (float(text) > needed, float(text) == needed) == side),
        repr(value),
    )


class _Figure(NamedTuple):
    """The value of a metric and its basis; None where it is not known."""

    value: float | None
    basis: str


def _figure(metric: str, trials: Sequence[TrialResult], max_missing: float) -> _Figure:
    if not trials:
        return _Figure(None, "no trial")
    scores = Scores.of(trials)
    if metric == "errors":
        errors = sum(scores.errors.values())
        share = round(errors / len(trials), DECIMALS)
        return _Figure(share, f"{errors} of {counted(len(trials), 'trial')}")
    if metric == "trials":
        return _Figure(sum(map(len, scores.rewards.values())), f"scored, of {len(trials)}")
    if not scores.rewards:
        return _Figure(None, "no scored trial")
    k = int(metric[len("pass@") :]) if metric.startswith("pass") else 1
    figure = _figure_of_rewards(metric, k, scores)
    if figure.value is not None and (missing := scores.missing(k)) > max_missing:
        known = f"without them {figure.value:.2f}, {figure.basis}"
        return _Figure(None, f"{missing_text(missing, max_missing)}; {known}")
    return figure


def _figure_of_rewards(metric: str, k: int, scores: Scores) -> _Figure:
    if metric == "min":
        lowest = min(map(fmean, scores.rewards.values()))
        return _Figure(round(lowest, DECIMALS), _tasks_text(len(scores.rewards), scores))
    if metric == "mean":
        as_zeros = scores.errors_as_zeros
        more = "" if as_zeros is None else f", {as_zeros:.2f} with errors as zeros"
        return _mean_figure(list(map(fmean, scores.rewards.values())), scores, more)
    estimate = pass_at_k if metric.startswith("pass@") else pass_hat_k
    enough = [estimate(len(o), sum(o), k) for o in scores.outcomes.values() if len(o) >= k]
    if not enough:
        needs = f"no task has {counted(k, 'scored trial')}; use --aec-repetitions={k} or more"
        return _Figure(None, needs)
    return _mean_figure(enough, scores)


def _mean_figure(values: Sequence[float], scores: Scores, more: str = "") -> _Figure:
    interval = mean_interval(values)
    tasks = _tasks_text(len(values), scores)
    basis = f"95 % interval {bounds_text(interval)}, {tasks}{more}"
    return _Figure(round(interval.mean, DECIMALS), basis)


def _tasks_text(n: int, scores: Scores) -> str:
    return counted(n, "task", len(scores.trials))
