"""The figures of a record, for lists and reports: a record without its texts and files.

An entry has the attributes of a ``TrialRecord`` that reports use, under the same names, so that a
function of records takes entries too. Parts that many records share are kept once. Texts and
times that only pages show are kept apart, and an entry has them only if they were asked for.
"""

from __future__ import annotations

import json
from copy import copy
from datetime import datetime, timedelta, timezone
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pytest_aecbench.text import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_aecbench.ledger.record import TrialRecord

__all__ = [
    "Entry",
    "Own",
    "Packed",
    "Parts",
    "Recorded",
    "RecordedT",
    "more_of",
    "pack",
    "parsed",
]

Recorded: TypeAlias = "TrialRecord | Entry"
RecordedT = TypeVar("RecordedT", bound="TrialRecord | Entry")
_Value = TypeVar("_Value")

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


class Own(NamedTuple):
    """The values that an entry has for itself, in the order in which they are stored."""

    trial_key: str
    repetition: int
    attempt: int
    reward: float | None
    started: int
    finished: int
    wait: float | None
    turns: int | None
    evaluates: Sequence[str] | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_cache_read: int | None
    tokens_cache_write: int | None
    tokens_reasoning: int | None
    calls: int | None
    cached_calls: int | None
    usd: float | None
    price_source: str | None


class Shared(NamedTuple):
    """The values that the entries of a run mostly share, besides their task and agent."""

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


class More(NamedTuple):
    """The values of an entry that only pages show."""

    message: str
    phase: str | None
    image: str | None
    warnings: Sequence[str]
    harness_version: str
    phases: Sequence[Any]


