"""The manifest of a dataset: its tasks, and the hashes of their files.

Importing this module imports pydantic; import it under TYPE_CHECKING where manifests are only
passed on.
"""

from __future__ import annotations

import hashlib
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from pytest_aecbench.datasets.names import NAME, check_version, clash, problem_with
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.digest import is_ignored
from pytest_aecbench.tasks.task import TASK_FILE

__all__ = ["MAX_FILES", "MAX_MANIFEST_BYTES", "Description", "Manifest", "Source", "TaskEntry"]

# Enough for tens of thousands of tasks, and small enough to read.
MAX_MANIFEST_BYTES = 32 << 20
MAX_FILES = 250_000


def _safe(path: str) -> str:
    if problem := problem_with(path):
        raise ValueError(f"{problem}; use a path such as 'electrical/voltage-drop'")
    return path


def _part_of_a_task(path: str) -> str:
    if any(map(is_ignored, _safe(path).split("/"))):
        raise ValueError("is not part of a task; leave it out")
    return path


def _semantic(version: str) -> str:
    try:
        return check_version(version, "version")
    except SettingsError:
        raise ValueError("is not a semantic version; use one such as '1.0.0'") from None


def _utc(value: datetime) -> datetime:
    return value.astimezone(timezone.utc)


_Sha256: TypeAlias = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
_Path: TypeAlias = Annotated[str, AfterValidator(_safe)]
_FilePath: TypeAlias = Annotated[str, AfterValidator(_part_of_a_task)]


class _Part(BaseModel):
    # Unknown keys come from newer versions of this package and are not an error.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class TaskEntry(_Part):
    """One task and the hashes of its files; ``programs`` are the executable ones."""

    task_id: _Path
    task_path: _Path
    content_hash: _Sha256
    domain: str
    difficulty: str | None = None
    tags: tuple[str, ...] = ()
    visibility: Literal["public", "holdout"] = "public"
    files: Annotated[dict[_FilePath, _Sha256], Field(min_length=1)]
    programs: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> TaskEntry:
        if f"/{self.task_path}".endswith(f"/{self.task_id}") is False:
            raise ValueError(f"task_path {self.task_path!r} does not end with the task's id")
        if TASK_FILE not in self.files:
            raise ValueError(f"files has no {TASK_FILE}, so this is not a task")
        if not set(self.programs) <= self.files.keys():
            raise ValueError("programs lists files that are not in files")
        return self

    def kind(self, path: str) -> str:
        """Return the file's kind in the digest of its task."""
        return "program" if path in self.programs else "file"


class Description(_Part):
    """The dataset's purpose and content, described for people."""

    summary: str = ""
    purpose: str = ""
    standards: tuple[str, ...] = ()
    domains: tuple[str, ...]
    difficulty_distribution: Mapping[str, Annotated[int, Field(ge=0)]]
    task_count: int


class Source(_Part):
    """The origin of the dataset."""

    method: str = "manual"
    suite_config: dict[str, JsonValue] = {}
    seed: int | None = None
    template_versions: dict[str, str] = {}


class Manifest(_Part):
    """A whole dataset: two with the same ``content_hash`` have the same tasks."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    version: Annotated[str, AfterValidator(_semantic)]
    content_hash: _Sha256
    created_at: Annotated[AwareDatetime, AfterValidator(_utc)]
    description: Description
    tasks: Annotated[tuple[TaskEntry, ...], Field(min_length=1)]
    source: Source = Source()

    @classmethod
    def of(
        cls,
        name: str,
        version: str,
        tasks: Iterable[TaskEntry],
        *,
        summary: str = "",
        purpose: str = "",
        standards: Iterable[str] = (),
        source: Source | None = None,
    ) -> Manifest:
        """Return a manifest of the tasks, dated now; raise SettingsError if they conflict."""
        entries = tuple(sorted(tasks, key=lambda task: task.task_id))
        difficulties = Counter(task.difficulty or "unspecified" for task in entries)
        description = Description(
            summary=summary,
            purpose=purpose,
            standards=tuple(standards),
            domains=tuple(sorted({task.domain for task in entries})),
            difficulty_distribution=dict(sorted(difficulties.items())),
            task_count=len(entries),
        )
        try:
            return cls(
                name=name,
                version=version,
                content_hash=_content_hash(entries),
                created_at=datetime.now(timezone.utc).replace(microsecond=0),
                description=description,
                tasks=entries,
                source=source or Source(),
            )
        except ValidationError as error:
            raise SettingsError(f"{name}@{version}: {_reason(error)}") from None

    @property
    def ref(self) -> str:
        """The dataset as users write it."""
        return f"{self.name}@{self.version}"

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Manifest:
        if sum(len(task.files) for task in self.tasks) > MAX_FILES:
            raise ValueError(f"there are more than {MAX_FILES} files; make several datasets of it")
        paths = (f"{task.task_id}/{path}" for task in self.tasks for path in task.files)
        if pair := clash(paths):
            raise ValueError(f"{pair[0]!r} and {pair[1]!r} cannot be beside each other")
        _check_apart([task.task_id for task in self.tasks])
        if self.description.task_count != len(self.tasks):
            said = self.description.task_count
            raise ValueError(f"description.task_count is {said}, but there are {len(self.tasks)}")
        if self.content_hash != _content_hash(self.tasks):
            raise ValueError("content_hash is not that of the tasks, so something was changed")
        return self

    def to_json(self) -> bytes:
        """Return the manifest as stored bytes."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Manifest:
        """Return a stored manifest; raise SettingsError of one line if ``data`` is not one."""
        if len(data) > MAX_MANIFEST_BYTES:
            raise SettingsError(f"{where}: more than {MAX_MANIFEST_BYTES >> 20} MiB; {_RIGHT}")
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise SettingsError(f"{where}: {_reason(error)}; {_RIGHT}") from None


_RIGHT = "use a manifest written by 'aec-bench dataset create'"


def _check_apart(task_ids: Iterable[str]) -> None:
    known = set(task_ids)
    for task_id in known:
        parent = task_id
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent in known:
                raise ValueError(f"the task {task_id!r} is inside the task {parent!r}")


def _content_hash(tasks: Iterable[TaskEntry]) -> str:
    digest = hashlib.sha256()
    for task in sorted(tasks, key=lambda task: task.task_id):
        for part in (task.task_id.encode(), task.content_hash.encode()):
            digest.update(len(part).to_bytes(8, "big") + part)
    return f"sha256:{digest.hexdigest()}"


def _reason(error: ValidationError) -> str:
    (first, *_) = problems = error.errors(include_url=False, include_context=False)
    where = ".".join(_step(step) for step in first["loc"] if step != "[key]")
    what = re.sub("^Value error, ", "", first["msg"]).replace("\n", " ")
    shown: Any = first["input"]
    if isinstance(shown, (str, int, float)) and first["type"] != "json_invalid":
        what = f"{reprlib.repr(shown)}: {what}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{where}: {what}{more}" if where else f"{what}{more}"


def _step(step: int | str) -> str:
    text = str(step)
    return text if re.fullmatch(r"[\w./-]{1,80}", text) else reprlib.repr(text)
