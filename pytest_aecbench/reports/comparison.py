"""Comparison of two experiments by the trials that are in both.

Rewards are paired, averaged per task and compared per agent, because trials of one task are not
independent. A sign-flip test over tasks tells changes from chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_aecbench.ledger.identity import final_attempts
from pytest_aecbench.reports.columns import p_text
from pytest_aecbench.reports.gates import Verdict
from pytest_aecbench.reports.paired import paired_change, too_few_text
from pytest_aecbench.reports.power import least_detectable
from pytest_aecbench.reports.scores import MAX_MISSING, missing_text
from pytest_aecbench.reports.statistics import DECIMALS, LEVEL
from pytest_aecbench.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from pytest_aecbench.reports.results import TrialResult

__all__ = [
    "AgentComparison",
    "Comparison",
    "TaskDifference",
    "compare",
    "judge_regression",
]


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
        return round(self.after - self.before, DECIMALS)


@dataclass(frozen=True, slots=True)
class AgentComparison:
    """The change of one agent's rewards, its 95 % interval, and the p of no change at all.

    ``p`` is None where too few tasks could show anything, and ``least_detectable`` where no change
    is likely to be found. ``missing`` is the share of pairs that lack a reward.
    """

    before_agent: str
    after_agent: str
    paired_by: str
    pairs: int
    missing: float
    before: float
    after: float
    change: float
    low: float
    high: float
    standard_error: float | None
    p: float | None
    least_detectable: float | None
    tasks: tuple[TaskDifference, ...]

    @property
    def bounds_text(self) -> str:
        """The interval as it is shown."""
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
        return _name(self.before_agent, self.after_agent)


def _name(before: str, after: str) -> str:
    return after if before == after else f"{before} > {after}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two experiments side by side; ``left_out`` counts trials by why they are not compared.

    ``unscored`` has the agents that have pairs, but none with two rewards.

    Trials are paired where task files and repetition are the same and so is the agent (``trial``),
    or its name (``name``), or, if no other trials are and each side has one agent, without regard
    to agents (``task``).
    """

    before: str
    after: str
    agents: tuple[AgentComparison, ...]
    unscored: tuple[str, ...]
    left_out: Mapping[str, int]
    changed_tasks: tuple[str, ...]


def compare(
    before: Iterable[TrialResult],
    after: Iterable[TrialResult],
    *,
    names: tuple[str, str],
    holdout: bool = False,
) -> Comparison:
    """Pair the trials of two experiments and compare them; held-out ones only if ``holdout``."""
    left_out: Counter[str] = Counter()
    old = _settled(before, holdout, left_out)
    new = _settled(after, holdout, left_out)
    groups: dict[tuple[str, str, str], list[tuple[TrialResult, TrialResult]]] = defaultdict(list)
    for paired_by, one, other in _pairs(old, new):
        groups[paired_by, one.agent, other.agent].append((one, other))
        if one.reward is None or other.reward is None:
            left_out["without a reward"] += 1
    changed = _count_unpaired(old, new, names, left_out)
    agents = []
    unscored = []
    for group, pairs in sorted(groups.items()):
        found = _compared(*group, pairs)
        if found is None:
            unscored.append(_name(*group[1:]))
        else:
            agents.append(found)
    return Comparison(*names, tuple(agents), tuple(unscored), dict(left_out), changed)


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
    found = False
    for paired_by, key in _KEYS:
        agents = [{trial.agent for trial in side.values()} for side in (old, new)]
        if paired_by == "task" and (found or any(len(names) > 1 for names in agents)):
            return  # whom to compare with whom would be a guess
        ours, theirs = _by_key(old, key), _by_key(new, key)
        for shared in sorted(ours.keys() & theirs.keys(), key=str):
            if len(ours[shared]) == len(theirs[shared]) == 1:
                one, other = ours[shared][0], theirs[shared][0]
                del old[_identity(one)], new[_identity(other)]
                found = True
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
) -> AgentComparison | None:
    rewards: dict[str, list[tuple[float, float]]] = defaultdict(list)
    planned: Counter[str] = Counter()
    for one, other in pairs:
        planned[one.task_id] += 1
        if one.reward is not None and other.reward is not None:
            rewards[one.task_id].append((one.reward, other.reward))
    if not rewards:
        return None
    tasks = tuple(
        TaskDifference(
            task_id,
            len(found),
            fmean(reward for reward, _ in found),
            fmean(reward for _, reward in found),
        )
        for task_id, found in sorted(rewards.items())
    )
    change = paired_change([task.after - task.before for task in tasks])
    missing = fmean(1 - len(rewards.get(task, ())) / count for task, count in planned.items())
    return AgentComparison(
        before_agent=before_agent,
        after_agent=after_agent,
        paired_by=paired_by,
        pairs=sum(task.pairs for task in tasks),
        missing=round(missing, DECIMALS),
        before=fmean(task.before for task in tasks),
        after=fmean(task.after for task in tasks),
        change=round(change.interval.mean, DECIMALS),
        low=change.interval.low,
        high=change.interval.high,
        standard_error=change.interval.standard_error,
        p=change.p,
        least_detectable=least_detectable(len(tasks), min(task.pairs for task in tasks)).least,
        tasks=tasks,
    )


def judge_regression(
    comparison: Comparison, tolerance: float | None = None, max_missing: float = MAX_MISSING
) -> Verdict:
    """Return whether no agent's rewards fell, by more than chance explains or than ``tolerance``.

    Where that cannot be told, they may have.
    """
    if not comparison.agents and not comparison.unscored:
        return Verdict(
            False, (f"nothing to compare with {comparison.before}: no trial is in both",)
        )
    passed = not comparison.unscored
    against = f"against {comparison.before}"
    lines = [f"{name}: unknown {against}: no pair has two rewards" for name in comparison.unscored]
    for agent in comparison.agents:
        figures = f"{agent.change:+.2f} ({agent.bounds_text}, p {p_text(agent.p)})"
        if reason := _unknown(agent, tolerance, max_missing):
            passed = False
            lines.append(f"{agent.name}: unknown {against}: {reason}; {figures}")
        elif _fell(agent, tolerance):
            passed = False
            lines.append(f"{agent.name} regressed {against}: {figures}")
        else:
            lines.append(f"{agent.name} did not regress {against}: {figures}")
    # Names of agents come from outside and must not start a new line.
    return Verdict(passed, tuple(map(printable, lines)))


def _unknown(agent: AgentComparison, tolerance: float | None, max_missing: float) -> str | None:
    """Return why it cannot be told whether the agent's rewards fell."""
    if agent.missing > max_missing:
        return missing_text(agent.missing, max_missing)
    if tolerance is None and agent.p is None:
        return too_few_text(len(agent.tasks))
    return None


def _fell(agent: AgentComparison, tolerance: float | None) -> bool:
    if tolerance is not None:
        return agent.change < -tolerance
    return agent.change < 0 and agent.p is not None and agent.p <= LEVEL
