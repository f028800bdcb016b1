"""The test functions that every trial, and every check of a task, is an instance of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.checks import Finding
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.trial import Trial


def trial(agent: AgentSpec, repetition: int, aec_trial: Trial, aec_reward: Reward | None) -> None:
    """Compare the reward with the threshold; everything before that happens in fixtures."""
    aec_trial.reward = aec_reward
    if aec_reward is not None and aec_reward.value < aec_trial.threshold:
        from pytest_aecbench.trials.sentence import explain  # not needed to collect

        pytest.fail(explain(aec_trial, aec_reward), pytrace=False)


def check(check: str, aec_finding: Finding | None) -> None:
    """Fail with what was found; all that could break on the way is in fixtures, an error there."""
    if aec_finding is not None:
        pytest.fail(str(aec_finding), pytrace=False)
