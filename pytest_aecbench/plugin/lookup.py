"""From the names that users type to backends and agents: hook, table, dotted path."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.agents import AGENTS, Agent
from pytest_aecbench.backends import BACKENDS, ComputeBackend
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.plugin.evaluate import stored_of
from pytest_aecbench.plugin.state import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_aecbench.agents.spec import AgentSpec

__all__ = ["backend_of", "check_names", "concurrency_of", "made_backend", "make_agent"]

_BACKEND = pytest.StashKey[ComputeBackend]()


def check_names(config: pytest.Config) -> None:
    """Refuse names that mean nothing, without making what is built in."""
    settings = settings_of(config)
    try:
        if settings.backend not in BACKENDS:
            backend_of(config)
        if stored_of(config) is not None:
            return  # whose agents do not run
        for spec in settings.agents:
            if spec.harness not in AGENTS:
                make_agent(config, spec)
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None


def backend_of(config: pytest.Config) -> ComputeBackend:
    """Return this process's backend, made on first use."""
    if _BACKEND not in config.stash:
        config.stash[_BACKEND] = _make_backend(config)
    return config.stash[_BACKEND]


def made_backend(config: pytest.Config) -> ComputeBackend | None:
    """Return this process's backend if it has been used."""
    return config.stash.get(_BACKEND, None)


def _make_backend(config: pytest.Config) -> ComputeBackend:
    settings = settings_of(config)
    name, where = settings.backend, settings.where("backend", "--aec-backend")
    made = config.hook.pytest_aecbench_make_backend(config=config, name=name)
    if made is None:
        dotted, extra = BACKENDS.get(name, (name, None))
        factory = _load(dotted, where, name, BACKENDS, extra)
        from_settings = getattr(factory, "from_settings", None)
        made = from_settings(settings) if from_settings else factory()
    if not isinstance(made, ComputeBackend):
        methods = ("build_environment", "launch_trial", "execute_trial", "collect_outputs")
        missing = [method for method in (*methods, "teardown") if not hasattr(made, method)]
        raise SettingsError(f"{where}: {name!r} has no method {', '.join(missing)}")
    return made


def concurrency_of(config: pytest.Config) -> int | None:
    """Return how many trials may have a sandbox at once; None where nothing limits them."""
    asked = settings_of(config).concurrency
    if asked is not None:
        return asked
    own = getattr(backend_of(config), "concurrency", None)
    return own() if own else None


def make_agent(config: pytest.Config, spec: AgentSpec) -> Agent:
    """Make the agent that ``spec`` asks for."""
    where = settings_of(config).where("agents", "--aec-agent")
    made = config.hook.pytest_aecbench_make_agent(config=config, spec=spec)
    if made is None:
        dotted = AGENTS.get(spec.harness, spec.harness)
        made = _load(dotted, where, spec.harness, AGENTS)(spec)
    if not isinstance(made, Agent):
        raise SettingsError(f"{where}: {spec.harness!r} has no method run")
    return made


def _load(
    dotted: str, where: str, name: str, known: Iterable[str], extra: str | None = None
) -> Any:
    """Import what ``dotted`` names; where it is no such path, say which names there are."""
    module_name, _, attribute = dotted.rpartition(".")
    if not module_name:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? Known" if near else "known"
        raise SettingsError(
            f"{where}: {name!r} is not known; {hint}: {', '.join(sorted(known))}, "
            "or the dotted path of a class"
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if extra is not None:
            raise SettingsError(
                f"{where}: {name} is not installed; pip install 'pytest-aecbench[{extra}]'"
            ) from None
        raise SettingsError(f"{where}: {name!r} cannot be imported; {error}") from None
    found = getattr(module, attribute, None)
    if not callable(found):
        raise SettingsError(f"{where}: {name!r} is no class; use the dotted path of one")
    return found
