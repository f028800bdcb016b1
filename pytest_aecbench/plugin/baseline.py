"""The comparison of a run with an earlier experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.state import settings_of

if TYPE_CHECKING:
    from pytest_aecbench.reports.comparison import Comparison
    from pytest_aecbench.reports.statistics import TrialResult

__all__ = ["comparison_of"]

_COMPARISON: pytest.StashKey[Comparison] = pytest.StashKey()


def comparison_of(config: pytest.Config, trials: list[TrialResult]) -> Comparison | None:
    """Return how the run's trials compare with the baseline's, if there is one."""
    settings = settings_of(config)
    if settings.baseline is None:
        return None
    if _COMPARISON not in config.stash:
        # Imported here because most runs have no baseline.
        from pytest_aecbench.ledger.query import Query
        from pytest_aecbench.ledger.store import Ledger
        from pytest_aecbench.reports.comparison import compare
        from pytest_aecbench.reports.statistics import TrialResult

        records = Query().select(Ledger(settings.ledger_root).records(settings.baseline))
        config.stash[_COMPARISON] = compare(
            map(TrialResult.from_record, records),
            trials,
            names=(settings.baseline, settings.experiment_id),
        )
    return config.stash[_COMPARISON]
