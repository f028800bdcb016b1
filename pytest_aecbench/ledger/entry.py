"""The figures of a record, for lists and reports: a record without its texts and files.

An entry has the attributes of a ``TrialRecord`` that reports use, under the same names, so that a
function of records takes entries too. Parts that many records share are kept once. Texts and
times that only pages show are kept apart, and an entry has them only if they were asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pytest_aecbench.text import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_aecbench.ledger.record import TrialRecord

__all__ = ["OWN", "Entry", "Packed", "Parts", "Recorded", "RecordedT", "pack"]

Recorded: TypeAlias = "TrialRecord | Entry"
RecordedT = TypeVar("RecordedT", bound="TrialRecord | Entry")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class EntryTask(NamedTuple):
    """As a record's ``task``."""

    task_id: str
    digest: str
    domain: str
    difficulty: str | None
    visibility: str
    tags: tuple[str, ...] = ()


class EntryDataset(NamedTuple):
    """As a record's ``dataset``."""

    name: str
    version: str
    content_hash: str
    drifted: bool


class EntryAgent(NamedTuple):
    """As a record's ``agent``."""

    name: str
    harness: str
    model: str | None
    parameters: Mapping[str, object]
    system_prompt_sha256: str | None
    client_sha256: str | None


class EntryEnvironment(NamedTuple):
    """As a record's ``environment``."""

    backend: str
    mounts: tuple[str, ...]
    image: str | None = None


class EntryFailure(NamedTuple):
    """As an evaluation's ``error``."""

    cause: str
    message: str = ""
    phase: str | None = None


class EntryEvaluation(NamedTuple):
    """As a record's ``evaluation``."""

    reward: float | None
    threshold: float
    validity: str
    error: EntryFailure | None
    details_json: str

    @property
    def details(self) -> dict[str, float]:
        """The verifier's named parts of the reward."""
        found: dict[str, float] = json.loads(self.details_json)
        return found

    @property
    def passed(self) -> bool | None:
        """True if the reward reaches the threshold; None without a reward."""
        return None if self.reward is None else self.reward >= self.threshold


class EntryEvaluated(NamedTuple):
    """As a record's ``evaluates``."""

    experiment_id: str
    trial_id: str


class EntryOutcome(NamedTuple):
    """As a record's ``agent_result``."""

    status: str
    returncode: int | None
    end: str | None
    turns: int | None


class EntryOutputs(NamedTuple):
    """As a record's ``outputs``."""

    written: bool | None


class EntryCost(NamedTuple):
    """As a record's ``cost``."""

    tokens_in: int | None
    tokens_out: int | None
    tokens_cache_read: int | None
    tokens_cache_write: int | None
    tokens_reasoning: int | None
    calls: int | None
    cached_calls: int | None
    usd: float | None
    price_source: str | None


class EntryTiming(NamedTuple):
    """As a record's ``timing``; times are whole microseconds since the epoch."""

    started: int
    finished: int
    wait: float | None
    build: float | None = None
    launch: float | None = None
    agent: float | None = None
    model_wait: float | None = None
    verify: float | None = None
    collect: float | None = None
    teardown: float | None = None
    starts: Mapping[str, float] = {}

    @property
    def started_at(self) -> datetime:
        """When the attempt began."""
        return _EPOCH + timedelta(microseconds=self.started)

    @property
    def finished_at(self) -> datetime:
        """When the record was made."""
        return _EPOCH + timedelta(microseconds=self.finished)

    @property
    def spent_sec(self) -> float:
        """The time that the attempt took, without the wait for a slot."""
        return max(0.0, (self.finished - self.started) / 10**6 - (self.wait or 0.0))


@dataclass(frozen=True, slots=True)
class Entry:
    """The figures of one record."""

    experiment_id: str
    trial_id: str
    trial_key: str
    run_id: str
    task: EntryTask
    dataset: EntryDataset | None
    agent: EntryAgent
    repetition: int
    attempt: int
    evaluates: EntryEvaluated | None
    environment: EntryEnvironment
    evaluation: EntryEvaluation
    agent_result: EntryOutcome | None
    outputs: EntryOutputs
    timing: EntryTiming
    cost: EntryCost
    completeness: str
    warnings: tuple[str, ...] = ()
    harness_version: str = ""

    @property
    def scored(self) -> bool:
        """True if the attempt has a reward."""
        return self.evaluation.reward is not None

    @property
    def started_sec(self) -> float:
        """When the attempt began, in seconds since the epoch."""
        return self.timing.started / 10**6


_TASK, _AGENT = attrgetter(*EntryTask._fields), attrgetter(*EntryAgent._fields)
_COST, _DATASET = attrgetter(*EntryCost._fields), attrgetter(*EntryDataset._fields)
_PHASES = attrgetter(*EntryTiming._fields[3:])
# The values that an entry has for itself, in the order in which they are stored.
OWN = (
    *("trial_key", "repetition", "attempt", "reward", "started", "finished", "wait", "turns"),
    *("evaluates", *EntryCost._fields),
)
# A longer message is shown whole where its record is read.
_MAX_MESSAGE = 2000


class Packed(NamedTuple):
    """An entry as it is stored: JSON of its own values and of the parts that it may share.

    ``more`` has what only pages show.
    """

    own: str
    details: str
    task: str
    agent: str
    shared: str
    more: str


