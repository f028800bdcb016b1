"""The source of a report: records, evidence and verdicts, and the figures that pages share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_aecbench.ledger.identity import AgentKeys
from pytest_aecbench.reports.leaderboard import counted_attempts, rank
from pytest_aecbench.reports.results import final_results
from pytest_aecbench.reports.saturation import saturation
from pytest_aecbench.reports.scores import Scores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_aecbench.ledger.checks import CheckSummary
    from pytest_aecbench.ledger.entry import Recorded
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.reports.comparison import Comparison
    from pytest_aecbench.reports.gates import Verdict
    from pytest_aecbench.reports.leaderboard import Counted, Leaderboard
    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.saturation import Saturation

__all__ = ["LEVELS", "Evidence", "Figures", "Source"]

# The contents: tables and plots; also results and answers of trials; also their steps.
LEVELS = ("figures", "results", "all")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The contents of an attempt's files; ``entries`` are those of its trajectory, as JSON.

    ``files`` has each file's path, size and, if it is a short text, its text.
    """

    instruction: str | None = None
    instruction_from: str = ""
    entries: Sequence[Mapping[str, Any]] = ()
    verifier_output: str = ""
    files: Sequence[tuple[str, int, str | None]] = ()
    problems: Sequence[str] = ()


def _no_evidence(record: TrialRecord) -> Evidence:
    return Evidence()


def _no_checks(digest: str) -> CheckSummary | None:
    return None


@dataclass(frozen=True)
class Source:
    """The records of some experiments, and what else is known of them.

    ``holdout`` shows held-out tasks, which otherwise are only counted; ``mounted`` counts trials
    whose sandboxes saw files of the host, which otherwise are only listed. ``scrub`` removes
    secrets from JSON-like data. A source that ``is_served`` does not become a file.
    """

    records: Sequence[Recorded]
    include: str = "all"
    holdout: bool = False
    mounted: bool = False
    is_served: bool = False
    problems: Sequence[str] = ()
    comparison: Comparison | None = None
    verdict: Verdict | None = None
    not_run: int = 0
    tasks_root: str = "tasks"
    evidence: Callable[[TrialRecord], Evidence] = _no_evidence
    checks: Callable[[str], CheckSummary | None] = _no_checks
    scrub: Callable[[Any], Any] = field(default=lambda data: data)

    @property
    def has_results(self) -> bool:
        """True if parts of rewards, errors and outputs may be shown."""
        return self.include != "figures"

    @property
    def has_evidence(self) -> bool:
        """True if instructions, trajectories and files may be shown."""
        return self.include == "all"


class Figures:
    """The figures of a source, each computed once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._key_of = AgentKeys()
        asked = source.records
        if not source.holdout:
            asked = [record for record in asked if record.task.visibility == "public"]
        # Every attempt that is shown, counted or not, in the order in which they were started.
        self.attempts: list[Recorded] = sorted(
            asked, key=lambda record: (record.timing.started_at, record.trial_id)
        )

    @cached_property
    def counted(self) -> Counted:
        """The attempts that the leaderboard counts."""
        source = self.source
        return counted_attempts(source.records, holdout=source.holdout, mounted=source.mounted)

    @cached_property
    def board(self) -> Leaderboard:
        """The leaderboard."""
        return rank(self.counted)

    @cached_property
    def agents(self) -> list[str]:
        """The agents' names, best first; then those that have no attempt that counts."""
        ranked = [row.agent for row in self.board.rows]
        return ranked + sorted(set(self.names) - set(ranked))

    @cached_property
    def names(self) -> list[str]:
        """The agents' names, which need no ranking."""
        return sorted({self.name_of(record) for record in self.attempts})

    @cached_property
    def final(self) -> list[TrialResult]:
        """The final attempt at each trial that counts."""
        return final_results(self.counted.results)

    @cached_property
    def final_ids(self) -> frozenset[str]:
        """The ids of the final attempts."""
        return frozenset(result.trial_id for result in self.final)

    @cached_property
    def by_agent(self) -> dict[str, list[TrialResult]]:
        """The final attempts of each agent."""
        found: dict[str, list[TrialResult]] = defaultdict(list)
        for result in self.final:
            found[result.agent].append(result)
        return found

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """The scores of each agent, by task."""
        return {agent: Scores.of(trials) for agent, trials in self.by_agent.items()}

    @cached_property
    def records_by_id(self) -> dict[str, Recorded]:
        """The records that are shown."""
        return {record.trial_id: record for record in self.attempts}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each attempt, by its id."""
        return {record.trial_id: number for number, record in enumerate(self.attempts)}

    @cached_property
    def saturation(self) -> Saturation:
        """The tasks that tell agents apart, and those that do not."""
        return saturation(self.source.records, holdout=self.source.holdout)

    @cached_property
    def different(self) -> frozenset[str]:
        """The tasks at which some trial that counts passed and another did not."""
        outcomes: dict[str, set[bool]] = defaultdict(set)
        for result in self.final:
            if result.passed is not None:
                outcomes[result.task_id].add(result.passed)
        return frozenset(task for task, found in outcomes.items() if len(found) == 2)

    def name_of(self, record: Recorded) -> str:
        """Return what the leaderboard calls the record's agent."""
        return self.counted.names.get(self._key_of(record.agent), record.agent.name)
