"""Past durations of trials, used to plan and to estimate the time left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.plugin.state import settings_of, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

__all__ = ["TrialName", "past_durations"]

# Files that are read for estimates although no index has them yet; that takes some 50 ms.
_LEAST_READ = 500


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


def past_durations(config: pytest.Config, node_ids: Iterable[str]) -> dict[str, float]:
    """Return how long trials like these took in recent experiments, where there were some.

    The first call decides of which trials the run asks.
    """
    state = state_of(config)
    if state.past_durations is None:
        from pytest_aecbench.ledger.index import open_index

        trials = {node_id: TrialName.of(config, node_id) for node_id in node_ids}
        works = {node_id: (trial.task_id, trial.agent) for node_id, trial in trials.items()}
        found: dict[tuple[str, str], float] = {}
        with suppress(LedgerError), open_index(settings_of(config).ledger_root) as index:
            found = index.past_durations(works.values(), most=_LEAST_READ + len(works))
        state.past_durations = {
            node_id: found[work] for node_id, work in works.items() if work in found
        }
    return state.past_durations
