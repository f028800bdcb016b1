"""The file of a task that configures a recursive harness, such as ``rlm.toml``: its strict reader.

An unknown table or key, a value of the wrong type or out of range, and ``null`` are errors of one
line each, with the file and the key.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from pytest_aecbench.documents.problems import model_problems
from pytest_aecbench.documents.strict import read_toml
from pytest_aecbench.errors import SettingsError, TaskError
from pytest_aecbench.host.files import shown_path

if TYPE_CHECKING:
    from pytest_aecbench.tasks.task import Task

__all__ = [
    "Budget",
    "Count",
    "Fraction",
    "Switch",
    "Table",
    "Word",
    "WorkerCount",
    "file_of_task",
    "problem",
    "read_table",
]

Budget: TypeAlias = Annotated[
    int, Field(ge=0, lt=2**53, description="a whole number from 0, which means no limit")
]
Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**53, description="a whole number from 1")]
Fraction: TypeAlias = Annotated[
    float, Field(gt=0, le=1, description="a number above 0, at most 1, such as 0.85")
]
Switch: TypeAlias = Annotated[bool, Field(description="true or false")]
Word: TypeAlias = Annotated[str, Field(pattern=r"\S", description="a string that is not blank")]
WorkerCount: TypeAlias = Annotated[
    int, Field(ge=1, le=256, description="a whole number from 1 to 256")
]

# A model must not read what its trial is verified with.
_HIDDEN = ("tests", "solution")


class Table(BaseModel):
    """A table of such a file."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


_TableT = TypeVar("_TableT", bound=BaseModel)


def read_table(path: Path, model: type[_TableT]) -> _TableT:
    """Return the values of a file, or raise a TaskError with a line for each problem."""
    try:
        data = read_toml(path)
    except SettingsError as error:
        raise TaskError(str(error)) from None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = (f"{shown_path(path)}: {line}" for line in model_problems(error, model))
        raise TaskError("\n".join(lines)) from None


def problem(message: str) -> PydanticCustomError:
    """Return an error of a value, whose message is shown as it is."""
    return PydanticCustomError("custom", message)


def file_of_task(task: Task, name: str, where: str) -> Path:
    """Return a file of the task that a model may read, by its path from the task's directory.

    ``where`` is the file and the key that name it.
    """
    root = task.path.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root) or Path(name).is_absolute():
        right = "name a file below the task's directory"
        raise TaskError(f"{where}: {name!r} is not in the task; {right}")
    if (top := path.relative_to(root).parts[:1]) and top[0] in _HIDDEN:
        right = "move the file elsewhere, because agents must not see this directory"
        raise TaskError(f"{where}: {name!r} is in {top[0]}/; {right}")
    if not path.is_file():
        raise TaskError(f"{where}: {name!r} does not exist; name a file below the task's directory")
    return path
