"""The nodes a task becomes: directory, ``task.toml`` and trials.

A task is a directory node holding one module node on its ``task.toml``, whose only function is
the template, parametrised by agent and repetition. The fixture closure and the parameters are the
same for all tasks of a directory, so they are worked out for the first and shared with the rest.
"""

from __future__ import annotations

import fnmatch
import os
import re
import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.errors import TaskError
from pytest_aecbench.plugin._pytest_internals import copied_item, mark, named_below, parametrised
from pytest_aecbench.plugin.items import CheckItem, SandboxItem, TrialItem
from pytest_aecbench.plugin.state import is_first_worker, settings_of, state_of
from pytest_aecbench.text import is_utf8, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    import pluggy

    from pytest_aecbench.tasks.plain import Described, PlainTask
    from pytest_aecbench.tasks.task import Task

__all__ = [
    "NamelessDirectory",
    "TaskDirectory",
    "TaskFile",
    "TaskTree",
    "TaskWarning",
    "is_check",
    "is_task",
    "is_trial",
    "needs_sandbox",
]

TASK_FILE = "task.toml"


def is_trial(node_id: str) -> bool:
    """Return whether the id is that of a trial."""
    return _is_of_a_task(node_id, "trial[")


def is_check(node_id: str) -> bool:
    """Return whether the id is that of a check."""
    return _is_of_a_task(node_id, "check[")


def _is_of_a_task(node_id: str, start: str) -> bool:
    # The parameters of any test may look like the id of a trial.
    path, _, name = node_id.partition("::")
    return path.rpartition("/")[2] == TASK_FILE and name.startswith(start)


def needs_sandbox(node_id: str) -> bool:
    """Return whether the id is that of a trial or a check, which work on the backend."""
    return is_trial(node_id) or is_check(node_id)


class TaskWarning(pytest.PytestWarning):
    """Something in a task that works but is probably not meant."""


def is_task(directory: str) -> bool:
    """Return whether the directory is one of our tasks."""
    # Asked of every directory of every pytest run on this machine: one stat and no import.
    if not _is_file(directory, TASK_FILE):
        return False
    from pytest_aecbench.tasks import task

    return _is_file(directory, task.INSTRUCTION_FILE) or task.is_task(Path(directory))


def _is_file(directory: str, name: str) -> bool:
    return os.path.isfile(f"{directory}{os.sep}{name}")  # noqa: PTH113  (ten times as fast)


