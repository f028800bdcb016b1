"""The schema of ``task.toml``: models, defaults, and one line for each problem."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pytest_aecbench.documents.problems import dotted, load_toml, model_problems, shown
from pytest_aecbench.tasks.plain import without_origin
from pytest_aecbench.tasks.tools import BUILT_IN, TOOL_NAME
from pytest_aecbench.text import did_you_mean, nearest

__all__ = [
    "AgentConfig",
    "EnvironmentConfig",
    "HealthcheckConfig",
    "McpServerConfig",
    "MetadataConfig",
    "ParsedConfig",
    "SolutionConfig",
    "TaskConfig",
    "ToolConfig",
    "VerifierConfig",
    "distinct_names",
    "parse_config",
]

# No command takes a millisecond, and longer timeouts than 1e9 overflow in the standard library.
_Seconds = Annotated[
    float, Field(ge=0.001, le=1e9, description="a number of seconds from 0.001 to 1e9")
]
_Megabytes = Annotated[
    int | None, Field(gt=0, le=10**8, description="a whole number of megabytes from 1 to 100000000")
]
_Text = Annotated[str | None, Field(pattern=r"\S", description="a string that is not blank")]
_Texts = Annotated[
    tuple[Annotated[str, Field(pattern=r"\S")], ...],
    Field(strict=False, description="an array of strings that are not blank"),
]
_Env = Annotated[
    Mapping[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")],
        Annotated[str, Field(pattern=r"^[^\x00]*$")],
    ],
    Field(description="names of letters, digits and '_' with strings as values"),
]
_User = Annotated[
    str | None,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    Field(pattern=r"^\w[\w.:-]*$", description="a user's name or number"),
    WithJsonSchema({"type": ["string", "integer", "null"], "pattern": r"^\w[\w.:-]*$"}),
]


class _Table(BaseModel):
    # Unknown keys only give warnings, so they are found separately from validation.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class MetadataConfig(_Table):
    """The subject of the task, for selection and reports."""

    domain: _Text = None
    difficulty: Literal["easy", "medium", "hard"] | None = None
    visibility: Literal["public", "holdout"] = "public"
    lifecycle: Literal["proposed", "active", "deprecated", "retired"] = "active"
    category: _Text = None
    tags: _Texts = ()
    pass_threshold: Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1")] = 1.0
    check_allow: _Texts = ()


class AgentConfig(_Table):
    """Settings of the agent."""

    timeout_sec: _Seconds = 600.0
    user: _User = None


class VerifierConfig(_Table):
    """Settings of the verifier."""

    timeout_sec: _Seconds = 300.0
    environment_mode: Literal["shared", "separate"] | None = None
    env: _Env = {}
    user: _User = None


_Delay = Annotated[float, Field(ge=0, le=1e9, description="a number of seconds from 0 to 1e9")]


class HealthcheckConfig(_Table):
    """The command that tests whether a sandbox is ready; failures in the start period are free."""

    command: Annotated[str, Field(pattern=r"\S", description="a shell command")]
    interval_sec: _Delay = 5.0
    timeout_sec: _Seconds = 30.0
    start_period_sec: _Delay = 0.0
    start_interval_sec: _Delay = 5.0
    retries: Annotated[int, Field(ge=1, le=10**6, description="a whole number above 0")] = 3

    @property
    def longest_sec(self) -> float:
        """The longest time until the sandbox is known to be unhealthy."""
        rounds = self.retries * (self.interval_sec + self.timeout_sec)
        return self.start_period_sec + self.start_interval_sec + self.timeout_sec + rounds


def _not_built_in(name: str) -> str:
    if name in BUILT_IN:
        raise PydanticCustomError("custom", f"{name!r} is a built-in tool; use another name")
    return name


def _object_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if problem := _schema_problem(schema):
        raise PydanticCustomError("custom", problem)
    return schema


def _schema_problem(schema: Mapping[str, Any]) -> str | None:
    """Return what keeps this from being the JSON schema of an object; details are not checked."""
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return "holds a date, a time, nan or inf; use what JSON has"
    kind, properties = schema.get("type", "object"), schema.get("properties", {})
    required = schema.get("required", [])
    if kind != "object":
        return f"type {shown(kind)} is not valid; use 'object'"
    if not isinstance(properties, dict):
        return f"properties {shown(properties)} is not valid; use a table"
    for name, one in properties.items():
        if not isinstance(one, dict):
            return f"{dotted('properties', name)}: {shown(one)} is not valid; use a table"
    if not isinstance(required, list):
        return f"required {shown(required)} is not valid; use an array of names"
    for name in required:
        if name not in list(properties):
            return f"required {shown(name)} is not a property; add it to properties"
    return None


class ToolConfig(_Table):
    """A tool of the task: a command that gets its arguments as JSON on standard input."""

    name: Annotated[
        str,
        Field(
            pattern=f"^{TOOL_NAME}$",
            description="a name of at most 64 letters, digits, '_' and '-' that starts with a "
            "letter or '_'",
        ),
        AfterValidator(_not_built_in),
    ]
    description: _Text = None
    command: _Text = None
    parameters: Annotated[
        Mapping[str, Any],
        Field(description="a table with the JSON schema of an object"),
        AfterValidator(_object_schema),
    ] = {}
    timeout_sec: Annotated[
        float | None,
        Field(ge=0.001, le=1e9, description="a number of seconds from 0.001 to 1e9"),
    ] = None


class McpServerConfig(_Table):
    """An MCP server: a command that speaks on its standard streams, or a URL."""

    name: Annotated[str, Field(pattern=r"\S", description="a string that is not blank")]
    transport: Literal["stdio", "sse", "streamable-http"] | None = None
    command: _Text = None
    args: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[^\x00]*$")], ...],
        Field(strict=False, description="an array of strings"),
    ] = ()
    env: Annotated[_Env, Field(repr=False)] = {}  # tracebacks show what is represented
    url: Annotated[
        str | None, Field(pattern=r"^https?://\S+$", description="a URL that starts with http")
    ] = None
    headers: Annotated[
        Mapping[
            Annotated[str, Field(pattern=r"^[\w!#$%&'*+.^`|~-]+$")],
            Annotated[str, Field(pattern=r"^[^\x00\r\n]*$")],
        ],
        Field(description="names of HTTP headers with strings as values", repr=False),
    ] = {}

    @model_validator(mode="after")
    def _reachable(self) -> McpServerConfig:
        needed, other = ("command", "url") if self.kind == "stdio" else ("url", "command")
        if getattr(self, needed) is None:
            raise PydanticCustomError("custom", f"has no {needed!r}; {self.kind} needs one")
        if getattr(self, other) is not None:
            raise PydanticCustomError("custom", "has both 'command' and 'url'; keep one")
        return self

    @property
    def kind(self) -> Literal["stdio", "sse", "streamable-http"]:
        """The transport; without one, that of a command is stdio and that of a URL is Harbor's."""
        return self.transport or ("sse" if self.command is None and self.url else "stdio")

    def to_json(self) -> dict[str, Any]:
        """Return the server in Harbor's form, without keys that say nothing."""
        given = self.model_dump(mode="json", exclude_defaults=True)
        return {**given, "transport": self.kind}


