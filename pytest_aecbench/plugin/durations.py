"""Past durations of trials, used to plan and to estimate the time left."""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.ledger.store import Ledger
from pytest_aecbench.plugin.state import settings_of, state_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__ = ["TrialName", "past_duration"]

RECENT_EXPERIMENTS = 10


class TrialName(NamedTuple):
    """The parts of a trial's node id."""

    directory: Path
    task_id: str
    agent: str
    repetition: str

    @classmethod
    def of(cls, config: pytest.Config, node_id: str) -> TrialName:
        """Take a node id apart."""
        path, _, name = node_id.partition("::")
        directory = (config.rootpath / path).parent
        agent, _, repetition = name.partition("[")[2].partition("]")[0].rpartition("-")
        return cls(directory, settings_of(config).task_id(directory), agent, repetition)


def past_duration(config: pytest.Config, trial: TrialName) -> float | None:
    """Return how long such a trial took in recent experiments; None where there was none."""
    state = state_of(config)
    if state.past_durations is None:
        state.past_durations = {}
        with suppress(LedgerError, OSError):  # what cannot be read is not known
            state.past_durations = _past_durations(settings_of(config).ledger_root)
    return state.past_durations.get((trial.task_id, trial.agent))


def _past_durations(root: Path) -> dict[tuple[str, str], float]:
    """Return the median duration of scored trials by task and agent, from recent experiments."""
    ledger = Ledger(root)
    recent = sorted(ledger.experiments(), key=lambda name: (root / name).stat().st_mtime)
    found: dict[tuple[str, str], list[float]] = {}
    for experiment in recent[-RECENT_EXPERIMENTS:]:
        for record in ledger.records(experiment):
            if record.scored and record.evaluates is None:
                key = (record.task.task_id, record.agent.name)
                found.setdefault(key, []).append(record.timing.spent_sec)
    return {key: median(durations) for key, durations in found.items()}
