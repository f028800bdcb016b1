"""``--lf`` of pytest: it would run all trials if those that failed belong to other agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.plugin.nodes import is_trial
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

__all__ = ["check_last_failed"]


def check_last_failed(config: pytest.Config, node_ids: Sequence[str]) -> None:
    """Raise SettingsError if trials failed in the last run, but none of them is selected."""
    cache = getattr(config, "cache", None)
    if cache is None or not config.getoption("lf", False):
        return
    failed = [node_id for node_id in cache.get("cache/lastfailed", {}) if is_trial(node_id)]
    if not failed or not set(failed).isdisjoint(node_ids):
        return
    from pytest_aecbench.plugin.durations import TrialName

    agents = sorted({TrialName.of(config, node_id).agent for node_id in failed})
    raise SettingsError(
        f"--lf: none of {counted(len(failed), 'trial')} that failed before is selected (by "
        f"{', '.join(agents)}), so that all would run; select their tasks and agents, or leave "
        "--lf out"
    )
