"""The sentence on a trial that did not pass: what went wrong, if that is known, and the reward."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_aecbench.text import printable, shortened
from pytest_aecbench.trials.reward import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.ledger.record import AgentOutcome, TrialRecord
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.trial import Trial

__all__ = ["explain", "explain_stored"]

_MAX_REASON = 200


def explain(trial: Trial, reward: Reward) -> str:
    """Return in one line why the trial did not pass, and where to look."""
    sentence = describe(reward, trial.threshold)
    output = None if trial.is_output_written is not False else str(trial.output_path)
    causes = _causes(trial.broken, trial.agent_result, output)
    return _joined(causes, sentence, os.path.relpath(trial.directory, trial.settings.root))


def explain_stored(record: TrialRecord, reward: Reward, threshold: float) -> str:
    """Return the same of a trial that an earlier run has made, as far as its record tells."""
    outputs = record.outputs
    output = None if outputs.written is not False else outputs.output_path
    causes = _causes(record.evaluation.cause, record.agent_result, output)
    return _joined(causes, describe(reward, threshold), outputs.jobs_dir)


def _joined(causes: Iterator[str], sentence: str, files: str | None) -> str:
    known = [*causes]
    if not known:
        return sentence
    return "; ".join((*known, sentence, *([f"files in {printable(files)}"] if files else [])))


def _causes(
    broken: str | None, result: AgentResult | AgentOutcome | None, missing_output: str | None
) -> Iterator[str]:
    if broken:
        yield printable(broken)
    elif result is not None:
        yield from _end(result)
    if missing_output is not None:
        yield f"no {printable(missing_output)} written"


def _end(result: AgentResult | AgentOutcome) -> Iterator[str]:
    """Yield how the agent ended, unless it ended as it should."""
    if result.status == "failed" and result.returncode:
        printed = (getattr(result, "stderr", ""), getattr(result, "stdout", ""))
        lines = next(filter(None, map(str.strip, printed)), "").splitlines()
        reason = f": {printable(shortened(lines[-1].strip(), _MAX_REASON))}" if lines else ""
        yield f"agent exited with {result.returncode}{reason}"
    elif result.status != "completed" and result.end:
        reason = f": {printable(shortened(result.error, _MAX_REASON))}" if result.error else ""
        yield f"agent ended by {result.end.replace('_', ' ')}{reason}"
    elif result.status != "completed":
        yield f"agent {printable(shortened(result.error or result.status, _MAX_REASON))}"
