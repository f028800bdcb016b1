"""Saturation: tasks that all agents pass, that none passes, or whose outcome is luck."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.ledger.identity import AgentKeys, final_attempts
from pytest_aecbench.reports.columns import Column
from pytest_aecbench.reports.leaderboard import latest_verdicts, newest_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_aecbench.ledger.entry import Recorded, RecordedT

__all__ = ["COLUMNS", "VERDICTS", "Saturation", "TaskOutcomes", "saturation"]

# In the order of the report: tasks that do not rank agents come first.
VERDICTS = ("all pass", "none passes", "luck", "tells apart", "one agent")
# Agents of the harness itself: the one passes every sound task, the other none.
_REFERENCES = ("nop", "oracle", "replay")


@dataclass(frozen=True, slots=True)
class TaskOutcomes:
    """The outcomes of a task: for each agent a pair of passed and scored trials."""

    task_id: str
    agents: tuple[tuple[int, int], ...]

    @property
    def trials(self) -> int:
        """The number of scored trials."""
        return sum(scored for _, scored in self.agents)

    @property
    def passed(self) -> int:
        """The number of trials that passed."""
        return sum(passed for passed, _ in self.agents)

    @property
    def repeated(self) -> int:
        """The number of agents with more than one trial, whose luck can be seen."""
        return sum(scored > 1 for _, scored in self.agents)

    @property
    def undecided(self) -> int:
        """The number of agents that passed some of their trials and failed others."""
        return sum(0 < passed < scored for passed, scored in self.agents)

    @property
    def verdict(self) -> str:
        """One of ``VERDICTS``."""
        if self.undecided:
            return "luck"
        if len(self.agents) == 1:
            return "one agent"
        if self.passed == self.trials:
            return "all pass"
        return "tells apart" if self.passed else "none passes"


@dataclass(frozen=True, slots=True)
class Saturation:
    """The tasks, those that say least first, and how many records are not counted and why."""

    tasks: tuple[TaskOutcomes, ...]
    not_counted: Mapping[str, int]

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of tasks with each verdict."""
        found = Counter(task.verdict for task in self.tasks)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def notes(self) -> tuple[str, ...]:
        """The counts in a line, luck that cannot be seen, and what is not counted."""
        counts = ", ".join(f"{verdict} {count}" for verdict, count in self.verdicts.items())
        single = sum(not task.repeated for task in self.tasks)
        return (
            *([f"tasks: {counts}"] if self.tasks else []),
            *([f"luck cannot be seen without repetitions: tasks {single}"] if single else []),
            *(f"not counted: {count} {why}" for why, count in self.not_counted.items() if count),
        )


COLUMNS: tuple[Column[TaskOutcomes], ...] = (
    Column("verdict", lambda task: task.verdict, data={"verdict": lambda task: task.verdict}),
    Column(
        "agents", lambda task: str(len(task.agents)), data={"agents": lambda task: len(task.agents)}
    ),
    Column("trials", lambda task: str(task.trials), data={"trials": lambda task: task.trials}),
    Column(
        "passed",
        lambda task: f"{task.passed / task.trials:.0%}",
        data={
            "passed": lambda task: task.passed,
            "pass_rate": lambda task: task.passed / task.trials,
        },
    ),
    Column(
        "undecided",
        lambda task: f"{task.undecided} of {task.repeated}" if task.repeated else "-",
        data={
            "undecided": lambda task: task.undecided,
            "repeated": lambda task: task.repeated,
        },
    ),
)


def saturation(records: Iterable[RecordedT], *, holdout: bool = False) -> Saturation:
    """Judge the newest version of each public task, or with ``holdout`` of all.

    The agents ``oracle``, ``nop`` and ``replay`` do not count, and neither do trials without a
    score.
    """
    records = list(records)
    asked = [record for record in records if holdout or record.task.visibility == "public"]
    agents = [record for record in asked if record.agent.harness not in _REFERENCES]
    newest, set_aside = newest_versions(latest_verdicts(agents))
    key_of = AgentKeys()
    final = final_attempts(
        newest,
        lambda one: (one.task.task_id, key_of(one.agent), one.experiment_id, one.repetition),
    )
    scored = [record for record in final if record.evaluation.passed is not None]
    return Saturation(
        _outcomes(scored, key_of),
        {
            "of held-out tasks": len(records) - len(asked),
            "of oracle, nop and replay": len(asked) - len(agents),
            "of earlier versions of tasks": sum(set_aside.values()),
            "without a score": len(final) - len(scored),
        },
    )


def _outcomes(scored: Sequence[Recorded], key_of: AgentKeys) -> tuple[TaskOutcomes, ...]:
    outcomes: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for record in scored:
        passed = bool(record.evaluation.passed)
        outcomes[record.task.task_id][key_of(record.agent)].append(passed)
    tasks = (
        TaskOutcomes(task_id, tuple((sum(passed), len(passed)) for passed in agents.values()))
        for task_id, agents in outcomes.items()
    )
    return tuple(sorted(tasks, key=lambda task: (VERDICTS.index(task.verdict), task.task_id)))
