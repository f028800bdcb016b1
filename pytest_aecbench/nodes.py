"""The nodes a task becomes: directory, ``task.toml`` and trials.

A task is a directory node holding one module node on its ``task.toml``, whose only function is
the template, parametrised by agent and repetition. The fixture closure and the parameters are the
same for all tasks of a directory, so they are worked out for the first and shared with the rest.
"""

from __future__ import annotations

import fnmatch
import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from pytest_aecbench.config import settings_of
from pytest_aecbench.errors import AecBenchError, TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    import pluggy
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from pytest_aecbench.agentspec import AgentSpec
    from pytest_aecbench.task import Task
    from pytest_aecbench.trial import Trial

__all__ = ["TaskDirectory", "TaskFile", "TaskTree", "TaskWarning", "TrialItem", "is_task"]

TASK_FILE = "task.toml"


class TaskWarning(pytest.PytestWarning):
    """Something in a task that works but is probably not meant."""


def is_task(directory: str) -> bool:
    """Tell whether the directory is one of our tasks."""
    # Asked of every directory of every pytest run on this machine: one stat and no import.
    if not _is_file(directory, TASK_FILE):
        return False
    from pytest_aecbench import task

    return _is_file(directory, task.INSTRUCTION_FILE) or task.is_task(Path(directory))


def _is_file(directory: str, name: str) -> bool:
    return os.path.isfile(f"{directory}{os.sep}{name}")  # noqa: PTH113  (ten times as fast)


