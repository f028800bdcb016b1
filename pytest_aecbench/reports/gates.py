"""Gates for CI: whether a run's figures are good enough, as in ``mean>=0.6 and errors<=5%``."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.reports.statistics import (
    final_attempts,
    mean_interval,
    mean_interval_by_task,
    pass_at_k,
    pass_hat_k,
    wilson,
)
from pytest_aecbench.reports.text import bounds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_aecbench.reports.statistics import Interval, TrialResult

__all__ = ["Gate", "Verdict", "judge_error_rate", "parse_gate"]

_METRICS = ("errors", "mean", "min", "pass@K", "pass^K", "trials")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
}
_FILTERS: dict[str, Callable[[TrialResult], str]] = {
    "agent": lambda trial: trial.agent,
    "difficulty": lambda trial: trial.difficulty or "unspecified",
    "domain": lambda trial: trial.domain,
    "task": lambda trial: trial.task_id,
}

_PASS = re.compile(r"pass[@^][1-9][0-9]{0,3}")
_WORD = re.compile(r"""[^\s()\[\],=<>"']+""")
# Matches wherever it is tried: at the end, nothing.
_TOKEN = re.compile(
    rf"""\s*({_WORD.pattern}|"[^"]*"|'[^']*'|(?P<unclosed>["'].*)|[<>=]=|[<>=()\[\],]|\Z)""",
    re.DOTALL,
)
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})(%?)")

# Far more than a person writes, far less than what Python's stack or a terminal can take.
_MAX_DEPTH = 20
_MAX_TOKENS = 500
_MAX_TOKEN_LENGTH = 200

# Sums and differences of binary fractions are off by less: 1 - 0.7 is to be no more than 0.3.
_DECIMALS = 9


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a gate is passed, and a line per comparison that says why."""

    passed: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a trial must be for a comparison to look at it; ``*`` stands for any text."""

    key: str
    value: str

    def __str__(self) -> str:
        if _WORD.fullmatch(self.value):
            return f"{self.key}={self.value}"
        quote = "'" if '"' in self.value else '"'
        return f"{self.key}={quote}{self.value}{quote}"

    def admits(self, trial: TrialResult) -> bool:
        """Say whether the trial is one of those asked for."""
        pattern = re.sub(r"[?\[]", r"[\g<0>]", self.value)
        return fnmatchcase(_FILTERS[self.key](trial), pattern)


@dataclass(frozen=True, slots=True)
class Comparison:
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


Condition: TypeAlias = "Comparison | Not | Combination"


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
        """Say whether the results pass, over every task and each trial's final attempt."""
        lines: list[str] = []
        passed = _holds(self.condition, final_attempts(results), lines)
        return Verdict(passed, tuple(lines))


def judge_error_rate(results: Sequence[TrialResult], maximum: float) -> Verdict:
    """Say whether each agent's share of trials that ended in an error is at most ``maximum``."""
    return Gate(Comparison("errors", (), "<=", round(maximum, _DECIMALS))).judge(results)