_Named = TypeVar("_Named", bound=ToolConfig | McpServerConfig)


def distinct_names(entries: tuple[_Named, ...]) -> tuple[_Named, ...]:
    """Return the entries, unless two of them have the same name."""
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            twice = f"two are named {shown(name)}; give each its own name"
            raise PydanticCustomError("custom", twice)
    return entries


class EnvironmentConfig(_Table):
    """The image and the limits of the sandbox; None where the task sets no limit.

    ``allow_internet`` decides about the network; it already includes ``network_mode``.
    """

    extensions: _Texts = ()
    docker_image: _Text = None
    build_timeout_sec: _Seconds = 600.0
    cpus: Annotated[float | None, Field(gt=0, le=1e6, description="a number above 0")] = None
    memory_mb: _Megabytes = None
    storage_mb: _Megabytes = None
    gpus: Annotated[int, Field(ge=0, le=1024, description="a whole number from 0 to 1024")] = 0
    allow_internet: Annotated[bool, Field(description="true or false")] = True
    network_mode: Literal["public", "no-network"] | None = None
    os: Literal["linux"] = "linux"
    workdir: Annotated[
        str | None,
        Field(pattern=r"^/[^\x00-\x1f\x7f]*$", description="a path that starts with '/'"),
    ] = None
    env: _Env = {}
    healthcheck: Annotated[
        HealthcheckConfig | None, Field(description="a table with a 'command'")
    ] = None
    tools: Annotated[
        tuple[ToolConfig, ...],
        Field(strict=False, description="an array of tables with a 'name'"),
        AfterValidator(distinct_names),
    ] = ()
    mcp_servers: Annotated[
        tuple[McpServerConfig, ...],
        Field(strict=False, description="an array of tables with 'command' or 'url'"),
        AfterValidator(distinct_names),
    ] = ()

    @property
    def healthcheck_sec(self) -> float:
        """The longest time to find out whether the sandbox is healthy."""
        return self.healthcheck.longest_sec if self.healthcheck else 0.0


class SolutionConfig(_Table):
    """Settings of the reference solution."""

    env: _Env = {}


class TaskConfig(_Table):
    """A whole ``task.toml``."""

    version: _Text = None
    schema_version: _Text = None
    metadata: MetadataConfig = MetadataConfig()
    agent: AgentConfig = AgentConfig()
    verifier: VerifierConfig = VerifierConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    solution: SolutionConfig = SolutionConfig()


# The tables by their keys, and those within them.
_TABLES: dict[str, type[_Table]] = {
    "metadata": MetadataConfig,
    "agent": AgentConfig,
    "verifier": VerifierConfig,
    "environment": EnvironmentConfig,
    "environment.healthcheck": HealthcheckConfig,
    "environment.tools": ToolConfig,
    "environment.mcp_servers": McpServerConfig,
    "solution": SolutionConfig,
}