class Entry:
    """The figures of one record: its stored values, of which its attributes are made when asked.

    A hundred thousand of them take little room so. ``own`` and the other values that a record does
    not have are for tables.
    """

    __slots__ = (
        *("agent", "details_json", "experiment_id", "more", "own", "shared", "task", "trial_id"),
    )

    def __init__(
        self,
        experiment_id: str,
        trial_id: str,
        own: Own,
        details_json: str,
        task: EntryTask,
        agent: EntryAgent,
        shared: Shared,
        more: More | None = None,
    ) -> None:
        self.experiment_id = experiment_id
        self.trial_id = trial_id
        self.own = own
        self.details_json = details_json
        self.task = task
        self.agent = agent
        self.shared = shared
        self.more = more

    @property
    def trial_key(self) -> str:
        """The key that identifies the trial."""
        return self.own.trial_key

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.shared.run_id

    @property
    def dataset(self) -> EntryDataset | None:
        """The dataset that the task was taken from."""
        return self.shared.dataset

    @property
    def repetition(self) -> int:
        """The number of the trial among those of its task and agent."""
        return self.own.repetition

    @property
    def attempt(self) -> int:
        """The number of the attempt at the trial."""
        return self.own.attempt

    @property
    def evaluates(self) -> EntryEvaluated | None:
        """The attempt whose outputs were verified again, if this is about another."""
        evaluated = self.own.evaluates
        return EntryEvaluated(*evaluated) if evaluated else None

    @property
    def environment(self) -> EntryEnvironment:
        """The place where the attempt ran."""
        found, more = self.shared.environment, self.more
        return found._replace(image=more.image) if more else found

    @property
    def evaluation(self) -> EntryEvaluation:
        """The verdict of the verifier."""
        common, error, more = self.shared, self.shared.error, self.more
        if error and more:
            error = error._replace(message=more.message, phase=more.phase)
        reward = self.own.reward
        return EntryEvaluation(reward, common.threshold, common.validity, error, self.details_json)

    @property
    def agent_result(self) -> EntryOutcome | None:
        """The end of the agent."""
        common = self.shared
        if common.status is None:
            return None
        return EntryOutcome(common.status, common.returncode, common.end, self.own.turns)

    @property
    def outputs(self) -> EntryOutputs:
        """The facts about what the agent left."""
        return self.shared.outputs

    @property
    def timing(self) -> EntryTiming:
        """The times of the attempt."""
        own, more = self.own, self.more
        phases: Sequence[Any] = more.phases if more else ()
        return EntryTiming(own.started, own.finished, own.wait, *phases)

    @property
    def cost(self) -> EntryCost:
        """The tokens and the money that the agent used."""
        values: tuple[Any, ...] = self.own
        return EntryCost(*values[_OF_COST])

    @property
    def completeness(self) -> str:
        """The word for how much of the attempt was collected."""
        return self.shared.completeness

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the attempt."""
        return tuple(self.more.warnings) if self.more else ()

    @property
    def harness_version(self) -> str:
        """The version of this package that made the record."""
        return self.more.harness_version if self.more else ""

    @property
    def scored(self) -> bool:
        """True if the attempt has a reward."""
        return self.own.reward is not None

    @property
    def started_sec(self) -> float:
        """When the attempt began, in seconds since the epoch."""
        return self.own.started / 10**6

    def cleaned(self, clean: Callable[[Any], Any]) -> Entry:
        """Return the entry without secrets, as ``clean`` removes them from values of JSON."""
        found, more = copy(self), self.more
        found.details_json = json.dumps(clean(json.loads(self.details_json)))
        if more is not None:
            cleaned = {"message": clean(more.message), "warnings": clean(more.warnings)}
            found.more = more._replace(**cleaned)
        return found


_OF_COST = slice(Own._fields.index(EntryCost._fields[0]), None)
_TASK, _AGENT = attrgetter(*EntryTask._fields), attrgetter(*EntryAgent._fields)
_COST, _DATASET = attrgetter(*EntryCost._fields), attrgetter(*EntryDataset._fields)
_PHASES = attrgetter(*EntryTiming._fields[3:])
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


class Parts:
    """The parts of entries that several of them may share, each made once.

    ``texts`` reads the stored JSON of parts by their numbers.
    """

    def __init__(self, texts: Callable[[Iterable[int]], Mapping[int, str]]) -> None:
        self._texts = texts
        self._made: dict[Callable[..., Any], dict[int, Any]] = {}
        self._words: dict[Any, Any] = {}

    def tasks(self, numbers: Sequence[int]) -> Iterator[EntryTask]:
        """Return the tasks with these numbers."""
        return self._parts(numbers, self._task)

    def agents(self, numbers: Sequence[int]) -> Iterator[EntryAgent]:
        """Return the agents with these numbers."""
        return self._parts(numbers, EntryAgent)

    def shared(self, numbers: Sequence[int]) -> Iterator[Shared]:
        """Return what entries share otherwise, by these numbers."""
        return self._parts(numbers, _shared)

    def once(self, value: _Value) -> _Value:
        """Return the equal value of before: thousands of tasks have the same few words."""
        found: _Value = self._words.setdefault(value, value)
        return found

    def _parts(self, numbers: Sequence[int], make: Callable[..., _Value]) -> Iterator[_Value]:
        made = self._made.setdefault(make, {})
        texts = self._texts(set(numbers) - made.keys())
        for number, values in zip(texts, parsed(texts.values()), strict=True):
            made[number] = make(*values)
        return map(made.__getitem__, numbers)

    def _task(
        self,
        task_id: str,
        digest: str,
        domain: str,
        difficulty: str | None,
        visibility: str,
        tags: Sequence[str],
    ) -> EntryTask:
        one = self.once
        words = one(tuple(map(one, tags)))
        return EntryTask(task_id, digest, one(domain), one(difficulty), one(visibility), words)


def parsed(texts: Iterable[str]) -> list[Any]:
    """Read many JSON texts at once, which takes less than one after the other."""
    found: list[Any] = json.loads(f"[{','.join(texts)}]")
    return found


def more_of(values: Sequence[Any] | None) -> More | None:
    """Take what only pages show from the values of its JSON."""
    return More._make((*values[:5], values[5:])) if values else None


def _shared(
    run_id: str,
    dataset: Sequence[Any] | None,
    backend: str,
    mounts: Sequence[str],
    threshold: float,
    validity: str,
    cause: str | None,
    status: str | None,
    returncode: int | None,
    end: str | None,
    written: bool | None,
    completeness: str,
) -> Shared:
    return Shared(
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
