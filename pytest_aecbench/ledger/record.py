"""The record of one attempt: everything it leaves behind, as data.

Importing this module imports pydantic: where records are only passed on, import it under
TYPE_CHECKING.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic_core import core_schema

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.ledger.store import EXPERIMENT_ID

__all__ = [
    "SCHEMA_VERSION",
    "AgentIdentity",
    "AgentOutcome",
    "Cost",
    "DatasetIdentity",
    "Environment",
    "Evaluated",
    "Evaluation",
    "Failure",
    "Inputs",
    "OutputFile",
    "Outputs",
    "TaskIdentity",
    "Timing",
    "TrialRecord",
]

SCHEMA_VERSION: Literal[1] = 1

# Far below what JSON parsers accept (200 for pydantic's), far above what a grader has to say.
_MAX_DEPTH = 64


def _encodable(value: object) -> object:
    """Replace what UTF-8 cannot carry, such as the lone surrogates of undecodable file names."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _plain(value: object, depth: int = _MAX_DEPTH) -> object:
    """Make foreign data what any JSON reader accepts: a bad detail must not lose the record."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, (Mapping, list, tuple)) and not depth:
        return "..."
    if isinstance(value, Mapping):
        return {_encodable(str(key)): _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth - 1) for item in value]
    return _encodable(str(value))


class _Cleaned:
    """Cleans a value, unless it comes from JSON: a stored record was cleaned when it was made.

    A validator that looks at where the value comes from would be called for each value, which takes
    longer than all else about reading a record.
    """

    def __init__(self, clean: Callable[[object], object]) -> None:
        self._clean = clean

    def __get_pydantic_core_schema__(
        self, source: type[object], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Return what pydantic works by."""
        schema = handler(source)
        cleaned = core_schema.no_info_before_validator_function(self._clean, schema)
        return core_schema.json_or_python_schema(schema, cleaned)


def _utc(value: datetime) -> datetime:
    return value if value.tzinfo is timezone.utc else value.astimezone(timezone.utc)


