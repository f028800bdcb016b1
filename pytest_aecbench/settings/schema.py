"""The schemas of ``experiment.yaml`` and ``aec-bench.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pytest_aecbench.agents.spec import HARNESS, NAME
from pytest_aecbench.documents.problems import model_problems
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.ledger.store import EXPERIMENT_ID
from pytest_aecbench.settings.layers import DOCUMENTS

__all__ = [
    "AgentEntry",
    "ComputeConfig",
    "ExperimentConfig",
    "PathsConfig",
    "ProjectConfig",
    "ResourceLimits",
    "TasksConfig",
    "check_document",
    "json_schema",
]

_Text: TypeAlias = Annotated[
    str | None, Field(pattern=r"\S", description="a string that is not blank")
]
_Path: TypeAlias = Annotated[
    str | None,
    Field(pattern=r"^[^\x00]*[^\x00\s][^\x00]*$", description="a path below the project's root"),
]
_Count: TypeAlias = Annotated[
    int | None, Field(ge=1, lt=2**53, description="a whole number from 1")
]
_Settings: TypeAlias = Annotated[
    dict[str, JsonValue], Field(description="names with strings, numbers, true, false or lists")
]


def _some(value: object) -> object:
    if value == []:
        raise PydanticCustomError("custom", "[] would select nothing; name some or leave it out")
    return value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else _some(value)


_Words: TypeAlias = Annotated[
    list[Annotated[str, Field(pattern=r"\S")]] | None,
    Field(description="a list of strings that are not blank"),
]
_SomeWords: TypeAlias = Annotated[_Words, BeforeValidator(_some)]
_Difficulty: TypeAlias = Literal["easy", "medium", "hard"]
_Lifecycle: TypeAlias = Literal["proposed", "active", "deprecated", "retired"]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class TasksConfig(_Table):
    """The selected tasks: those that every key given here allows."""

    dataset: _Text = None
    include_patterns: _SomeWords = None
    exclude_patterns: _Words = None
    domains: _SomeWords = None
    difficulties: Annotated[
        list[_Difficulty] | None,
        BeforeValidator(_some),
        Field(description="a list of 'easy', 'medium' or 'hard'"),
    ] = None
    lifecycle: Annotated[
        list[_Lifecycle] | None,
        BeforeValidator(_listed),
        Field(description="a list of 'proposed', 'active', 'deprecated', 'retired'"),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": ["proposed", "active", "deprecated", "retired"]},
                    {
                        "type": "array",
                        "minItems": 1,
                        "items": {"enum": ["proposed", "active", "deprecated", "retired"]},
                    },
                    {"type": "null"},
                ]
            }
        ),
    ] = None


class ClientConfig(_Table):
    """The way to a model's provider."""

    kind: Annotated[str, Field(pattern=r"\S", description="the provider's name")]
    settings: _Settings = {}


def _agent_schema(schema: dict[str, Any]) -> None:
    """Let editors know the synonym."""
    schema["properties"]["adapter"] = schema["properties"]["harness"]
    schema["oneOf"] = [{"required": ["harness"]}, {"required": ["adapter"]}]
    del schema["required"]


class AgentEntry(_Table):
    """One agent; ``adapter`` is another word for ``harness``."""

    model_config = ConfigDict(json_schema_extra=_agent_schema)

    name: Annotated[
        str | None,
        Field(pattern=f"^{NAME}$", description="a name of letters, digits and '_.:-'"),
    ] = None
    harness: Annotated[
        str, Field(pattern=f"^{HARNESS}$", description="a harness such as 'oracle' or 'tool_loop'")
    ]
    model: _Text = None
    parameters: _Settings = {}
    system_prompt_file: _Text = None
    system_prompt: _Text = None
    client: ClientConfig | None = None
    files: Annotated[
        list[Annotated[str, Field(pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")]] | None,
        Field(description="a list of paths, from this file's directory or the project's root"),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        for one, other in (("adapter", "harness"), ("system_prompt", "system_prompt_file")):
            if one in data and other in data:
                raise PydanticCustomError("custom", f"has both {one!r} and {other!r}; keep one")
        return {"harness" if key == "adapter" else key: data[key] for key in data}


class ResourceLimits(_Table):
    """Limits for trials, instead of those of their tasks."""

    timeout_override: Annotated[
        float | None,
        Field(ge=0.001, le=1e9, description="a number of seconds from 0.001 to 1e9"),
    ] = None
    memory_mb: Annotated[
        int | None,
        Field(gt=0, le=10**8, description="a whole number of megabytes from 1 to 100000000"),
    ] = None
    cpus: Annotated[float | None, Field(gt=0, le=1e6, description="a number above 0")] = None
    n_concurrent_trials: _Count = None


class ComputeConfig(_Table):
    """The place where trials run; any other key is the table of the backend of that name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, _Settings]

    backend: _Text = None
    resource_limits: ResourceLimits = ResourceLimits()


class ExperimentConfig(_Table):
    """A whole ``experiment.yaml``."""

    experiment_id: Annotated[
        str | None,
        Field(
            pattern=f"^{EXPERIMENT_ID}$",
            description="1 to 128 of the characters A-Z a-z 0-9 . _ - that start with a letter "
            "or digit",
        ),
    ] = None
    name: _Text = None
    description: _Text = None
    tasks: TasksConfig = TasksConfig()
    agents: Annotated[
        list[AgentEntry] | None,
        Field(min_length=1, description="a list of at least one agent"),
    ] = None
    compute: ComputeConfig = ComputeConfig()  # type: ignore[call-arg]  # mypy takes extra for a field
    repetitions: Annotated[
        int | None, Field(ge=1, le=10_000, description="a whole number from 1 to 10000")
    ] = None
    disable_verification: Annotated[bool | None, Field(description="true or false")] = None


class ProjectTable(_Table):
    """The project itself."""

    name: _Text = None


class PathsConfig(_Table):
    """The places of files, from the project's root."""

    tasks: _Path = None
    templates: _Path = None
    seeds: _Path = None
    ledger: _Path = None
    feedback: _Path = None
    datasets: _Path = None
    jobs: _Path = None


_Usd: TypeAlias = Annotated[
    float, Field(ge=0, description="a number of USD for a million tokens, from 0")
]


class PriceConfig(_Table):
    """The price of a model, in USD for a million tokens."""

    input: _Usd
    output: _Usd
    cache_read: _Usd | None = None
    cache_write: _Usd | None = None


class ProjectConfig(_Table):
    """A whole ``aec-bench.toml``."""

    project: ProjectTable = ProjectTable()
    paths: PathsConfig = PathsConfig()
    compute: ComputeConfig = ComputeConfig()  # type: ignore[call-arg]  # mypy takes extra for a field
    prices: dict[str, PriceConfig] = {}


_Model = TypeVar("_Model", bound=BaseModel)


def check_document(
    data: dict[str, Any], model: type[_Model], where: str, *, table: str = "a table"
) -> dict[str, Any]:
    """Return what the document sets, checked; a SettingsError has a line for each problem."""
    try:
        return model.model_validate(data).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        lines = (f"{where}: {problem}" for problem in model_problems(error, model, table=table))
        raise SettingsError("\n".join(dict.fromkeys(lines))) from None


def json_schema(name: str) -> dict[str, Any]:
    """Return the schema of that name, made from the model that reads the file."""
    from pytest_aecbench.tasks.schema import TaskConfig

    models: dict[str, type[BaseModel]] = {
        "task": TaskConfig,
        "experiment": ExperimentConfig,
        "project": ProjectConfig,
    }
    schema = models[name].model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": DOCUMENTS[name],
    }