def pack(record: TrialRecord) -> Packed:
    """Take the figures from a record."""
    task, agent, evaluation = record.task, record.agent, record.evaluation
    cost, timing, outcome, dataset = record.cost, record.timing, record.agent_result, record.dataset
    return Packed(
        own=_json_of(
            record.trial_key,
            record.repetition,
            record.attempt,
            evaluation.reward,
            (timing.started_at - _EPOCH) // _MICROSECOND,
            (timing.finished_at - _EPOCH) // _MICROSECOND,
            timing.wait,
            outcome and outcome.turns,
            record.evaluates and [record.evaluates.experiment_id, record.evaluates.trial_id],
            *_COST(cost),
        ),
        details=_json(evaluation.details),
        task=_json_of(*_TASK(task)),
        agent=_json_of(*_AGENT(agent)),
        shared=_json_of(
            record.run_id,
            dataset and _DATASET(dataset),
            record.environment.backend,
            record.environment.mounts,
            evaluation.threshold,
            evaluation.validity,
            evaluation.error and evaluation.error.cause,
            outcome and outcome.status,
            outcome and outcome.returncode,
            outcome and outcome.end,
            record.outputs.written,
            record.completeness,
        ),
        more=_json_of(
            shortened(evaluation.error.message, _MAX_MESSAGE) if evaluation.error else "",
            evaluation.error and evaluation.error.phase,
            record.environment.image,
            record.warnings,
            record.harness_version,
            *_PHASES(timing),
        ),
    )


def _json_of(*values: object) -> str:
    return _json(values)


def _json(value: object) -> str:
    # Five times as fast as Python's own, and there already, because a record is a model of it.
    from pydantic_core import to_json

    return to_json(value).decode()


class _Shared(NamedTuple):
    run_id: str
    dataset: EntryDataset | None
    environment: EntryEnvironment
    threshold: float
    validity: str
    error: EntryFailure | None
    status: str | None
    returncode: int | None
    end: str | None
    outputs: EntryOutputs
    completeness: str

    @classmethod
    def of(cls, values: Sequence[Any]) -> _Shared:
        run_id, dataset, backend, mounts, threshold, validity, cause, *rest = values
        status, returncode, end, written, completeness = rest
        return cls(
            run_id,
            EntryDataset(*dataset) if dataset else None,
            EntryEnvironment(backend, tuple(mounts)),
            threshold,
            validity,
            None if cause is None else EntryFailure(cause),
            status,
            returncode,
            end,
            EntryOutputs(written),
            completeness,
        )


def _task(values: Sequence[Any]) -> EntryTask:
    return EntryTask(*values)._replace(tags=tuple(values[-1]))


_Part = TypeVar("_Part")
_Equal = TypeVar("_Equal")


class Parts:
    """Makes entries from stored JSON; a part that several entries share is one object.

    ``texts`` has the stored JSON of parts by their numbers.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._texts = texts
        self._parts: dict[tuple[type, int], Any] = {}
        self._equal: dict[Any, Any] = {}

    def entry(
        self,
        experiment_id: str,
        trial_id: str,
        own: Sequence[Any],
        details: str,
        task: int,
        agent: int,
        shared: int,
        more: Sequence[Any] | None = None,
    ) -> Entry:
        """Make one entry; ``own`` and ``more`` are values of JSON, the others numbers of parts."""
        key, repetition, attempt, reward, started, finished, wait, turns, evaluated, *cost = own
        common = self._part(_Shared, shared, _Shared.of)
        details = self._one(details)
        outcome = (
            None
            if common.status is None
            else EntryOutcome(common.status, common.returncode, common.end, turns)
        )
        entry = Entry(
            self._one(experiment_id),
            trial_id,
            key,
            common.run_id,
            self._part(EntryTask, task, _task),
            common.dataset,
            self._part(EntryAgent, agent, lambda values: EntryAgent(*values)),
            repetition,
            attempt,
            EntryEvaluated(*evaluated) if evaluated else None,
            common.environment,
            self._one(
                EntryEvaluation(reward, common.threshold, common.validity, common.error, details)
            ),
            self._one(outcome),
            common.outputs,
            EntryTiming(started, finished, wait),
            EntryCost(*cost),
            common.completeness,
        )
        return entry if more is None else _filled(entry, *more)

    def _part(
        self, kind: type[_Part], number: int, make: Callable[[Sequence[Any]], _Part]
    ) -> _Part:
        found: _Part | None = self._parts.get((kind, number))
        if found is None:
            found = self._parts[kind, number] = make(json.loads(self._texts[number]))
        return found

    def _one(self, value: _Equal) -> _Equal:
        """Return the object that is equal to the value, if there was one before."""
        found: _Equal = self._equal.setdefault(value, value)
        return found


def _filled(
    entry: Entry,
    message: str,
    phase: str | None,
    image: str | None,
    warnings: Sequence[str],
    harness_version: str,
    *phases: Any,
) -> Entry:
    """Return the entry with what pages show."""
    evaluation, timing = entry.evaluation, entry.timing
    error = evaluation.error and evaluation.error._replace(message=message, phase=phase)
    return replace(
        entry,
        evaluation=evaluation._replace(error=error),
        environment=entry.environment._replace(image=image),
        timing=EntryTiming(*timing[:3], *phases),
        warnings=tuple(warnings),
        harness_version=harness_version,
    )