def _holds(
    condition: Condition, trials: Sequence[TrialResult], lines: list[str], negated: bool = False
) -> bool:
    """Judge every comparison, adding its lines.

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
            and _OPERATORS[condition.operator](figure.value, condition.needed) is not negated
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
    comparison: Comparison,
    filters: Sequence[Filter],
    figure: _Figure,
    negated: bool,
    verdict: bool,
) -> str:
    needed = comparison.needed
    shown = "unknown" if figure.value is None else _figure_text(figure.value, needed)
    line = (
        f"{_labelled(comparison.metric, filters)} = {shown} ({figure.basis}), "
        f"needs {'not ' if negated else ''}{comparison.operator} {_number_text(needed)}: "
        f"{'holds' if verdict else 'does not hold'}"
    )
    # Names of agents come from outside and must not start a new line.
    return "".join(char if char.isprintable() else "\ufffd" for char in line)


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
    """What a metric came to and from how much; None where that is not known."""

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


def parse_gate(text: str, where: str) -> Gate:
    """Read a gate.

    ::

        gate       = all {"or" all}
        all        = one {"and" one}
        one        = "not" one | "(" gate ")" | comparison
        comparison = metric ["[" filter {"," filter} "]"] ("<" | "<=" | "==" | ">" | ">=") number
        metric     = "errors" | "mean" | "min" | "pass@K" | "pass^K" | "trials"
        filter     = ("agent" | "difficulty" | "domain" | "task") "=" (word | quoted string)

    Raises:
        SettingsError: ``text`` is no gate; the message starts with ``where``.

    """
    return _Parser(text, where).gate()


class _Token(NamedTuple):
    """A word, a quoted string or a sign; the end of the text is empty."""

    text: str
    column: int

    def __str__(self) -> str:
        return repr(_shortened(self.text)) if self.text else "the end"


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._depth = 0
        self._tokens = self._read()
        self._token = next(self._tokens)

    def gate(self) -> Gate:
        condition = self._any()
        if self._token.text:
            raise self._unexpected("'and', 'or' or the end")
        return Gate(condition)

    def _any(self) -> Condition:
        return self._joined("or", self._all)

    def _all(self) -> Condition:
        return self._joined("and", self._one)

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._token.text == word:
            self._advance()
            parts.append(part())
        return Combination(word, tuple(parts)) if len(parts) > 1 else parts[0]

    def _one(self) -> Condition:
        opening = self._token
        if opening.text not in ("not", "("):
            return self._comparison()
        if self._depth == _MAX_DEPTH:
            raise self._error(opening, f"nested too deep; use at most {_MAX_DEPTH} levels")
        self._depth += 1
        self._advance()
        if opening.text == "not":
            condition: Condition = Not(self._one())
        else:
            condition = self._any()
            self._expect(")", "'and', 'or' or ')'")
        self._depth -= 1
        return condition

    def _comparison(self) -> Comparison:
        metric = self._metric()
        filters = tuple(self._filters()) if self._token.text == "[" else ()
        if self._token.text not in _OPERATORS:
            raise self._unexpected(f"one of {', '.join(_OPERATORS)}")
        return Comparison(metric, filters, self._advance().text, self._number(metric))

    def _metric(self) -> str:
        token = self._token
        if not _WORD.fullmatch(token.text) or token.text in ("and", "or"):
            raise self._unexpected(f"'not', '(' or one of {', '.join(_METRICS)}")
        if not _PASS.fullmatch(token.text):
            if token.text.startswith(("pass@", "pass^")):
                right = "use a whole number from 1 to 9999 for K, as in pass@3"
                raise self._error(token, f"{token} has no valid K; {right}")
            if token.text not in _METRICS:
                raise self._unknown("metric", _METRICS)
        return self._advance().text

    def _filters(self) -> Iterator[Filter]:
        while self._advance().text in ("[", ","):
            if not _WORD.fullmatch(self._token.text):
                raise self._unexpected(f"one of {', '.join(_FILTERS)}")
            if self._token.text not in _FILTERS:
                raise self._unknown("filter", _FILTERS)
            key = self._advance().text
            self._expect("=", "'='")
            yield Filter(key, self._value())
            if self._token.text not in (",", "]"):
                raise self._unexpected("',' or ']'")

    def _value(self) -> str:
        token = self._token
        quoted = token.text[:1] in ("'", '"')
        value = token.text[1:-1] if quoted else token.text
        if not value or not (quoted or _WORD.fullmatch(value)):
            raise self._unexpected("a word or a quoted string, with * for any text")
        if not value.isprintable():
            raise self._error(token, f"{token} cannot be shown; use printable characters")
        self._advance()
        return value

    def _number(self, metric: str) -> float:
        if metric == "trials":
            number, right = _count(self._token.text), "a whole number"
        else:
            number, right = _share(self._token.text), "a number from 0 to 1, such as 0.6 or 60%"
        if number is None:
            raise self._unexpected(right)
        self._advance()
        return number

    def _advance(self) -> _Token:
        """Step to the next token and return the one left behind."""
        token, self._token = self._token, next(self._tokens)
        return token

    def _expect(self, text: str, right: str) -> None:
        if self._token.text != text:
            raise self._unexpected(right)
        self._advance()

    def _read(self) -> Iterator[_Token]:
        for number, match in enumerate(_TOKEN.finditer(self._text)):
            token = _Token(match[1], match.start(1) + 1)
            if number == _MAX_TOKENS and token.text:
                raise self._error(token, f"too long; use at most {_MAX_TOKENS} words and signs")
            if match["unclosed"]:
                raise self._error(token, f"{token} has no closing quote; add one")
            if len(token.text) > _MAX_TOKEN_LENGTH:
                right = f"use at most {_MAX_TOKEN_LENGTH} characters"
                raise self._error(token, f"{token} is too long; {right}")
            yield token
        while True:
            yield token

    def _unexpected(self, right: str) -> SettingsError:
        return self._error(self._token, f"found {self._token}; expected {right}")

    def _unknown(self, what: str, known: Mapping[str, object] | Sequence[str]) -> SettingsError:
        near = difflib.get_close_matches(self._token.text, known, n=1)
        hint = f"did you mean {near[0]!r}? Use" if near else "use"
        return self._error(
            self._token, f"unknown {what} {self._token}; {hint} one of {', '.join(known)}"
        )

    def _error(self, token: _Token, message: str) -> SettingsError:
        text = repr(_shortened(self._text))
        return SettingsError(f"{self._where}: {text}: column {token.column}: {message}")


def _count(text: str) -> float | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _share(text: str) -> float | None:
    match = _SHARE.fullmatch(text)
    share = Fraction(match[1]) / (100 if match[2] else 1) if match else -1
    return float(share) if 0 <= share <= 1 else None


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
