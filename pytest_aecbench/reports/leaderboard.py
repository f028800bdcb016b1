"""The leaderboard: a row for each agent over all its trials in some experiments.

Only the newest version of a task counts, by its files: what was earned on other files is counted
apart and said. An agent is its identity, whatever it was called. An agent whose scores are missing
is ranked below those that have theirs, because its mean is of other tasks.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_aecbench.ledger.identity import AgentKeys
from pytest_aecbench.ledger.store import no_garbage_collection
from pytest_aecbench.reports.paired import holm, paired_change
from pytest_aecbench.reports.results import TrialResult, final_results
from pytest_aecbench.reports.scores import MAX_MISSING, Scores
from pytest_aecbench.reports.statistics import DECIMALS, Interval, pass_at_k_mean
from pytest_aecbench.reports.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_aecbench.ledger.entry import Recorded, RecordedT
    from pytest_aecbench.reports.summary import AgentSummary, Group

__all__ = [
    "AgentPair",
    "Counted",
    "Leaderboard",
    "Row",
    "counted_attempts",
    "latest_verdicts",
    "leaderboard",
    "newest_versions",
    "rank",
]


@dataclass(frozen=True, slots=True)
class Row:
    """One agent's row; ``missing`` is the share of its scores on all tasks of the board that are.

    ``pass_at_k`` is over the ``pass_k_tasks`` tasks with k scored trials.
    """

    agent: str
    experiments: int
    pass_at_k: float | None
    pass_k_tasks: int
    missing: float
    summary: AgentSummary

    @property
    def error_rate(self) -> float:
        """The share of its trials that ended in an error."""
        overall = self.summary.overall
        return overall.errors / overall.trials if overall.trials else 0.0

    @property
    def complete(self) -> bool:
        """True if enough of its scores are there to rank it among others."""
        return self.missing <= MAX_MISSING


@dataclass(frozen=True, slots=True)
class AgentPair:
    """The difference of an agent and one that is ranked below it, on the tasks with both scores.

    ``p`` is that of no difference, raised by Holm's method for all pairs of the board; None where
    too few tasks could show anything.
    """

    agent: str
    other: str
    difference: Interval
    p: float | None


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The agents, best first; ``set_aside`` counts records of earlier versions, by task."""

    rows: tuple[Row, ...]
    pairs: tuple[AgentPair, ...]
    tasks: int
    k: int
    set_aside: Mapping[str, int]
    held_out: int
    mounted: int


@dataclass(frozen=True, slots=True)
class Counted:
    """The attempts that a leaderboard counts.

    ``names`` is what agents are called, by their keys, and ``experiments`` how many each took part
    in; ``set_aside``, ``held_out`` and ``mounted`` count the records that do not count.
    """

    results: tuple[TrialResult, ...]
    names: Mapping[str, str]
    experiments: Mapping[str, int]
    set_aside: Mapping[str, int]
    held_out: int
    mounted: int


def newest_versions(
    records: Iterable[RecordedT],
) -> tuple[list[RecordedT], dict[str, int]]:
    """Return the records of each task's newest version, and how many of others, by task.

    The newest version is the one that was attempted last.
    """
    records = sorted(records, key=lambda record: record.started_sec)
    newest = {record.task.task_id: record.task.digest for record in records}
    set_aside: dict[str, int] = defaultdict(int)
    kept = []
    for record in records:
        if record.task.digest == newest[record.task.task_id]:
            kept.append(record)
        else:
            set_aside[record.task.task_id] += 1
    return kept, dict(sorted(set_aside.items()))


def leaderboard(
    records: Iterable[RecordedT],
    *,
    holdout: bool = False,
    mounted: bool = False,
    k: int | None = None,
) -> Leaderboard:
    """Rank the agents by their mean reward on public tasks, or with ``holdout`` on all.

    Trials whose sandboxes saw files of the host count only with ``mounted``. Without ``k``, pass@k
    is for as many trials as every agent has of each task that it attempted.
    """
    found = counted_attempts(records, holdout=holdout, mounted=mounted)
    return rank(found, k=k)


def counted_attempts(
    records: Iterable[RecordedT], *, holdout: bool = False, mounted: bool = False
) -> Counted:
    """Return the attempts that count on public tasks, or with ``holdout`` on all."""
    with no_garbage_collection():
        every = list(records)
        records = [record for record in every if mounted or not record.environment.mounts]
        left_out = len(every) - len(records)
        asked = [record for record in records if holdout or record.task.visibility == "public"]
        held_out = len(records) - len(asked)
        verdicts, origins = _verdicts(asked)
        counted, set_aside = newest_versions(verdicts)
        names = _names(counted)
        by_key = dict(
            zip(map(AgentKeys(), (record.agent for record in counted)), names, strict=True)
        )
        experiments = defaultdict(set)
        for record, name in zip(counted, names, strict=True):
            experiments[name].add(record.experiment_id)
        # A record is let go when its result is made: a hundred thousand of both take much memory.
        queue = deque(counted)
        del every, records, asked, verdicts, counted
        results = tuple(_results(queue, names, origins))
        taken = {name: len(found) for name, found in experiments.items()}
        return Counted(results, by_key, taken, set_aside, held_out, left_out)