# The rest of Harbor's schema: informative keys, keys without effect here, and refused ones. The
# table of a generated task, which says where it comes from, is informative too.
_INFORMATION = {
    "agent.setup_timeout_sec",
    "environment.gpu_types",
    "generation",
    "metadata.subcategory",
    "metadata.subdomain",
    "multi_step_reward_mode",
    "multi_step_reward_strategy",
    "source",
    "task",
}
_NO_EFFECT = {
    "agent.allowed_hosts",
    "agent.network_mode",
    "artifacts",
    "environment.skills_dir",
    "environment.tpu",
    "verifier.allowed_hosts",
    "verifier.collect",
    "verifier.network_mode",
}
_REFUSED = {
    "environment.allowed_hosts": "single hosts cannot be allowed; "
    "leave it out and set environment.network_mode to one of 'no-network', 'public'",
    "steps": "a task of several steps cannot be run; make each step a task of its own",
    "verifier.environment": "the verifier cannot have an image of its own; "
    "leave it out and set verifier.environment_mode to one of 'separate', 'shared'",
}


class ParsedConfig(NamedTuple):
    """A parsed ``task.toml``; ``config`` is None exactly when there are problems."""

    config: TaskConfig | None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_config(text: str) -> ParsedConfig:
    """Parse a ``task.toml``; each problem and warning is a line that starts with its key."""
    return _parsed(without_origin(text))


@lru_cache(maxsize=2048)  # because every worker reads all tasks
def _parsed(text: str) -> ParsedConfig:
    try:
        data = load_toml(text)
    except ValueError as error:
        return ParsedConfig(None, (str(error),))
    problems = _adopt_spellings(data)
    warnings = []
    for key, value, table in _foreign_keys(data):
        if key in _REFUSED:
            problems += [f"{key}: {_REFUSED[key]}"] if value else []
        elif key in _NO_EFFECT:
            unmet = f"{key}: {shown(value)} has no effect; the task runs without it"
            warnings += [unmet] if value else []
        elif key not in _INFORMATION and (hint := _hint(key.rpartition(".")[2], table)):
            warnings.append(f"{key}: unknown key; {hint}")
    config = None
    try:
        config = TaskConfig.model_validate(data)
    except ValidationError as error:
        problems += model_problems(error, TaskConfig)
    return ParsedConfig(None if problems else config, tuple(problems), tuple(warnings))


def _adopt_spellings(data: dict[str, Any]) -> list[str]:
    """Copy Harbor's other spellings of our keys to ours; return the problems with them."""
    environment = data.get("environment")
    if not isinstance(environment, dict):
        return []
    problems = []
    for theirs, ours in (("memory", "memory_mb"), ("storage", "storage_mb")):
        if theirs not in environment:
            continue
        size = environment.pop(theirs)
        where = f"environment.{theirs}: {shown(size)}"
        if not (megabytes := _megabytes(size)):
            problems.append(f"{where} is not valid; use a size such as '512M' or '2G'")
        elif environment.setdefault(ours, megabytes) != megabytes:
            problems.append(f"{where} is not the same as {ours}; leave one of them out")
    mode, internet = environment.get("network_mode"), environment.get("allow_internet", True)
    if mode in ("no-network", "public") and isinstance(internet, bool):
        environment["allow_internet"] = mode == "public"
    return problems


_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([KMG])(?:i?B)?", re.IGNORECASE)
_KILOBYTES = {"K": 1, "M": 1024, "G": 1024**2}


def _megabytes(size: object) -> int | None:
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    return int(float(match[1]) * _KILOBYTES[match[2].upper()] / 1024) if match else None


def _foreign_keys(
    data: dict[str, Any], table: type[_Table] = TaskConfig, within: str = ""
) -> Iterator[tuple[str, Any, type[_Table]]]:
    """Yield each key that our models lack, with its value and its table's model."""
    # In the document's order, so that warnings have it too.
    for key in sorted(data) if within else data:
        name = f"{within}.{dotted(key)}" if within else dotted(key)
        if key not in table.model_fields:
            yield name, data[key], table
        elif name in _TABLES:
            for part, where in _tables_in(data[key], name):
                yield from _foreign_keys(part, _TABLES[name], where)


def _tables_in(value: Any, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the table, or each table of the array, with its place."""
    if isinstance(value, dict):
        yield value, name
    elif isinstance(value, list):
        entries = ((item, f"{name}.{index}") for index, item in enumerate(value))
        yield from ((item, where) for item, where in entries if isinstance(item, dict))


def _hint(name: str, table: type[_Table]) -> str | None:
    # Harbor's metadata is free text, so only a probable misspelling gives a warning.
    free = table is MetadataConfig
    if free and nearest(name, table.model_fields, cutoff=0.8) is None:
        return None
    return did_you_mean(name, table.model_fields)
