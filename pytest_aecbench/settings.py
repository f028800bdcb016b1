"""What a run was asked to do, resolved once from its options and ini keys."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_aecbench.agentspec import AgentSpec, parse_agents
from pytest_aecbench.errors import SettingsError

__all__ = ["INI_KEYS", "Settings", "resolve", "settings_of", "user_said_something"]

T = TypeVar("T")

LOCAL_MODES = ("auto", "namespaces", "rewriting")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a run was asked to do."""

    root: Path
    tasks_root: Path
    ledger_root: Path
    jobs_root: Path
    agents: tuple[AgentSpec, ...]
    repetitions: int
    backend: str
    local_mode: str
    threshold: float | None
    timeout_multiplier: float
    verify: bool
    experiment_id: str
    run_id: str

    def task_id(self, task_dir: Path) -> str:
        """Return the task's path below the tasks root, or below the project where it is not."""
        for base in (self.tasks_root, self.root):
            if task_dir != base and task_dir.is_relative_to(base):
                return task_dir.relative_to(base).as_posix()
        return task_dir.name


@dataclass(frozen=True, slots=True)
class _Key:
    """One setting: its ini key, its option where it has one, its default."""

    ini: str
    option: str | None
    default: object


_KEYS = {
    "agents": _Key("aec_agent", "--aec-agent", ["oracle"]),
    "repetitions": _Key("aec_repetitions", "--aec-repetitions", 1),
    "backend": _Key("aec_backend", "--aec-backend", "local"),
    "local_mode": _Key("aec_local_mode", "--aec-local-mode", "auto"),
    "threshold": _Key("aec_threshold", "--aec-threshold", None),
    "timeout_multiplier": _Key("aec_timeout_multiplier", "--aec-timeout-multiplier", 1.0),
    "no_verify": _Key("aec_no_verify", "--aec-no-verify", False),
    "experiment_id": _Key("", "--aec-experiment-id", None),
    "tasks_root": _Key("aec_tasks_root", None, "tasks"),
    "ledger_root": _Key("aec_ledger_root", None, "artefacts/ledger"),
    "jobs_root": _Key("aec_jobs_root", None, "jobs"),
}
INI_KEYS = tuple(key.ini for key in _KEYS.values() if key.ini)


def resolve(
    root: Path,
    options: Mapping[str, object],
    ini: Mapping[str, object],
    *,
    experiment_id: str | None = None,
    run_id: str | None = None,
) -> Settings:
    """Settle every setting: the option, else the ini key, else the default."""

    def settle(name: str, check: Callable[[object, str], T]) -> T:
        key = _KEYS[name]
        given, configured = options.get(name), ini.get(key.ini)
        if _is_set(given):
            return check(given, key.option or "")
        return check(configured if _is_set(configured) else key.default, key.ini)

    def below_root(value: object, where: str) -> Path:
        return root / str(value)

    return Settings(
        root=root,
        tasks_root=settle("tasks_root", below_root),
        ledger_root=settle("ledger_root", below_root),
        jobs_root=settle("jobs_root", below_root),
        agents=settle("agents", _agents),
        repetitions=settle("repetitions", _count),
        backend=settle("backend", lambda value, where: str(value)),
        local_mode=settle("local_mode", _local_mode),
        threshold=settle("threshold", _threshold),
        timeout_multiplier=settle("timeout_multiplier", _positive),
        verify=not settle("no_verify", lambda value, where: bool(value)),
        experiment_id=experiment_id or settle("experiment_id", _experiment_id),
        run_id=run_id or os.urandom(8).hex(),
    )


def _agents(value: object, where: str) -> tuple[AgentSpec, ...]:
    assert isinstance(value, list)
    return parse_agents([str(text) for text in value], where)


def _number(value: object, where: str, right: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"{where}: {value!r} is not a number; use {right}")
    return number


def _count(value: object, where: str) -> int:
    number = _number(value, where, "a whole number from 1")
    if number < 1 or number != int(number):
        raise SettingsError(f"{where}: {value!r} is not valid; use a whole number from 1")
    return int(number)


def _positive(value: object, where: str) -> float:
    number = _number(value, where, "a number above 0")
    if number <= 0:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number above 0")
    return number


def _threshold(value: object, where: str) -> float | None:
    if value is None:
        return None
    number = _number(value, where, "a number from 0 to 1")
    if not 0 <= number <= 1:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number from 0 to 1")
    return number


def _local_mode(value: object, where: str) -> str:
    if value not in LOCAL_MODES:
        valid = ", ".join(map(repr, LOCAL_MODES))
        raise SettingsError(f"{where}: {value!r} is not valid; use one of {valid}")
    return str(value)


def _experiment_id(value: object, where: str) -> str:
    if value is None:
        # Unique without looking at the disk, so that every process can be told it up front.
        return f"exp-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    from pytest_aecbench.ledger import check_experiment_id

    return check_experiment_id(str(value), where)


_SETTINGS = pytest.StashKey[Settings]()


def settings_of(config: pytest.Config) -> Settings:
    """Return the run's settings, resolving them on first use; a mistake is a usage error."""
    if _SETTINGS not in config.stash:
        handed = getattr(config, "workerinput", {}).get("aecbench", {})
        try:
            config.stash[_SETTINGS] = resolve(
                config.rootpath, _options(config), _ini(config), **handed
            )
        except SettingsError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_SETTINGS]


def user_said_something(config: pytest.Config) -> bool:
    """Tell whether any option or ini key of ours was set, which makes it worth checking early."""
    return any(map(_is_set, (*_options(config).values(), *_ini(config).values())))


def _is_set(value: object) -> bool:
    return not (value is None or value is False or value == [] or value == "")


def _options(config: pytest.Config) -> dict[str, object]:
    return {
        name: config.getoption(key.option) for name, key in _KEYS.items() if key.option is not None
    }


def _ini(config: pytest.Config) -> dict[str, object]:
    values = {}
    for key in INI_KEYS:
        try:
            values[key] = config.getini(key)
        except (TypeError, ValueError) as error:  # how pytest reports a value of the wrong type
            raise pytest.UsageError(f"{key}: {error}") from None
    return values