@no_garbage_collection()
def rank(counted: Counted, *, k: int | None = None) -> Leaderboard:
    """Rank the agents of the attempts that count."""
    results = counted.results
    by_agent: dict[str, list[TrialResult]] = defaultdict(list)
    for trial in final_results(results):
        by_agent[trial.agent].append(trial)
    scores = {agent: Scores.of(trials) for agent, trials in by_agent.items()}
    if k is None:
        found = (len(o) for one in scores.values() for o in one.outcomes.values())
        k = min(found, default=1)
    tasks = len({trial.task_id for trial in results})
    rows = [
        Row(
            summary.agent,
            counted.experiments[summary.agent],
            pass_at_k_mean(scores[summary.agent].outcomes, k),
            scores[summary.agent].tasks_with(k),
            _missing(summary.overall, tasks),
            summary,
        )
        for summary in summarise(results)
    ]
    rows.sort(key=lambda row: not row.complete)
    pairs = _pairs([(row.agent, scores[row.agent]) for row in rows])
    return Leaderboard(
        tuple(rows),
        tuple(pairs),
        tasks,
        k,
        counted.set_aside,
        counted.held_out,
        counted.mounted,
    )


def _missing(overall: Group, tasks: int) -> float:
    """Return the share of scores that are missing; of tasks that were not attempted, all are."""
    return round(1 - (1 - overall.missing) * overall.tasks / tasks, DECIMALS)


def _pairs(ranked: Sequence[tuple[str, Scores]]) -> list[AgentPair]:
    """Compare each agent with all below it, task by task."""
    means = [
        (agent, {task: fmean(rewards) for task, rewards in scores.rewards.items()})
        for agent, scores in (ranked if len(ranked) > 1 else ())
    ]
    found = [
        (agent, other, paired_change([ours[task] - theirs[task] for task in shared]))
        for (agent, ours), (other, theirs) in combinations(means, 2)
        if (shared := sorted(ours.keys() & theirs.keys()))
    ]
    raised = iter(holm([change.p for _, _, change in found if change.p is not None]))
    return [
        AgentPair(agent, other, change.interval, None if change.p is None else next(raised))
        for agent, other, change in found
    ]


def latest_verdicts(records: Iterable[RecordedT]) -> list[RecordedT]:
    """Return one record of each piece of work: an agent does not earn twice by being verified.

    It is the last one with a reward, or else the last.
    """
    verdicts, _ = _verdicts(records)
    return verdicts


def _verdicts(records: Iterable[RecordedT]) -> tuple[list[RecordedT], dict[str, RecordedT]]:
    """Return the latest verdicts, and the records of the work that some of them are about."""
    by_id = {record.trial_id: record for record in records}
    in_order = sorted(by_id.values(), key=lambda record: record.started_sec)
    origins: dict[str, RecordedT] = {}
    if not any(record.evaluates for record in in_order):
        return in_order, origins
    latest: dict[str, RecordedT] = {}
    for record in in_order:
        origin = _origin(record, by_id)
        if origin is not record:
            origins[record.trial_id] = origin
        work = origin.evaluates.trial_id if origin.evaluates else origin.trial_id
        if record.scored or not latest.get(work, record).scored:
            latest[work] = record
    return list(latest.values()), origins


def _origin(record: RecordedT, by_id: Mapping[str, RecordedT]) -> RecordedT:
    """Return the record of the work itself, as far as the records lead to it."""
    seen = set()  # a broken ledger may lead round in a circle
    while record.evaluates is not None and record.trial_id not in seen:
        seen.add(record.trial_id)
        record = by_id.get(record.evaluates.trial_id, record)
    return record


def _names(records: Sequence[Recorded]) -> list[str]:
    """Return what to call the agent of each record: its latest name, and more if it is shared."""
    key_of = AgentKeys()
    keys = [key_of(record.agent) for record in records]
    latest = dict(zip(keys, (record.agent for record in records), strict=True))
    names = {identity: agent.name for identity, agent in latest.items()}
    shared = Counter(names.values())
    for identity, agent in latest.items():
        if shared[agent.name] > 1:
            names[identity] += f" ({agent.harness}{f':{agent.model}' if agent.model else ''})"
    numbers: Counter[str] = Counter()
    shared = Counter(names.values())
    for identity, name in names.items():
        numbers[name] += 1
        if shared[name] > 1:
            names[identity] += f" #{numbers[name]}"
    return [names[key] for key in keys]


def _results(
    records: deque[RecordedT], names: Iterable[str], origins: Mapping[str, RecordedT]
) -> Iterator[TrialResult]:
    """Yield results in which the repetitions of several experiments are told apart.

    The records are taken off the queue. Work that was verified again is the trial that it was
    before, and has its cost.
    """
    numbers: dict[tuple[str, str], dict[tuple[str, int], int]] = defaultdict(dict)
    for name in names:
        record = records.popleft()
        origin = origins.get(record.trial_id, record)
        experiment_id = (origin.evaluates or origin).experiment_id
        known = numbers[name, record.task.task_id]
        repetition = known.setdefault((experiment_id, origin.repetition), len(known) + 1)
        yield TrialResult.from_record(
            record,
            agent=name,
            repetition=repetition,
            visibility="public",
            **({} if origin is record else _used(origin)),
        )


def _used(record: Recorded) -> dict[str, float | None]:
    cost = record.cost
    return {
        "tokens_in": cost.tokens_in,
        "tokens_out": cost.tokens_out,
        "usd": cost.usd,
        "duration_sec": record.timing.spent_sec,
    }
