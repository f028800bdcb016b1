"""The result of a trial as reports use it, and which attempt at a trial is the final one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_aecbench.ledger.identity import final_attempts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_aecbench.ledger.entry import Recorded

__all__ = ["TrialResult", "final_results"]


Scalar: TypeAlias = "str | int | float | bool | None"


class TrialResult(NamedTuple):
    """One attempt as reports need it; plain scalars, so that it can cross xdist."""

    task_id: str
    agent: str
    repetition: int
    attempt: int
    domain: str
    difficulty: str | None
    visibility: str
    scored: bool
    reward: float | None
    passed: bool | None
    error_cause: str | None
    tokens_in: int | None
    tokens_out: int | None
    usd: float | None
    duration_sec: float
    trial_id: str = ""
    trial_key: str = ""
    task_digest: str = ""
    started_sec: float = 0.0
    bad_end: str | None = None  # how the agent of a trial that did not pass ended, if not well

    @classmethod
    def from_record(cls, record: Recorded, **instead: Scalar) -> TrialResult:
        """Take from a record what a summary needs; ``instead`` has values to put in its place."""
        task, evaluation, cost = record.task, record.evaluation, record.cost
        passed = evaluation.passed
        values: dict[str, Scalar] = {
            "task_id": task.task_id,
            "agent": record.agent.name,
            "repetition": record.repetition,
            "attempt": record.attempt,
            "domain": task.domain,
            "difficulty": task.difficulty,
            "visibility": task.visibility,
            "scored": record.scored,
            "reward": evaluation.reward,
            "passed": passed,
            "error_cause": evaluation.error.cause if evaluation.error else None,
            "tokens_in": cost.tokens_in,
            "tokens_out": cost.tokens_out,
            "usd": cost.usd,
            "duration_sec": record.timing.spent_sec,
            "trial_id": record.trial_id,
            "trial_key": record.trial_key,
            "task_digest": task.digest,
            "started_sec": record.started_sec,
            "bad_end": None if passed else _bad_end(record),
        }
        values.update(instead)
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, Scalar]:
        """Return the fields by name."""
        return self._asdict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Scalar]) -> TrialResult:
        """Take back what ``to_dict`` gave."""
        return cls(**data)  # type: ignore[arg-type]  # to_dict gave every field its own type


# status -> the words for an agent that does not say more
_ENDS = {"failed": "exited non-zero", "limit_reached": "limit", "timed_out": "timed out"}


_NOT_FOUND = 127  # what a shell exits with for a program that it does not find


def _bad_end(record: Recorded) -> str | None:
    result = record.agent_result
    if not record.scored or result is None:
        return None
    if result.status not in _ENDS:
        return "wrote no output" if record.outputs.written is False else None
    if result.returncode == _NOT_FOUND:
        return "program not found"
    return result.end.replace("_", " ") if result.end else _ENDS[result.status]


def final_results(results: Iterable[TrialResult]) -> list[TrialResult]:
    """Return one result per trial of an agent, by the agent's name."""
    return final_attempts(results, lambda one: (one.agent, one.task_id, one.repetition))
