"""The run's backend and agents, from the hooks `pytest_aecbench_make_*`, tables or dotted paths."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.agents import AGENTS, Agent
from pytest_aecbench.backends import (
    BACKENDS,
    ComputeBackend,
    check_backend,
    is_batch,
    make_backend,
)
from pytest_aecbench.documents.dotted import load_class
from pytest_aecbench.errors import SettingsError, TaskError
from pytest_aecbench.plugin.state import settings_of, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.tasks.task import Task

__all__ = ["backend_of", "check_names", "concurrency_of", "make_agent", "preflight_agents"]


def check_names(config: pytest.Config) -> None:
    """Refuse names that mean nothing, without making what is built in."""
    settings = settings_of(config)
    try:
        if settings.backend not in BACKENDS:
            backend_of(config)
        if state_of(config).stored is not None:
            return  # whose agents do not run
        for spec in settings.agents:
            if spec.harness not in AGENTS:
                make_agent(config, spec)
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None


def backend_of(config: pytest.Config) -> ComputeBackend:
    """Return this process's backend, made on first use."""
    state = state_of(config)
    if state.backend is None:
        state.backend = _make_backend(config)
    return state.backend


def _make_backend(config: pytest.Config) -> ComputeBackend:
    settings = settings_of(config)
    name, where = settings.backend, settings.where("backend", "--aec-backend")
    made = config.hook.pytest_aecbench_make_backend(config=config, name=name)
    backend = (
        make_backend(name, where, settings) if made is None else check_backend(made, name, where)
    )
    if settings.mounts and not getattr(backend, "takes_mounts", False):
        raise SettingsError(f"--aec-mount: {name} has no mounts; use docker or local")
    return backend


def concurrency_of(config: pytest.Config) -> int | None:
    """Return how many trials may have a sandbox at once; None where nothing limits them.

    Trials that run as one job have no slots, because the job itself limits them.
    """
    if is_batch(backend_of(config)):
        return None
    asked = settings_of(config).concurrency
    if asked is not None:
        return asked
    own = getattr(backend_of(config), "concurrency", None)
    return own() if own else None


def preflight_agents(config: pytest.Config, trials: Sequence[str]) -> None:
    """Raise SettingsError for an agent that cannot work, while nothing is built or launched.

    ``trials`` are the ids of the trials that the run has.
    """
    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.trials import batch
    from pytest_aecbench.trials import preflight as checks

    settings = settings_of(config)
    if state_of(config).stored is not None or settings.checks:
        return  # no agent of the settings runs
    backend = backend_of(config)
    for spec in settings.agents:
        agent = make_agent(config, spec)
        with _located(settings.where("agents", "--aec-agent")):
            if is_batch(backend):
                batch.inside(spec, agent, backend)
            if preflight := getattr(agent, "preflight", None):
                preflight(settings.prices)
            own = [trial for trial in trials if f"{spec.name}-" in trial.partition("::")[2]]
            if not own:
                continue
            checks.check_program(spec, agent, backend)
            if checks.needs_network(agent):
                checks.check_network(spec, _tasks(config, own))
            if spec.files:
                checks.check_files(spec, Scrubber(settings.secrets()))
            if warning := checks.not_brought(spec, settings.root):
                state_of(config).notes.append(warning)
            if check_task := getattr(agent, "check_task", None):
                for task in _tasks(config, own):
                    check_task(task, settings.prices)


def _tasks(config: pytest.Config, trials: Sequence[str]) -> Iterator[Task]:
    """Yield the tasks of the trials; one that is wrong is reported by its trial."""
    from pytest_aecbench.tasks.task import Task

    for path in sorted({trial.partition("::")[0] for trial in trials}):
        directory = (config.rootpath / path).parent
        with suppress(TaskError):
            yield Task.load(directory, task_id=settings_of(config).task_id(directory))


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put the place where agents are named before each problem of one."""
    try:
        yield
    except SettingsError as error:
        lines = (f"{where}: {line}" for line in str(error).splitlines())
        raise SettingsError("\n".join(lines)) from None


def make_agent(config: pytest.Config, spec: AgentSpec) -> Agent:
    """Make the agent that ``spec`` asks for."""
    where = settings_of(config).where("agents", "--aec-agent")
    made = config.hook.pytest_aecbench_make_agent(config=config, spec=spec)
    if made is None:
        factory = load_class(spec.harness, where, AGENTS)
        with _located(where):
            made = factory(spec)
    if not isinstance(made, Agent):
        raise SettingsError(f"{where}: {spec.harness!r} has no method run")
    return made
