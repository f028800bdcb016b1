"""The parameters of agents, checked before anything runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pytest_aecbench.agents import MAX_WAIT_SEC
from pytest_aecbench.documents.problems import model_problems
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.schema import McpServerConfig, distinct_names

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AdvisorParameters",
    "CommandParameters",
    "DirectParameters",
    "LambdaRlmParameters",
    "RecipeParameters",
    "ToolLoopParameters",
    "TurnedRecipeParameters",
    "read_parameters",
]

_Count: TypeAlias = Annotated[
    int | None, Field(ge=1, lt=2**53, description="a whole number from 1")
]
_Seconds: TypeAlias = Annotated[
    float, Field(ge=0, le=86_400, description="a number of seconds from 0 to 86400")
]
_Usd: TypeAlias = Annotated[float | None, Field(gt=0, description="a number of USD above 0")]


_Text: TypeAlias = Annotated[
    str | None, Field(pattern=r"\S", description="a text that is not blank")
]


def _set(name: str) -> str:
    if name not in os.environ:
        right = "set it in the environment or in .env, or leave it out"
        raise PydanticCustomError("custom", f"{name} is not set; {right}")
    return name


_Variables: TypeAlias = Annotated[
    list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_set)]] | None,
    Field(description="a list of names of variables, without their values"),
]


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


class LambdaRlmParameters(DirectParameters):
    """The parameters of ``lambda-rlm``; its texts differ from call to call, so none is kept."""

    token_budget: _Count = None
    cache_prompt: Annotated[bool, Field(description="true or false")] = False


class _ProgramParameters(_Parameters):
    """The parameters of a program in the sandbox; ``env`` names variables of the host."""

    install: _Text = None
    version: _Text = None
    env: _Variables = None
    network: Annotated[bool | None, Field(description="true or false")] = None


class CommandParameters(_ProgramParameters):
    """The parameters of a command; the limits go into the sandbox as they are."""

    command: _Text = None
    run: _Text = None
    output: Literal["json", "jsonl"] | None = None
    max_tokens: str | int | None = None
    max_turns: str | int | None = None
    command_timeout: str | int | float | None = None
    api_version: _Text = None
    files: Annotated[dict[str, str], Field(description="the digests of the agent's files")] = {}

    @model_validator(mode="after")
    def _makes_sense(self) -> CommandParameters:
        if self.command and self.run:
            raise PydanticCustomError("custom", "command: is given beside 'run'; keep one of them")
        if not (self.command or self.run or self.install):
            raise PydanticCustomError("custom", "command: missing; write a shell command there")
        if self.install and not self.run:
            right = "add the command that starts what it installs"
            raise PydanticCustomError("custom", f"install: needs 'run'; {right}")
        return self


class RecipeParameters(_ProgramParameters):
    """The parameters of a recipe; ``arguments`` are further words of its command line."""

    arguments: Annotated[list[str], Field(description="a list of words")] = []


class TurnedRecipeParameters(RecipeParameters):
    """The parameters of a recipe whose program can limit its turns."""

    max_turns: _Count = None


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
