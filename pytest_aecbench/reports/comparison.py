"""Comparison of two experiments by the trials that are in both.

Rewards are paired, averaged per task and compared per agent; the interval of the mean change is a
bootstrap over tasks, for trials of one task are not independent.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.ledger.identity import final_attempts
from pytest_aecbench.reports.gates import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from pytest_aecbench.reports.results import TrialResult

__all__ = [
    "AgentComparison",
    "Comparison",
    "TaskDifference",
    "bootstrap_bounds",
    "compare",
    "judge_regression",
]

_RESAMPLES = 5000
_CONFIDENCE = 0.95
# Means of binary fractions are off by less: no change is to be no regression.
_DECIMALS = 9


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """A task's mean rewards, over the trials that were paired."""

    task_id: str
    pairs: int
    before: float
    after: float

    @property
    def change(self) -> float:
        """By how much the reward rose."""
        return round(self.after - self.before, _DECIMALS)


@dataclass(frozen=True, slots=True)
class AgentComparison:
    """The change of one agent's rewards, and its bounds; one task gives no bounds."""

    before_agent: str
    after_agent: str
    paired_by: str
    pairs: int
    before: float
    after: float
    change: float
    low: float | None
    high: float | None
    tasks: tuple[TaskDifference, ...]

    def regressed(self, tolerance: float | None = None) -> bool:
        """Return whether rewards fell by more than chance explains, or than ``tolerance``."""
        if tolerance is not None:
            return self.change < -tolerance
        return self.high is not None and self.high < 0

    @property
    def bounds_text(self) -> str:
        """The bounds as they are shown; a dash where there are none."""
        if self.low is None or self.high is None:
            return "-"
        return f"{self.low:+.2f} to {self.high:+.2f}"

    @property
    def worse(self) -> list[TaskDifference]:
        """The tasks whose reward fell, the worst first."""
        fell = (task for task in self.tasks if task.change < 0)
        return sorted(fell, key=lambda task: (task.change, task.task_id))

    @property
    def better(self) -> list[TaskDifference]:
        """The tasks whose reward rose, the best first."""
        rose = (task for task in self.tasks if task.change > 0)
        return sorted(rose, key=lambda task: (-task.change, task.task_id))

    @property
    def name(self) -> str:
        """The agent, or both where they differ."""
        if self.before_agent == self.after_agent:
            return self.after_agent
        return f"{self.before_agent} > {self.after_agent}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two experiments side by side; ``left_out`` counts trials by why they are not compared.

    Trials are paired where task files and repetition are the same and so is the agent (``trial``),
    or its name (``name``), or, if no other trials are and each side has one agent, without regard
    to agents (``task``).
    """

    before: str
    after: str
    agents: tuple[AgentComparison, ...]
    left_out: Mapping[str, int]
    changed_tasks: tuple[str, ...]


def compare(
    before: Iterable[TrialResult],
    after: Iterable[TrialResult],
    *,
    names: tuple[str, str],
    holdout: bool = False,
    seed: int = 0,
) -> Comparison:
    """Pair the trials of two experiments and compare them; held-out ones only if ``holdout``."""
    left_out: Counter[str] = Counter()
    old = _settled(before, holdout, left_out)
    new = _settled(after, holdout, left_out)
    groups: dict[tuple[str, str, str], list[tuple[TrialResult, TrialResult]]] = defaultdict(list)
    for paired_by, one, other in _pairs(old, new):
        if one.reward is None or other.reward is None:
            left_out["without a reward"] += 1
        else:
            groups[paired_by, one.agent, other.agent].append((one, other))
    changed = _count_unpaired(old, new, names, left_out)
    agents = [_compared(*group, groups[group], seed) for group in sorted(groups)]
    return Comparison(*names, tuple(agents), dict(left_out), changed)


def _identity(trial: TrialResult) -> tuple[str, str]:
    # The key alone does not tell two tasks with the same files apart.
    return trial.task_id, trial.trial_key


def _settled(
    results: Iterable[TrialResult], holdout: bool, left_out: Counter[str]
) -> dict[tuple[str, str], TrialResult]:
    """Return the final attempt at each trial, by the trial's identity."""
    settled = {_identity(one): one for one in final_attempts(results, _identity)}
    if holdout:
        return settled
    public = {key: trial for key, trial in settled.items() if trial.visibility == "public"}
    if held_out := len(settled) - len(public):
        left_out["held out"] += held_out
    return public


# From the strictest on; a task that was only moved is still the same.
_KEYS: tuple[tuple[str, Callable[[TrialResult], Hashable]], ...] = (
    ("trial", _identity),
    ("trial", lambda trial: trial.trial_key),
    ("name", lambda trial: (trial.agent, trial.task_id, trial.task_digest, trial.repetition)),
    ("task", lambda trial: (trial.task_id, trial.task_digest, trial.repetition)),
)


