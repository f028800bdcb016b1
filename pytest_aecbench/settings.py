"""What a run is asked to do."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pytest_aecbench.agentspec import AgentSpec, parse_agents
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.ledger import Ledger, check_experiment_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_aecbench.gates import Gate

__all__ = ["KEEP", "LOCAL_MODES", "Settings", "resolve"]

LATEST = "latest"
RERUN = ("all", "error", "failed")
KEEP = ("all", "failed", "none")
LOCAL_MODES = ("auto", "namespaces", "rewriting")

_T = TypeVar("_T")


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
    retries: int
    retry_delay_sec: float
    gate: Gate | None
    max_error_rate: float | None
    summary_md: str | None
    progress_sec: float
    checks: tuple[str, ...]
    resume: bool
    rerun: str
    keep: str
    force_build: bool
    experiment_id: str
    run_id: str

    @property
    def experiment_ledger(self) -> Path:
        """Where this experiment's records go."""
        return self.ledger_root / self.experiment_id

    def shown(self, path: Path) -> str:
        """Return the path as a person in the project would write it."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)

    def task_id(self, task_dir: Path) -> str:
        """Return the task's path below the tasks root, or below the project where it is not."""
        for base in (self.tasks_root, self.root):
            if task_dir != base and task_dir.is_relative_to(base):
                return task_dir.relative_to(base).as_posix()
        return task_dir.name


def resolve(
    root: Path,
    given: Mapping[str, tuple[object, str]],
    *,
    experiment_id: str | None = None,
    run_id: str | None = None,
) -> Settings:
    """Settle every setting: what was given, as (value, where it was given), else its default.

    Raises:
        SettingsError: a value is wrong; the message starts with where it was given.

    """

    def settle(name: str, default: object, check: Callable[[object, str], _T]) -> _T:
        return check(*given.get(name, (default, name)))

    def below_root(value: object, where: str) -> Path:
        return root / str(value)

    return Settings(
        root=root,
        tasks_root=settle("tasks_root", "tasks", below_root),
        ledger_root=settle("ledger_root", "artefacts/ledger", below_root),
        jobs_root=settle("jobs_root", "jobs", below_root),
        agents=settle("agents", ["oracle"], _agents),
        repetitions=settle("repetitions", 1, _count),
        backend=settle("backend", "local", _text),
        local_mode=settle("local_mode", "auto", _choice(LOCAL_MODES)),
        threshold=settle("threshold", None, _share),
        timeout_multiplier=settle("timeout_multiplier", 1, _positive),
        verify=not settle("no_verify", False, _flag),
        retries=settle("retries", 0, _whole),
        retry_delay_sec=settle("retry_delay_sec", 2, _positive),
        gate=settle("gate", None, _gate),
        max_error_rate=settle("max_error_rate", None, _share),
        summary_md=settle("summary_md", None, _optional_text),
        progress_sec=settle("progress_sec", 60, _seconds),
        checks=settle("checks", None, _checks),
        resume="resume" in given,
        rerun=settle("rerun", "error", _choice(RERUN)),
        keep=settle("keep", "none", _choice(KEEP)),
        force_build=settle("force_build", False, _flag),
        experiment_id=experiment_id or _settle_experiment_id(root, given),
        run_id=run_id or os.urandom(8).hex(),
    )


def _text(value: object, where: str) -> str:
    return str(value)


def _optional_text(value: object, where: str) -> str | None:
    return None if value is None else str(value)


def _gate(value: object, where: str) -> Gate | None:
    if value is None:
        return None
    from pytest_aecbench.gates import parse_gate

    return parse_gate(str(value), where)


def _checks(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    from pytest_aecbench.checks import parse_checks

    return parse_checks(str(value), where)


def _flag(value: object, where: str) -> bool:
    return bool(value)


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


def _whole(value: object, where: str) -> int:
    number = _number(value, where, "a whole number from 0")
    if number < 0 or number != int(number):
        raise SettingsError(f"{where}: {value!r} is not valid; use a whole number from 0")
    return int(number)


def _seconds(value: object, where: str) -> float:
    number = _number(value, where, "a number of seconds, or 0 for never")
    if number < 0:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number from 0")
    return number


def _positive(value: object, where: str) -> float:
    number = _number(value, where, "a number above 0")
    if number <= 0:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number above 0")
    return number


def _share(value: object, where: str) -> float | None:
    if value is None:
        return None
    number = _number(value, where, "a number from 0 to 1")
    if not 0 <= number <= 1:
        raise SettingsError(f"{where}: {value!r} is not valid; use a number from 0 to 1")
    return number


def _choice(valid: tuple[str, ...]) -> Callable[[object, str], str]:
    def check(value: object, where: str) -> str:
        if value not in valid:
            choices = ", ".join(map(repr, valid))
            raise SettingsError(f"{where}: {value!r} is not valid; use one of {choices}")
        return str(value)

    return check


def _settle_experiment_id(root: Path, given: Mapping[str, tuple[object, str]]) -> str:
    if "resume" not in given:
        return _experiment_id(*given.get("experiment_id", (None, "experiment_id")))
    wanted, where = given["resume"]
    if "experiment_id" in given:
        raise SettingsError(f"{where}: goes on with an experiment; leave --aec-experiment-id out")
    ledger_root = root / str(given.get("ledger_root", ("artefacts/ledger", ""))[0])
    known = Ledger(ledger_root).experiments()
    if wanted == LATEST and known:
        return max(known, key=lambda name: (ledger_root / name).stat().st_mtime)
    if wanted not in known:
        named = "no experiment" if wanted == LATEST else f"{wanted!r} is no experiment"
        raise SettingsError(
            f"{where}: {named} in {ledger_root}; use {where}=ID with one of "
            f"{', '.join(known[-5:]) or 'those of earlier runs, of which there are none'}"
        )
    return str(wanted)


def _experiment_id(value: object, where: str) -> str:
    if value is None:
        # Unique without looking at the disk, so that every process can be told it up front.
        return f"exp-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    return check_experiment_id(str(value), where)
