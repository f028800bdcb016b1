"""The sentence on a trial that did not pass: what went wrong, if that is known, and the reward."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_aecbench.text import printable, shortened
from pytest_aecbench.trials.reward import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.trial import Trial

__all__ = ["explain"]

_MAX_REASON = 200


def explain(trial: Trial, reward: Reward) -> str:
    """Return in one line why the trial did not pass, and where to look."""
    sentence = describe(reward, trial.threshold)
    causes = [*_causes(trial)]
    if not causes:
        return sentence
    files = os.path.relpath(trial.directory, trial.settings.root)
    return "; ".join((*causes, sentence, f"files in {files}"))


def _causes(trial: Trial) -> Iterator[str]:
    if trial.broken:
        yield printable(trial.broken)
    elif trial.agent_result is not None:
        yield from _end(trial.agent_result)
    if trial.is_output_written is False:
        yield f"no {trial.output_path} written"


def _end(result: AgentResult) -> Iterator[str]:
    """Yield how the agent ended, unless it ended as it should."""
    if result.status == "failed" and result.returncode:
        lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
        reason = f": {printable(shortened(lines[-1].strip(), _MAX_REASON))}" if lines else ""
        yield f"agent exited with {result.returncode}{reason}"
    elif result.status != "completed" and result.end:
        reason = f": {printable(shortened(result.error, _MAX_REASON))}" if result.error else ""
        yield f"agent ended by {result.end.replace('_', ' ')}{reason}"
    elif result.status != "completed":
        yield f"agent {printable(shortened(result.error or result.status, _MAX_REASON))}"