def _pairs(
    old: dict[tuple[str, str], TrialResult], new: dict[tuple[str, str], TrialResult]
) -> Iterator[tuple[str, TrialResult, TrialResult]]:
    """Take what belongs together out of both and yield it, in the strictest way that there is."""
    found = 0
    for paired_by, key in _KEYS:
        agents = [{trial.agent for trial in side.values()} for side in (old, new)]
        if paired_by == "task" and (found or any(len(names) > 1 for names in agents)):
            return  # whom to compare with whom would be a guess
        ours, theirs = _by_key(old, key), _by_key(new, key)
        for shared in sorted(ours.keys() & theirs.keys(), key=str):
            if len(ours[shared]) == len(theirs[shared]) == 1:
                one, other = ours[shared][0], theirs[shared][0]
                del old[_identity(one)], new[_identity(other)]
                found += 1
                yield paired_by, one, other


def _by_key(
    trials: Mapping[tuple[str, str], TrialResult], key: Callable[[TrialResult], Hashable]
) -> dict[Hashable, list[TrialResult]]:
    found: dict[Hashable, list[TrialResult]] = defaultdict(list)
    for trial in trials.values():
        found[key(trial)].append(trial)
    return found


def _count_unpaired(
    old: Mapping[tuple[str, str], TrialResult],
    new: Mapping[tuple[str, str], TrialResult],
    names: tuple[str, str],
    left_out: Counter[str],
) -> tuple[str, ...]:
    """Count what has no counterpart, and return the tasks whose files were changed."""
    changed = set()
    versions = [
        {(trial.task_id, trial.task_digest) for trial in side.values()} for side in (old, new)
    ]
    known = [{task_id for task_id, _ in side} for side in versions]
    for mine, (side, name) in enumerate(zip((old, new), names, strict=True)):
        for trial in side.values():
            theirs = 1 - mine
            same = (trial.task_id, trial.task_digest) in versions[theirs]
            if trial.task_id in known[theirs] and not same:
                changed.add(trial.task_id)
                left_out["of a task that was changed"] += 1
            else:
                left_out[f"only in {name}"] += 1
    return tuple(sorted(changed))


def _compared(
    paired_by: str,
    before_agent: str,
    after_agent: str,
    pairs: Sequence[tuple[TrialResult, TrialResult]],
    seed: int,
) -> AgentComparison:
    rewards: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one, other in pairs:
        assert one.reward is not None
        assert other.reward is not None
        rewards[one.task_id].append((one.reward, other.reward))
    tasks = tuple(
        TaskDifference(
            task_id,
            len(found),
            math.fsum(reward for reward, _ in found) / len(found),
            math.fsum(reward for _, reward in found) / len(found),
        )
        for task_id, found in sorted(rewards.items())
    )
    low, high = bootstrap_bounds([task.change for task in tasks], seed)
    before = math.fsum(task.before for task in tasks) / len(tasks)
    after = math.fsum(task.after for task in tasks) / len(tasks)
    change = round(after - before, _DECIMALS)
    return AgentComparison(
        before_agent, after_agent, paired_by, len(pairs), before, after, change, low, high, tasks
    )


def bootstrap_bounds(values: Sequence[float], seed: int = 0) -> tuple[float | None, float | None]:
    """Return the percentile bootstrap's 95 % interval of the mean; the same for the same values."""
    n = len(values)
    if n < 2:
        return None, None
    draw = random.Random(seed)  # noqa: S311  (to be repeated, not to be secret)
    means = sorted(math.fsum(draw.choices(values, k=n)) / n for _ in range(_RESAMPLES))
    cut = int(_RESAMPLES * (1 - _CONFIDENCE) / 2)
    return round(means[cut], _DECIMALS), round(means[-cut - 1], _DECIMALS)


def judge_regression(comparison: Comparison, tolerance: float | None = None) -> Verdict:
    """Return whether no agent's rewards fell; where nothing could be compared, they may have."""
    if not comparison.agents:
        return Verdict(
            False, (f"nothing to compare with {comparison.before}: no trial is in both",)
        )
    regressed = [agent.regressed(tolerance) for agent in comparison.agents]
    lines = (
        f"{agent.name} {'regressed' if fell else 'did not regress'} against {comparison.before}: "
        f"{agent.change:+.2f} ({agent.bounds_text})"
        for agent, fell in zip(comparison.agents, regressed, strict=True)
    )
    return Verdict(not any(regressed), tuple(lines))
