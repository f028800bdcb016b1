"""The metadata of a task, read without pydantic if its ``task.toml`` is plainly right.

Collection needs no more of thousands of tasks, of which few are run. A file with anything that is
not certainly right, also a key that would only give a warning, is left to the schema.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_aecbench.documents.problems import load_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Described", "PlainMetadata", "PlainTask", "plain_metadata", "without_origin"]


class _Metadata(Protocol):
    @property
    def domain(self) -> str | None: ...
    @property
    def difficulty(self) -> str | None: ...
    @property
    def visibility(self) -> str: ...
    @property
    def lifecycle(self) -> str: ...
    @property
    def category(self) -> str | None: ...
    @property
    def tags(self) -> tuple[str, ...]: ...


class PlainMetadata(NamedTuple):
    """The keys of ``[metadata]`` that tasks are selected by, with the schema's defaults."""

    domain: str | None = None
    difficulty: str | None = None
    visibility: str = "public"
    lifecycle: str = "active"
    category: str | None = None
    tags: tuple[str, ...] = ()


class Described:
    """A task with metadata: the words by which it is selected and reported."""

    __slots__ = ()

    task_id: str

    @property
    def metadata(self) -> _Metadata:
        """The keys of ``[metadata]``."""
        raise NotImplementedError

    @property
    def domain(self) -> str:
        """The domain: ``metadata.domain``, or the first part of the id."""
        first, slash, _ = self.task_id.partition("/")
        return self.metadata.domain or (first if slash else "general")

    @property
    def difficulty(self) -> str | None:
        """The difficulty, if the task has one."""
        return self.metadata.difficulty

    @property
    def visibility(self) -> str:
        """The visibility: public or held out."""
        return self.metadata.visibility

    @property
    def lifecycle(self) -> str:
        """The state of the task, such as active or retired."""
        return self.metadata.lifecycle

    @property
    def category(self) -> str | None:
        """The category, if the task has one."""
        return self.metadata.category

    @property
    def tags(self) -> tuple[str, ...]:
        """The task's tags."""
        return self.metadata.tags

    @property
    def markers(self) -> tuple[str, ...]:
        """The words for ``-m`` and ``-k``, in pytest's syntax."""
        lifecycle = self.lifecycle
        words = (
            self.domain,
            self.difficulty,
            self.visibility,
            self.category,
            *self.tags,
            None if lifecycle == "active" else lifecycle,
        )
        return _markers(words)


@lru_cache(maxsize=2048)  # because tasks are many and words are few
def _markers(words: tuple[str | None, ...]) -> tuple[str, ...]:
    names = (re.sub(r"[^\w.+/-]+", "-", word).strip("-") for word in words if word)
    return tuple(dict.fromkeys(name for name in names if name))


class PlainTask(Described):
    """A task that is right, of which only id and metadata are known."""

    __slots__ = ("_metadata", "task_id")

    def __init__(self, task_id: str, metadata: PlainMetadata) -> None:
        self.task_id = task_id
        self._metadata = metadata

    @property
    def metadata(self) -> PlainMetadata:
        """The keys of ``[metadata]``."""
        return self._metadata


# As the generator writes it: the last table, with plain values only.
_GENERATION = re.compile(r'\[generation\]\n(?:[a-z_]+ = (?:"[^"\\\n]*"|-?[0-9]+)\n)+\Z')


def without_origin(text: str) -> str:
    """Return a ``task.toml`` without the table of its origin, in which generated tasks differ."""
    start = text.rfind("\n[generation]\n") + 1
    return text[:start] if start and _GENERATION.match(text, start) else text


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _number(least: float, most: float) -> Callable[[object], bool]:
    return lambda value: type(value) in (int, float) and least <= value <= most  # type: ignore[operator]


def _whole(least: int, most: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _one_of(*choices: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in choices


_SECONDS = _number(0.001, 1e9)
# Values that certainly pass the schema, without a warning; a test compares the two.
_TABLES: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "metadata": {
        "domain": _is_text,
        "difficulty": _one_of("easy", "medium", "hard"),
        "visibility": _one_of("public", "holdout"),
        "lifecycle": _one_of("proposed", "active", "deprecated", "retired"),
        "category": _is_text,
        "tags": _are_texts,
        "pass_threshold": _number(0, 1),
        "check_allow": _are_texts,
    },
    "agent": {"timeout_sec": _SECONDS},
    "verifier": {"timeout_sec": _SECONDS, "environment_mode": _one_of("shared", "separate")},
    "environment": {
        "docker_image": _is_text,
        "build_timeout_sec": _SECONDS,
        "cpus": _number(0.001, 1e6),
        "memory_mb": _whole(1, 10**8),
        "storage_mb": _whole(1, 10**8),
        "allow_internet": lambda value: isinstance(value, bool),
    },
}


def plain_metadata(text: str) -> PlainMetadata | None:
    """Return the metadata of a plainly right ``task.toml``; None leaves it to the schema."""
    return _plain(without_origin(text))


@lru_cache(maxsize=2048)
def _plain(text: str) -> PlainMetadata | None:
    try:
        data: dict[str, Any] = load_toml(text)
    except ValueError:
        return None
    for name, value in data.items():
        if name in ("version", "schema_version"):
            is_right = _is_text(value)
        else:
            rules = _TABLES.get(name)
            is_right = (
                rules is not None
                and isinstance(value, dict)
                and all(key in rules and rules[key](one) for key, one in value.items())
            )
        if not is_right:
            return None
    found = {k: v for k, v in data.get("metadata", {}).items() if k in PlainMetadata._fields}
    return PlainMetadata(**{**found, "tags": tuple(found.get("tags", ()))})