class TaskTree(pytest.Directory):
    """A directory with task directories in it."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield the trials of the tasks directly below, and leave the rest to pytest."""
        session = self.session
        selected_only = not any(map(session.isinitpath, (self.path, *self.path.parents)))
        is_ignored = self._ignoring()
        shareable = all(
            _is_from(impl, "_pytest.", "pytest_aecbench.")
            for impl in self.ihook.pytest_generate_tests.get_hookimpls()
        )
        shared: Sequence[pytest.Function] = ()
        with os.scandir(self.path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            path = Path(entry.path)
            named = session.isinitpath(path, with_parents=True)
            if not named and (selected_only or is_ignored(path)):
                continue
            is_plain = not named and shareable and not _is_file(entry.path, "conftest.py")
            if is_plain and is_task(entry.path):
                file: TaskFile = TaskFile.from_parent(self, path=path / TASK_FILE)
                task = file.read_quietly()
                if task is None:
                    yield file
                else:
                    shared = shared or file.template()
                    yield from file.trials(task, shared)
            elif entry.is_dir():
                node = self.ihook.pytest_collect_directory(path=path, parent=self)
                if node is not None:
                    yield node
            elif entry.is_file():
                yield from self.ihook.pytest_collect_file(file_path=path, parent=self)

    def _ignoring(self) -> Callable[[Path], object]:
        """Return what tells ignored paths: pytest's hook, or the little of it that matters."""
        config, hook = self.config, self.ihook.pytest_ignore_collect
        names = ("collect_ignore", "collect_ignore_glob")
        plugins = config.pluginmanager.get_plugins()
        patterns = config.getini("norecursedirs")
        if (
            config.option.ignore
            or config.option.ignore_glob
            or any(hasattr(plugin, name) for plugin in plugins for name in names)
            or any("/" in pattern for pattern in patterns)
        ):
            return lambda path: hook(collection_path=path, config=config)
        # What is left of pytest's own rules is slow on paths and quick on names.
        ignored = re.compile("|".join(map(fnmatch.translate, patterns)))
        others = {impl.plugin for impl in hook.get_hookimpls() if not _is_from(impl, "_pytest.")}
        others_hook = config.pluginmanager.subset_hook_caller(
            "pytest_ignore_collect", plugins - others
        )
        return lambda path: (
            ignored.match(path.name) or others_hook(collection_path=path, config=config)
        )


def _is_from(impl: pluggy.HookImpl, *modules: str) -> bool:
    """Tell whether these modules implement the hook."""
    name = getattr(impl.plugin, "__name__", type(impl.plugin).__module__)
    return str(name).startswith(modules)


class TaskDirectory(pytest.Directory):
    """A task; nothing in it is collected but its ``task.toml``."""

    def collect(self) -> Iterable[pytest.Collector]:
        """Yield the one file that counts."""
        return [self.file()]

    def file(self) -> TaskFile:
        """Make the node of ``task.toml``."""
        file: TaskFile = TaskFile.from_parent(self, path=self.path / TASK_FILE)
        return file


class TaskFile(pytest.Module):
    """A task's ``task.toml``, standing for a module with the template in it."""

    @cached_property
    def task(self) -> Task:
        """The task, read and checked."""
        return self.read()

    def read(self) -> Task:
        """Read the task without keeping it, as thousands may be collected and few run."""
        from pytest_aecbench.task import Task

        directory = self.path.parent
        return Task.load(directory, task_id=settings_of(self.config).task_id(directory))

    def read_quietly(self) -> Task | None:
        """Read the task; None where collecting it has something to report."""
        try:
            task = self.read()
        except TaskError:
            return None
        return None if task.warnings else task

    def _getobj(self) -> ModuleType:
        from pytest_aecbench import template

        return template

    def istestfunction(self, obj: object, name: str) -> bool:
        """Take the template, whatever ``python_functions`` says."""
        return name == "trial"

    def istestclass(self, obj: object, name: str) -> bool:
        """Take no class."""
        return False

    def collect(self) -> Iterable[TrialItem]:
        """Yield the task's trials."""
        try:
            task = self.read()
        except TaskError as error:
            raise self.CollectError(str(error)) from None
        for warning in task.warnings:
            self.warn(TaskWarning(warning))
        return self.trials(task, self.template())

    def template(self) -> Sequence[pytest.Function]:
        """Work out the template's parameters and fixtures by pytest's own machinery."""
        nodes = super(pytest.Module, self).collect()  # not Module's, which looks for xunit set-up
        return [node for node in nodes if isinstance(node, pytest.Function)]

    def trials(self, task: Task, template: Iterable[pytest.Function]) -> list[TrialItem]:
        """Make the task's trials from a template worked out here or for a sibling."""
        for name in task.markers:
            if marker := _marker(self.config, name):
                self.add_marker(marker)
            else:
                self.extra_keyword_matches.add(name)
        return [
            TrialItem.from_parent(
                self,
                name=function.name,
                callspec=function.callspec,
                fixtureinfo=function._fixtureinfo,
                keywords={function.callspec.id: True},
                originalname=function.originalname,
            )
            for function in template
        ]


_MARKERS = pytest.StashKey[dict[str, "pytest.MarkDecorator | None"]]()
# Makes marks without looking each new name up among all that are registered.
_MARK = pytest.MarkGenerator(_ispytest=True)


def _marker(config: pytest.Config, name: str) -> pytest.MarkDecorator | None:
    """Return a registered marker of that name; None where it already means something else."""
    markers = config.stash.setdefault(_MARKERS, {})
    if not markers:
        lines: list[str] = config.getini("markers")
        markers.update({line.partition(":")[0].partition("(")[0]: None for line in lines})
    if name not in markers:
        config.addinivalue_line("markers", f"{name}: tasks with this word in their metadata")
        markers[name] = None if name.startswith("_") else getattr(_MARK, name)
    return markers[name]


class TrialItem(pytest.Function):
    """One trial: one task, one agent, one repetition."""

    parent: TaskFile
    trial: Trial | None = None
    result: dict[str, str | int | float | bool | None] | None = None

    @property
    def task(self) -> Task:
        """The task to attempt."""
        return self.parent.task

    @property
    def agent(self) -> AgentSpec:
        """The agent that attempts it."""
        return cast("AgentSpec", self.callspec.params["agent"])

    @property
    def repetition(self) -> int:
        """Which attempt of this agent at this task it is, from 1."""
        return cast("int", self.callspec.params["repetition"])

    @property
    def guard_sec(self) -> float:
        """What no attempt exceeds unless its own deadlines have failed."""
        from pytest_aecbench.trial import MARGIN_SEC

        config = self.task.config
        deadlines = (
            config.environment.build_timeout_sec
            + config.agent.timeout_sec
            + config.verifier.timeout_sec
        )
        return deadlines * settings_of(self.config).timeout_multiplier + MARGIN_SEC

    def setup(self) -> None:
        """Open a new attempt and let the fixtures work on it."""
        from pytest_aecbench.trial import Trial

        settings = settings_of(self.config)
        self.trial = Trial(self.task, self.agent, self.repetition, settings)
        super().setup()

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Point to the task rather than to the template."""
        task_id = settings_of(self.config).task_id(self.path.parent)
        return self.path, None, f"{task_id}[{self.callspec.id}]"

    def repr_failure(  # type: ignore[override]
        self, excinfo: ExceptionInfo[BaseException]
    ) -> str | TerminalRepr:
        """Show our own errors and sentences as what they say, and anything else in full."""
        error = excinfo.value
        if isinstance(error, AecBenchError):
            message = f"{type(error).__name__}: {error}"
        elif isinstance(error, pytest.fail.Exception) and not error.pytrace:
            message = str(error)
        else:
            return super().repr_failure(excinfo)
        shown = excinfo.getrepr(style="value")
        if shown.reprcrash is not None:
            shown.reprcrash.message = message
        return shown
