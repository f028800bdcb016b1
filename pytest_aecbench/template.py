"""The one test function that every trial is an instance of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.reward import describe

if TYPE_CHECKING:
    from pytest_aecbench.agentspec import AgentSpec
    from pytest_aecbench.reward import Reward
    from pytest_aecbench.trial import Trial


def trial(agent: AgentSpec, repetition: int, aec_trial: Trial, aec_reward: Reward | None) -> None:
    """Compare the reward with the threshold; everything before that happens in fixtures."""
    aec_trial.reward = aec_reward
    if aec_reward is not None and aec_reward.value < aec_trial.threshold:
        pytest.fail(describe(aec_reward, aec_trial.threshold), pytrace=False)