_Text: TypeAlias = Annotated[str, _Cleaned(_encodable)]
_Json: TypeAlias = Annotated[JsonValue, _Cleaned(_plain)]
_Time: TypeAlias = Annotated[AwareDatetime, AfterValidator(_utc)]
_Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
_Seconds: TypeAlias = Annotated[float, Field(ge=0)]
_Count: TypeAlias = Annotated[int, Field(ge=0)]
_Ordinal: TypeAlias = Annotated[int, Field(ge=1)]
_Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Uuid4: TypeAlias = Annotated[
    str, Field(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
]
_ExperimentId: TypeAlias = Annotated[str, Field(pattern=f"^{EXPERIMENT_ID}$")]


class _Part(BaseModel):
    # Unknown keys come from newer versions of this package and are not an error.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class TaskIdentity(_Part):
    """The task that was attempted, and the state of its files."""

    task_id: _Text
    digest: str
    domain: _Text
    difficulty: str | None = None
    visibility: str = "public"
    tags: tuple[str, ...] = ()


class DatasetIdentity(_Part):
    """The dataset that the run was confined to; ``drifted`` if some task differed from it."""

    name: str
    version: str
    content_hash: str
    drifted: bool = False


class AgentIdentity(_Part):
    """The agent that attempted it."""

    name: str
    harness: str
    model: str | None = None
    parameters: Annotated[dict[str, JsonValue], _Cleaned(_plain)] = {}
    system_prompt_sha256: _Sha256 | None = None
    client_sha256: _Sha256 | None = None


class Environment(_Part):
    """The backend of the attempt; ``image`` is None when none was built.

    ``agent_image`` is the image of the agent's sandbox where the agent was installed in it.
    """

    backend: str
    image: str | None = None
    agent_image: str | None = None
    platform: str | None = None
    mounts: tuple[_Text, ...] = ()


class Inputs(_Part):
    """The inputs of the agent; a time limit of None means that there is none."""

    instruction_sha256: _Sha256
    agent_timeout_sec: _Seconds | None = None
    verifier_timeout_sec: _Seconds | None = None
    build_timeout_sec: _Seconds | None = None
    prompt_version: str | None = None


class OutputFile(_Part):
    """One collected file, by its path below ``jobs_dir``."""

    path: _Text
    size: _Count
    sha256: _Sha256 | None = None


class Outputs(_Part):
    """The files that were brought back; ``jobs_dir`` is relative to the project's root.

    ``written`` says whether the output file was among them, where that is known.
    """

    files: tuple[OutputFile, ...] = ()
    output_path: _Text | None = None
    written: bool | None = None
    output_excerpt: _Text | None = None
    jobs_dir: _Text | None = None


class Failure(_Part):
    """Why an attempt was not scored; ``cause`` is the stable word of the errors table."""

    cause: str
    type: str
    message: _Text
    phase: str | None = None


class Evaluation(_Part):
    """The reward of the attempt, or the reason why there is none.

    ``cause`` says how the agent made its sandbox or its work unusable, if it did.
    """

    reward: _Fraction | None
    threshold: _Fraction
    passed: bool | None
    validity: Literal["scored", "error", "unverified", "interrupted", "crashed"]
    details: dict[str, float] = {}
    breakdown: _Json = None
    cause: _Text | None = None
    error: Failure | None = None
    verifier_returncode: int | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Evaluation:
        if (self.reward is not None) != (self.validity == "scored"):
            raise ValueError("there is a reward exactly when validity is 'scored'")
        if self.passed is not (None if self.reward is None else self.reward >= self.threshold):
            raise ValueError("passed says whether the reward reaches the threshold")
        if (self.error is None) != (self.validity in ("scored", "unverified")):
            raise ValueError("there is an error unless validity is 'scored' or 'unverified'")
        return self


class Evaluated(_Part):
    """The stored attempt whose workspace was verified again."""

    experiment_id: _ExperimentId
    trial_id: _Uuid4


class AgentOutcome(_Part):
    """The end of the agent, which says nothing about its reward."""

    status: _Text
    returncode: int | None = None
    error: _Text | None = None
    end: _Text | None = None
    turns: _Count | None = None
    plan: Annotated[dict[str, JsonValue], _Cleaned(_plain)] | None = None


class Timing(_Part):
    """When the attempt ran, and the seconds each phase took; None where it did not happen.

    ``model_wait`` is the part of ``agent`` that was spent on the limits of a model's provider.
    ``starts`` has when each phase first began, in seconds since ``started_at``.
    """

    started_at: _Time
    finished_at: _Time
    wait: _Seconds | None = None
    build: _Seconds | None = None
    launch: _Seconds | None = None
    agent: _Seconds | None = None
    model_wait: _Seconds | None = None
    verify: _Seconds | None = None
    collect: _Seconds | None = None
    teardown: _Seconds | None = None
    starts: dict[str, _Seconds] = {}

    @property
    def spent_sec(self) -> float:
        """The time that the attempt took, without the wait for a slot."""
        spent = (self.finished_at - self.started_at).total_seconds()
        return max(0.0, spent - (self.wait or 0.0))


class Cost(_Part):
    """The use of the agent's model; None is unknown, 0 is known to be nothing.

    ``cached_calls`` of the ``calls`` were answered from the cache, at no cost.
    """

    tokens_in: _Count | None = None
    tokens_out: _Count | None = None
    tokens_cache_read: _Count | None = None
    tokens_cache_write: _Count | None = None
    tokens_reasoning: _Count | None = None
    calls: _Count | None = None
    cached_calls: _Count | None = None
    usd: Annotated[float, Field(ge=0)] | None = None
    price_source: str | None = None


class TrialRecord(_Part):
    """Everything one attempt of one trial leaves behind."""

    schema_version: Literal[1] = SCHEMA_VERSION
    trial_id: _Uuid4
    trial_key: _Sha256
    experiment_id: _ExperimentId
    run_id: str
    task: TaskIdentity
    dataset: DatasetIdentity | None = None
    agent: AgentIdentity
    repetition: _Ordinal
    attempt: _Ordinal
    evaluates: Evaluated | None = None
    environment: Environment
    inputs: Inputs
    outputs: Outputs = Outputs()
    evaluation: Evaluation
    agent_result: AgentOutcome | None = None
    timing: Timing
    cost: Cost = Cost()
    completeness: Literal["complete", "partial"] = "complete"
    warnings: tuple[_Text, ...] = ()
    harness_version: str

    @property
    def scored(self) -> bool:
        """True if the attempt has a reward."""
        return self.evaluation.reward is not None

    @property
    def started_sec(self) -> float:
        """When the attempt began, in seconds since the epoch."""
        return self.timing.started_at.timestamp()

    def to_json(self) -> bytes:
        """Return the record as it is stored; equal records give equal bytes."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    def cleaned(self, clean: Callable[[list[Any]], list[Any]]) -> TrialRecord:
        """Return the record with the values that others wrote as ``clean`` returns them."""
        data = self.model_dump(mode="json")
        places = [*_places_of_others(self, data, _OURS)]
        values = clean([part[name] for part, name in places])
        for (part, name), value in zip(places, values, strict=True):
            part[name] = value
        return TrialRecord.model_validate(data)

    @classmethod
    def from_json(cls, data: bytes) -> TrialRecord:
        """Read a stored record; LedgerError says in one line what is wrong with ``data``."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise LedgerError(_reason(error)) from None


# Names, digests and words that the harness makes up, and the names of tasks. They hide nothing, but
# the value of a secret may be the same word, or stand in a digest by chance.
_OURS: Mapping[str, Any] = {
    "trial_id": True,
    "trial_key": True,
    "experiment_id": True,
    "run_id": True,
    "task": dict.fromkeys(("task_id", "digest", "domain", "difficulty", "visibility"), True),
    "dataset": {"content_hash": True},
    "agent": dict.fromkeys(("harness", "system_prompt_sha256", "client_sha256"), True),
    "evaluates": True,
    "environment": {"backend": True, "platform": True},
    "inputs": True,
    "outputs": {"files": {"sha256": True}, "jobs_dir": True},
    "evaluation": {
        "validity": True,
        "error": dict.fromkeys(("cause", "type", "phase"), True),
    },
    "agent_result": {"status": True, "end": True},
    "timing": True,
    "cost": True,
    "completeness": True,
    "harness_version": True,
}


def _places_of_others(
    part: _Part, data: dict[str, Any], ours: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield where others wrote: a mapping in the part's ``data``, and the key of the value."""
    for name, value in part:
        kept = ours.get(name, {})
        if kept is True:
            continue
        inner, below = (value, data[name]) if isinstance(value, tuple) else ([value], [data[name]])
        if all(isinstance(one, _Part) for one in inner):
            for one, its_data in zip(inner, below, strict=True):
                yield from _places_of_others(one, its_data, kept)
        else:
            yield data, name


def _reason(error: ValidationError) -> str:
    problems: list[Any] = error.errors(include_url=False, include_context=False)
    first = next((p for p in problems if p["loc"] == ("schema_version",)), problems[0])
    if first["loc"] == ("schema_version",):
        return (
            f"schema_version: {first['input']!r} is not known here; "
            f"this version of pytest-aecbench reads {SCHEMA_VERSION}"
        )
    where = ".".join(str(step) for step in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
