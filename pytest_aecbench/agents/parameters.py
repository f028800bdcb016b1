"""The parameters of model agents, checked before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from pytest_aecbench.agents import MAX_WAIT_SEC
from pytest_aecbench.documents.problems import model_problems
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.schema import McpServerConfig, distinct_names

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AdvisorParameters", "DirectParameters", "ToolLoopParameters", "read_parameters"]

_Count: TypeAlias = Annotated[
    int | None, Field(ge=1, lt=2**53, description="a whole number from 1")
]
_Seconds: TypeAlias = Annotated[
    float, Field(ge=0, le=86_400, description="a number of seconds from 0 to 86400")
]
_Usd: TypeAlias = Annotated[float | None, Field(gt=0, description="a number of USD above 0")]


class _Parameters(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class DirectParameters(_Parameters):
    """The parameters of an agent that calls a model; None leaves one to its default."""

    max_tokens: _Count = None
    temperature: Annotated[float | None, Field(ge=0, le=2, description="a number from 0 to 2")] = (
        None
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    max_cost_usd: _Usd = None
    max_wait_sec: _Seconds = MAX_WAIT_SEC
    max_retries: Annotated[int, Field(ge=0, le=100, description="a whole number from 0 to 100")] = 6
    cache_prompt: Annotated[bool, Field(description="true or false")] = True
    script: Annotated[str | None, Field(description="the digest of a script")] = None


class AdvisorParameters(_Parameters):
    """A second model that the agent may ask."""

    model: Annotated[str, Field(pattern=r"\S", description="the name of a model")]
    max_uses: Annotated[int, Field(ge=1, le=10**6, description="a whole number from 1")] = 5
    max_response_tokens: Annotated[
        int, Field(ge=1, le=10**6, description="a whole number from 1")
    ] = 500
    context_window: Annotated[
        int, Field(ge=0, le=10**6, description="how many messages the advisor is shown")
    ] = 10
    enabled: Annotated[bool, Field(description="true or false")] = True


class McpServerParameters(McpServerConfig):
    """An MCP server of the agent, on this machine."""

    model_config = ConfigDict(extra="forbid")


class ToolLoopParameters(DirectParameters):
    """The parameters of the tool loop."""

    max_turns: _Count = None
    token_budget: _Count = None
    command_timeout: Annotated[
        float | None,
        Field(gt=0, le=86_400, description="a number of seconds above 0, at most 86400"),
    ] = None
    advisor: Annotated[AdvisorParameters | None, Field(description="a table with a 'model'")] = None
    mcp_servers: Annotated[
        tuple[McpServerParameters, ...],
        Field(strict=False, description="a list of tables with 'command' or 'url'"),
        AfterValidator(distinct_names),
    ] = ()


_ParametersT = TypeVar("_ParametersT", bound=_Parameters)


def read_parameters(
    given: Mapping[str, Any], model: type[_ParametersT], where: str
) -> _ParametersT:
    """Return the parameters, or raise a SettingsError with a line for each problem."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problems = model_problems(error, model)
        lines = (f"{where}: parameters.{problem}" for problem in problems)
        raise SettingsError("\n".join(lines)) from None
