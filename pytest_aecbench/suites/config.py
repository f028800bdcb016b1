"""The schema of ``suite.toml``: which templates, how many instances, of which kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from pytest_aecbench.documents.problems import model_problems
from pytest_aecbench.documents.strict import read_toml
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path

__all__ = ["SuiteConfig", "load_suite"]

_Texts: TypeAlias = Annotated[
    tuple[Annotated[str, Field(pattern=r"\S")], ...],
    Field(strict=False, min_length=1, description="a list of texts"),
]
_Share: TypeAlias = Annotated[
    float | int, Field(ge=0, le=1_000_000, description="a number from 0 to 1000000")
]
_Count: TypeAlias = Annotated[
    int, Field(ge=1, le=1_000_000, description="a whole number from 1 to 1000000")
]


def _dashed(value: object) -> object:
    """Return a table whose keys have dashes, because ``with_tool`` means ``with-tool``."""
    if not isinstance(value, Mapping):
        return value
    dashed = {str(key).replace("_", "-"): share for key, share in value.items()}
    if len(dashed) < len(value):
        raise PydanticCustomError("custom", "a key is there with _ and with -; leave one out")
    return dashed


def _some_share(value: object) -> object:
    if isinstance(value, Mapping) and value and not any(value.values()):
        raise PydanticCustomError("custom", "all shares are 0; give at least one of them more")
    return value


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Coverage(_Table):
    """The shares of the difficulties, and what every discipline gets at least."""

    difficulties: Annotated[
        dict[Literal["easy", "medium", "hard"], _Share],
        BeforeValidator(_some_share),
        Field(description="a table of shares, as in { easy = 0.5, hard = 0.5 }"),
    ] = {}
    min_tasks_per_discipline: Annotated[
        int, Field(ge=0, le=1_000_000, description="a whole number from 0")
    ] = 3


class Templates(_Table):
    """The templates of the suite."""

    include: _Texts = ("*/*",)
    user_dirs: Annotated[
        tuple[str, ...], Field(strict=False, description="a list of directories")
    ] = ()


class VisibilityMix(_Table):
    """The shares of the visibilities."""

    mix: Annotated[
        dict[Literal["all_given", "partial"], _Share],
        BeforeValidator(_some_share),
        Field(description="a table of shares, as in { all_given = 0.8, partial = 0.2 }"),
    ] = {}


class ToolModeMix(_Table):
    """The shares of the tool modes, among templates that have both."""

    mix: Annotated[
        dict[Literal["with-tool", "no-tool"], _Share],
        BeforeValidator(_dashed),
        BeforeValidator(_some_share),
        Field(description="a table of shares, as in { with_tool = 1.0 }"),
    ] = {}


class Instances(_Table):
    """Numbers of instances."""

    per_task: _Count = 5
    total_max: _Count = 200
    exact: Annotated[bool, Field(description="true or false")] = False


class Output(_Table):
    """The place of the tasks."""

    dir: Annotated[str, Field(pattern=r"\S", description="a directory below the project's tasks")]


class SuiteConfig(_Table):
    """A whole ``suite.toml``."""

    name: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", description="a name such as 'my-suite'")
    ]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="a whole number from 0")]
    coverage: Coverage = Coverage()
    templates: Templates = Templates()
    visibility: VisibilityMix = VisibilityMix()
    tool_mode: ToolModeMix = ToolModeMix()
    instances: Instances = Instances()
    split: Annotated[
        dict[Literal["train", "val", "test"], _Share],
        BeforeValidator(_some_share),
        Field(description="shares or counts, as in { train = 0.8, test = 0.2 }"),
    ] = {}
    holdout: Annotated[
        bool | tuple[Literal["train", "val", "test"], ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
        Field(description="true, false or a list of splits"),
    ] = False
    output: Annotated[Output, Field(description="a table [output] with 'dir'")]

    def is_held_out(self, split: str) -> bool:
        """Return whether the tasks of a split are held out."""
        return self.holdout if isinstance(self.holdout, bool) else split in self.holdout

    def warnings(self) -> list[str]:
        """Return a line for each mix whose shares do not add up to 1."""
        sums = {
            "coverage.difficulties": math.fsum(self.coverage.difficulties.values()),
            "visibility.mix": math.fsum(self.visibility.mix.values()),
            "tool_mode.mix": math.fsum(self.tool_mode.mix.values()),
        }
        return [
            f"{key}: the shares add up to {total:g}; they count in proportion"
            for key, total in sums.items()
            if total and abs(total - 1) > 0.01
        ]


def load_suite(path: Path) -> SuiteConfig:
    """Return the checked suite of a file, or raise SettingsError with a line for each problem."""
    data = read_toml(path)
    try:
        return SuiteConfig.model_validate(data)
    except ValidationError as error:
        where = shown_path(path)
        problems = model_problems(error, SuiteConfig)
        raise SettingsError("\n".join(f"{where}: {problem}" for problem in problems)) from None
