"""The scheduler of trials for xdist's workers: one by one, long ones first.

A worker starts a test only when it knows the next one, so one test always waits behind the one that
runs. A short trial is put behind a long one and a long one behind a short one: so no long trial
waits for another while a worker is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.errors import TaskError
from pytest_aecbench.plugin._xdist_internals import OneByOneScheduling
from pytest_aecbench.plugin.durations import TrialName, past_durations
from pytest_aecbench.plugin.nodes import is_trial, needs_sandbox
from pytest_aecbench.plugin.state import settings_of, state_of
from pytest_aecbench.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest
    from xdist.workermanage import WorkerController

__all__ = ["TrialScheduling", "expected_durations", "longest_first"]


class TrialScheduling(OneByOneScheduling):
    """xdist's own scheduling where no trials are run."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        self.collection: list[str] | None = None
        self._long: set[int] = set()  # what was dealt because it is long

    def schedule(self) -> None:
        """Deal the first trials, or more to a worker that joins later."""
        collections = self.node2collection.values()
        if not any(map(needs_sandbox, next(iter(collections), ()))):
            super().schedule()
            return
        if self.collection is None:
            if not self.agree():
                return
            node_ids = next(iter(collections))
            self.collection = node_ids
            self.pending[:] = state_of(self.config).order
            for node in self.nodes:  # the longest of all, before anything waits behind them
                self._deal(node)
        for node in reversed(self.nodes):
            self.check_schedule(node)

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:
        """Give the worker what it needs to go on; with nothing left, let it finish."""
        if not any(map(needs_sandbox, self.collection or ())):
            super().check_schedule(node, duration)
            return
        if node.shutting_down:
            return
        while self.pending and len(self.waiting_for(node)) < 2:
            self._deal(node)
        if not self.pending:
            node.shutdown()

    def _deal(self, node: WorkerController) -> None:
        if not self.pending:
            return
        # A long one for a worker that is free or has a short one, a short one behind a long one.
        waiting = self.waiting_for(node)
        behind_long = waiting and waiting[-1] in self._long
        trial = self.pending.pop(-1 if behind_long else 0)
        if not behind_long:
            self._long.add(trial)
        self.pending.insert(0, trial)  # which is what is sent
        self.send_next(node)


def longest_first(config: pytest.Config, node_ids: Sequence[str]) -> list[int]:
    """Return the tests' places in the order in which they are to be dealt."""
    durations = expected_durations(config, node_ids)
    return sorted(range(len(durations)), key=lambda number: -durations[number])


def expected_durations(config: pytest.Config, node_ids: Sequence[str]) -> list[float]:
    """Return how long each trial took recently, else its deadline; other tests take 0."""
    known = past_durations(config, filter(is_trial, node_ids))
    return [
        known[node_id] if node_id in known else _deadline(config, node_id) for node_id in node_ids
    ]


def _deadline(config: pytest.Config, node_id: str) -> float:
    if not needs_sandbox(node_id):
        return 0.0
    trial = TrialName.of(config, node_id)
    try:
        limits = Task.load(trial.directory).config
    except TaskError:
        return 0.0
    settings = settings_of(config)
    agent_timeout_sec = settings.timeout_override_sec or limits.agent.timeout_sec
    return agent_timeout_sec + limits.verifier.timeout_sec