class TaskTree(pytest.Directory):
    """A directory with task directories in it."""

    def collect(self) -> Iterable[pytest.Collector]:
        """Yield the tasks directly below in batches, and leave the rest to pytest."""
        ihook, session = self.ihook, self.session
        selected_only = not any(map(session.isinitpath, (self.path, *self.path.parents)))
        is_ignored = self._ignoring()
        is_shareable = not _others(self.config, "pytest_generate_tests")
        batch: list[str] = []
        with os.scandir(self.path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        names = named_below(session, self.path)
        for entry in entries:
            named = entry.name in names
            if not named and (selected_only or is_ignored(entry)):
                continue
            is_plain = is_shareable and not named and not _is_file(entry.path, "conftest.py")
            if is_plain and is_utf8(entry.name) and is_task(entry.path):
                batch.append(entry.name)
                continue
            if batch:
                yield TaskBatch.from_parent(self, names=batch)
                batch = []
            path = Path(entry.path)
            if entry.is_dir():
                node = ihook.pytest_collect_directory(path=path, parent=self)
                if node is not None:
                    yield node
            elif entry.is_file():
                yield from ihook.pytest_collect_file(file_path=path, parent=self)
        if batch:
            yield TaskBatch.from_parent(self, names=batch)

    def _ignoring(self) -> Callable[[os.DirEntry[str]], object]:
        """Return a predicate for ignored entries: pytest's hook, or a fast equivalent of it."""
        config, hook = self.config, self.ihook.pytest_ignore_collect
        patterns = config.getini("norecursedirs")
        said = [
            *(config.option.ignore or ()),
            *(config.option.ignore_glob or ()),
            *(pattern for pattern in patterns if "/" in pattern),
            *_others(config, "pytest_ignore_collect"),
            *(
                plugin
                for plugin in config.pluginmanager.get_plugins()
                if hasattr(plugin, "collect_ignore") or hasattr(plugin, "collect_ignore_glob")
            ),
        ]
        if said:
            return lambda entry: hook(collection_path=Path(entry.path), config=config)
        # The rest of pytest's own rules is slow on paths and quick on names.
        ignored = re.compile("|".join(map(fnmatch.translate, patterns)))
        return lambda entry: ignored.match(entry.name)


# Hypothesis ignores nothing but a directory that starts with a dot.
_HARMLESS = ("_pytest.", "pytest_aecbench.", "_hypothesis_pytestplugin")


def _others(config: pytest.Config, hook: str) -> list[object]:
    """Return the plugins that implement the hook in ways that we cannot foresee."""
    impls = getattr(config.pluginmanager.hook, hook).get_hookimpls()
    return [impl.plugin for impl in impls if not _name(impl.plugin).startswith(_HARMLESS)]


def _name(plugin: object) -> str:
    return str(getattr(plugin, "__name__", type(plugin).__module__))


class TaskBatch(pytest.Collector):
    """Tasks beside each other that have nothing of their own to say about fixtures.

    They are collected apart from their directory, because pytest reads a directory's conftest.py
    only when it has collected the directory.
    """

    def __init__(self, *, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(name="tasks", **kwargs)
        self.names = names

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield the tasks' trials; a task with something to report speaks for itself."""
        shared: Sequence[pytest.Function] = ()
        first = self.names[0]
        prefix = settings_of(self.config).task_id(self.path / first).removesuffix(first)
        for name in self.names:
            place = f"{name}/{TASK_FILE}"
            file: TaskFile = TaskFile.from_parent(self.parent, path=self.path / place, name=place)
            task = file.glance(f"{prefix}{name}")
            if task is None:
                yield file
            else:
                shared = shared or file.template()
                yield from file.items(task, shared)


class TaskDirectory(pytest.Directory):
    """A task; nothing in it is collected but its ``task.toml``."""

    def collect(self) -> Iterable[pytest.Collector]:
        """Yield the one file that counts."""
        return [self.file()]

    def file(self) -> TaskFile:
        """Make the node of ``task.toml``."""
        file: TaskFile = TaskFile.from_parent(self, path=self.path / TASK_FILE)
        return file


class NamelessDirectory(pytest.Directory):
    """A task, or a directory with tasks, whose name is not UTF-8, so that ids cannot have it."""

    @classmethod
    def at(cls, path: Path, parent: pytest.Collector) -> NamelessDirectory:
        """Make the node, under a name that can be shown."""
        shown = printable(path.name)
        node: NamelessDirectory = cls.from_parent(
            parent, path=path, name=shown, nodeid=f"{parent.nodeid}/{shown}"
        )
        return node

    def collect(self) -> Iterable[pytest.Collector]:
        """Refuse the directory."""
        raise self.CollectError(f"{self.nodeid}: the name is not UTF-8; rename the directory")


class TaskFile(pytest.Module):
    """A task's ``task.toml``, standing for a module with the template in it."""

    is_selected = True

    @property
    def ihook(self) -> pluggy.HookRelay:
        """The hooks of the directory it was collected in, since no other need be known."""
        assert self.parent is not None
        return self.parent.ihook

    @cached_property
    def task(self) -> Task:
        """The task, read and checked."""
        return self.read()

    def read(self) -> Task:
        """Read the task without keeping it, as thousands may be collected and few run."""
        from pytest_aecbench.tasks.task import Task

        directory = self.path.parent
        return Task.load(directory, task_id=settings_of(self.config).task_id(directory))

    def glance(self, task_id: str) -> PlainTask | None:
        """Return what collection needs of the task; None if there may be something to report."""
        from pytest_aecbench.tasks.task import Task

        return Task.glance(os.path.dirname(self.path), task_id)  # noqa: PTH120  (quicker)

    def _getobj(self) -> ModuleType:
        from pytest_aecbench.plugin import template

        return template

    def istestfunction(self, obj: object, name: str) -> bool:
        """Take the one template of this run, whatever ``python_functions`` says."""
        return name == ("check" if settings_of(self.config).checks else "trial")

    def istestclass(self, obj: object, name: str) -> bool:
        """Take no class."""
        return False

    def collect(self) -> Iterable[SandboxItem]:
        """Yield the task's trials, or its checks."""
        settings = settings_of(self.config)
        is_checked = bool(settings.checks)
        if plain := self.glance(settings.task_id(self.path.parent)):
            return self.items(plain, self.template())
        try:
            task = self.read()
        except TaskError as error:
            if is_checked:
                return self.items(None, self.template())
            raise self.CollectError(str(error)) from None
        if is_checked:  # one of which tells what there is to warn of
            return self.items(task, self.template())
        # Every worker collects, but one of them is enough to say what all would say.
        with warnings.catch_warnings(record=not is_first_worker(self.config)):
            self._warn(task.warnings)
        return self.items(task, self.template())

    def _warn(self, messages: Iterable[str]) -> None:
        for message in messages:
            try:
                warnings.warn_explicit(TaskWarning(message), None, str(self.path), lineno=1)
            except TaskWarning as warning:  # where warnings are errors
                raise self.CollectError(str(warning)) from None

    def template(self) -> Sequence[pytest.Function]:
        """Work out the template's parameters and fixtures by pytest's own machinery."""
        return parametrised(self)

    def items(
        self, task: Described | None, template: Iterable[pytest.Function]
    ) -> list[SandboxItem]:
        """Make the task's items from a template worked out here or for a sibling."""
        settings, state = settings_of(self.config), state_of(self.config)
        kind: type[SandboxItem] = CheckItem if settings.checks else TrialItem
        if task is not None:
            self.is_selected = settings.selection.takes(task)
            words = task.markers
            if words not in state.marks:
                state.marks[words] = _marks(self.config, words)
            marks = state.marks[words]
            # As add_marker does one by one, because of six words of each of ten thousand tasks.
            self.own_markers.extend(marks.values())
            self.keywords.update(marks)
            self.extra_keyword_matches.update(word for word in words if word not in marks)
        items = [copied_item(kind, self, function) for function in template]
        stored = state.stored
        if stored is None or task is None:
            return items
        return [
            item
            for item in items
            if not isinstance(item, TrialItem)
            or stored.trial_id(task.task_id, item.agent, item.repetition) is not None
        ]


def _marks(config: pytest.Config, words: Iterable[str]) -> dict[str, pytest.Mark]:
    """Return the marks of the words, without those that already mean something else."""
    markers = {word: _marker(config, word) for word in words}
    return {word: marker.mark for word, marker in markers.items() if marker is not None}


def _marker(config: pytest.Config, name: str) -> pytest.MarkDecorator | None:
    """Return a registered marker of that name; None where it already means something else."""
    markers = state_of(config).markers
    if not markers:
        lines: list[str] = config.getini("markers")
        markers.update({line.partition(":")[0].partition("(")[0]: None for line in lines})
    if name not in markers:
        config.addinivalue_line("markers", f"{name}: tasks with this word in their metadata")
        markers[name] = None if name.startswith("_") else mark(name)
    return markers[name]
