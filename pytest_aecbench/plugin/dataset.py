"""``--aec-dataset``: run the tasks of a dataset, as they were, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import TaskError, UserError

if TYPE_CHECKING:
    from pytest_aecbench.datasets.drift import DatasetInUse
    from pytest_aecbench.settings.model import Settings
    from pytest_aecbench.trials.trial import Trial

__all__ = ["check_unchanged", "find_dataset"]


def find_dataset(settings: Settings) -> DatasetInUse | None:
    """Read the dataset and compare it with the tasks; refuse tasks that differ."""
    if settings.dataset is None:
        return None
    # Imported here because most runs have no dataset.
    from pytest_aecbench.datasets.drift import take

    try:
        return take(
            settings.datasets_root,
            settings.tasks_root,
            settings.dataset,
            allow_drift=settings.allow_drift,
        )
    except UserError as error:
        raise pytest.UsageError(str(error)) from None


def check_unchanged(trial: Trial) -> None:
    """Refuse a task that was as in the dataset when the run began and is not any more."""
    dataset, task_id = trial.dataset, trial.task.task_id
    if dataset is None or trial.settings.allow_drift:
        return
    if trial.digest != dataset.tasks[task_id]:
        raise TaskError(f"{task_id}: changed since the run began, so it is not that of {dataset}")
