"""What a run is going to do: fixed once, where it is controlled, and kept with its files."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.files import whole
from pytest_aecbench.plugin.nodes import is_trial
from pytest_aecbench.plugin.resume import reusable_of
from pytest_aecbench.plugin.state import settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["freeze", "order_of"]

_ORDER = pytest.StashKey[list[int]]()


def freeze(config: pytest.Config, node_ids: Sequence[str], order: list[int]) -> None:
    """Settle which tests run and in which order, and write down what trials there are."""
    config.stash[_ORDER] = order
    settings = settings_of(config)
    if settings.checks:
        return
    plan = {
        "schema_version": 1,
        "run_id": settings.run_id,
        "experiment_id": settings.experiment_id,
        "created_at": datetime.now(timezone.utc).isoformat(),
        "backend": settings.backend,
        "agents": [agent.name for agent in settings.agents],
        "repetitions": settings.repetitions,
        "trials": [node_ids[number] for number in order if is_trial(node_ids[number])],
        "reused": reusable_of(config),
    }
    path = settings.jobs_root / settings.experiment_id / f"{settings.run_id}.plan.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as file:
            file.write(json.dumps(plan, indent=2).encode())
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written, {error.strerror}") from None


def order_of(config: pytest.Config) -> list[int]:
    """Return the places, among all tests, of those that run, the first one first."""
    return config.stash[_ORDER]
