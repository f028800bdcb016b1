"""The dataset of a run, the same in every process of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.errors import TaskError, UserError
from pytest_aecbench.plugin.state import is_worker, settings_of

if TYPE_CHECKING:
    from pytest_aecbench.datasets.drift import DatasetInUse
    from pytest_aecbench.trials.trial import Trial

__all__ = ["check_unchanged", "dataset_of", "handed_over"]

_DATASET: pytest.StashKey[DatasetInUse | None] = pytest.StashKey()


def dataset_of(config: pytest.Config) -> DatasetInUse | None:
    """Return the dataset that the run is confined to, compared with the tasks on first use."""
    if _DATASET not in config.stash:
        config.stash[_DATASET] = _find(config)
    return config.stash[_DATASET]


def _find(config: pytest.Config) -> DatasetInUse | None:
    # Imports are here because most runs have no dataset.
    if is_worker(config):
        # Not from the settings: what they name may by now have a higher version.
        handed_over = getattr(config, "workerinput", {})["aecbench_dataset"]
        if handed_over is None:
            return None
        from pytest_aecbench.datasets.drift import DatasetInUse

        return DatasetInUse(**handed_over)
    settings = settings_of(config)
    if settings.dataset is None:
        return None
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


def handed_over(config: pytest.Config) -> dict[str, Any] | None:
    """Return what a worker needs to know of the dataset, in plain types."""
    dataset = dataset_of(config)
    if dataset is None:
        return None
    return {
        "name": dataset.name,
        "version": dataset.version,
        "content_hash": dataset.content_hash,
        "tasks": dataset.tasks,
        "changes": dataset.changes,
    }


def check_unchanged(trial: Trial) -> None:
    """Refuse a task that was as in the dataset when the run began and is not any more."""
    dataset, task_id = trial.dataset, trial.task.task_id
    if dataset is None or trial.settings.allow_drift:
        return
    if trial.digest != dataset.tasks[task_id]:
        raise TaskError(f"{task_id}: changed since the run began, so it is not that of {dataset}")
