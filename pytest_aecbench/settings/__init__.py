"""What a run is asked to do."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from pytest_aecbench.agents.spec import AgentSpec, agents_from, parse_agents
from pytest_aecbench.backends import BACKENDS
from pytest_aecbench.documents.variables import expand_in
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.secrets import secrets_from
from pytest_aecbench.ledger.store import Ledger, check_experiment_id
from pytest_aecbench.tasks.selection import Selection
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytest_aecbench.reports.gates import Gate

__all__ = ["KEEP", "LOCAL_MODES", "Settings", "find_experiment", "resolve"]

LATEST = "latest"
RERUN = ("all", "error", "failed")
KEEP = ("all", "failed", "none")
LOCAL_MODES = ("auto", "namespaces", "rewriting")
WITHOUT_OPTIONS = ("docker", "local")
_LEDGER_ROOT = "artefacts/ledger"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a run was asked to do.

    ``given`` is what was set and where, as it was written: variables by name, nothing secret.
    """

    root: Path
    project_name: str | None
    tasks_root: Path
    templates_root: Path
    seeds_root: Path
    ledger_root: Path
    feedback_root: Path
    datasets_root: Path
    jobs_root: Path
    experiment_name: str | None
    description: str | None
    dataset: str | None
    selection: Selection
    allow_drift: bool
    agents: tuple[AgentSpec, ...]
    repetitions: int
    backend: str
    backend_options: Mapping[str, object] = field(repr=False)  # may hold secrets
    max_cost_usd: float | None
    local_mode: str
    timeout_override_sec: float | None
    memory_mb: int | None
    cpus: float | None
    concurrency: int | None
    threshold: float | None
    timeout_multiplier: float
    verify: bool
    retries: int
    retry_delay_sec: float
    gate: Gate | None
    max_error_rate: float | None
    baseline: str | None
    fail_on_regression: bool
    summary_md: str | None
    progress_sec: float
    checks: tuple[str, ...]
    resume: bool
    rerun: str
    evaluate: str | None
    keep: str
    force_build: bool
    experiment_id: str
    run_id: str
    given: Mapping[str, tuple[object, str]] = field(repr=False)
    secret_names: tuple[str, ...]
    notes: tuple[str, ...]

    def where(self, name: str, otherwise: str) -> str:
        """Return where a setting was given."""
        return self.given.get(name, (None, otherwise))[1]

    def secrets(self) -> dict[str, str]:
        """Return this machine's credentials and what the project's ``.env`` keeps secret."""
        private = {name: os.environ.get(name, "") for name in self.secret_names}
        return secrets_from(os.environ, private)

    def on(self, backend: str) -> Settings:
        """Return these settings for another backend, with the options that belong to it."""
        return replace(self, backend=backend, backend_options=self.options_of(backend))

    def options_of(self, backend: str) -> dict[str, object]:
        """Return what the configuration says in a backend's own table, whichever is chosen."""
        return _backend_options(backend, self.given)

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
    secret_names: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Settings:
    """Settle every setting: what was given, as (value, where it was given), else its default.

    Raises:
        SettingsError: a value is wrong; the message starts with where it was given.

    """

    def settle(name: str, default: object, check: Callable[[object, str], _T]) -> _T:
        return check(*given.get(name, (default, name)))

    def below_root(value: object, where: str) -> Path:
        return root / str(value)

    backend = settle("backend", "local", _variable)
    datasets_root = settle("datasets_root", "artefacts/datasets", below_root)
    experiment_id = experiment_id or _settle_experiment_id(root, given)
    return Settings(
        root=root,
        project_name=settle("project_name", None, _optional_text),
        tasks_root=settle("tasks_root", "tasks", below_root),
        templates_root=settle("templates_root", "templates", below_root),
        seeds_root=settle("seeds_root", "seeds", below_root),
        ledger_root=settle("ledger_root", _LEDGER_ROOT, below_root),
        feedback_root=settle("feedback_root", "artefacts/feedback", below_root),
        datasets_root=datasets_root,
        jobs_root=settle("jobs_root", "jobs", below_root),
        experiment_name=settle("experiment_name", None, _optional_text),
        description=settle("description", None, _optional_text),
        dataset=settle("dataset", None, _dataset(datasets_root)),
        allow_drift=_settle_allow_drift(given),
        selection=Selection(
            include_patterns=settle("include_patterns", (), _texts),
            exclude_patterns=settle("exclude_patterns", (), _texts),
            domains=settle("domains", (), _texts),
            difficulties=settle("difficulties", (), _texts),
            lifecycle=settle("lifecycle", (), _texts),
        ),
        agents=settle("agents", ["oracle"], _agents),
        repetitions=settle("repetitions", 1, _count),
        backend=backend,
        backend_options=_backend_options(backend, given),
        max_cost_usd=settle("max_cost_usd", None, _optional(_positive)),
        local_mode=settle("local_mode", "auto", _choice(LOCAL_MODES)),
        timeout_override_sec=settle("timeout_override_sec", None, _optional(_positive)),
        memory_mb=settle("memory_mb", None, _optional(_count)),
        cpus=settle("cpus", None, _optional(_positive)),
        concurrency=settle("concurrency", None, _optional(_count)),
        threshold=settle("threshold", None, _share),
        timeout_multiplier=settle("timeout_multiplier", 1, _positive),
        verify="evaluate" in given or not settle("no_verify", False, _flag),
        retries=settle("retries", 0, _whole),
        retry_delay_sec=settle("retry_delay_sec", 2, _positive),
        gate=settle("gate", None, _gate),
        max_error_rate=settle("max_error_rate", None, _share),
        baseline=_settle_baseline(root, given, experiment_id),
        fail_on_regression=_settle_fail_on_regression(given),
        summary_md=settle("summary_md", None, _optional_text),
        progress_sec=settle("progress_sec", 60, _seconds),
        checks=settle("checks", None, _checks),
        resume="resume" in given,
        rerun=settle("rerun", "error", _choice(RERUN)),
        evaluate=_evaluated(root, given),
        keep=settle("keep", "none", _choice(KEEP)),
        force_build=settle("force_build", False, _flag),
        experiment_id=experiment_id,
        run_id=run_id or os.urandom(8).hex(),
        given=given,
        secret_names=tuple(secret_names),
        notes=tuple(notes),
    )


def _variable(value: object, where: str) -> str:
    return str(expand_in(str(value), where))


def _texts(value: object, where: str) -> tuple[str, ...]:
    assert isinstance(value, (list, tuple))
    return tuple(map(str, value))


def _optional(check: Callable[[object, str], _T]) -> Callable[[object, str], _T | None]:
    return lambda value, where: None if value is None else check(value, where)


def _backend_options(backend: str, given: Mapping[str, tuple[object, str]]) -> dict[str, object]:
    """Return the chosen backend's own table, with its variables filled in."""
    options: dict[str, object] = {}
    for name, (value, where) in given.items():
        key, _, rest = name.partition(":")
        table, _, option = rest.partition(":")
        if key != "compute":
            continue
        if table in WITHOUT_OPTIONS:
            raise SettingsError(f"{where}: the {table} backend has no options; leave it out")
        if table not in BACKENDS and table != backend:
            known = {"backend", "resource_limits", backend, *BACKENDS} - {*WITHOUT_OPTIONS}
            raise SettingsError(f"{where}: unknown key; {did_you_mean(table, known)}")
        if option and table == backend:
            options[option] = expand_in(value, where)
    return options


def _optional_text(value: object, where: str) -> str | None:
    return None if value is None else str(value)


def _dataset(datasets_root: Path) -> Callable[[object, str], str | None]:
    def check(value: object, where: str) -> str | None:
        if value is None:
            return None
        from pytest_aecbench.datasets.store import Datasets

        return str(Datasets(datasets_root).find(str(value), where))

    return check


def _gate(value: object, where: str) -> Gate | None:
    if value is None:
        return None
    from pytest_aecbench.reports.gate_parser import parse_gate

    return parse_gate(str(value), where)


def _checks(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    from pytest_aecbench.ledger.checks import parse_checks

    return parse_checks(str(value), where)


def _flag(value: object, where: str) -> bool:
    return bool(value)


def _agents(value: object, where: str) -> tuple[AgentSpec, ...]:
    assert isinstance(value, list)
    if any(isinstance(entry, dict) for entry in value):
        return agents_from(value, where)
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
    named = given.get("experiment_id", (None, "experiment_id"))
    if "resume" not in given:
        return _experiment_id(*named, "eval" if "evaluate" in given else "exp")
    wanted, where = given["resume"]
    if named[1] == "--aec-experiment-id":
        raise SettingsError(f"{where}: goes on with an experiment; leave --aec-experiment-id out")
    if wanted == LATEST and named[0] is not None:  # an experiment.yaml says which one it is
        wanted = named[0]
    ledger_root = root / str(given.get("ledger_root", (_LEDGER_ROOT, ""))[0])
    return find_experiment(ledger_root, str(wanted), where)


def _evaluated(root: Path, given: Mapping[str, tuple[object, str]]) -> str | None:
    """Return the experiment to evaluate, whose own records are not to be added to."""
    if "evaluate" not in given:
        return None
    wanted, where = given["evaluate"]
    for name in ("resume", "rerun", "repetitions", "no_verify"):
        option = given.get(name, ("", ""))[1]
        if option.startswith("--"):  # an ini key is for runs of agents
            raise SettingsError(f"{where}: verifies again what is stored; leave {option} out")
    ledger_root = root / str(given.get("ledger_root", (_LEDGER_ROOT, ""))[0])
    evaluated = find_experiment(ledger_root, str(wanted), where)
    if given.get("experiment_id", (None,))[0] == evaluated:
        raise SettingsError(
            f"{where}: {evaluated!r} keeps its records as they are; "
            "leave --aec-experiment-id out or give another"
        )
    return evaluated


def find_experiment(ledger_root: Path, wanted: str, where: str) -> str:
    """Return the experiment of that name, or the latest, if the ledger has one."""
    known = Ledger(ledger_root).experiments()
    if wanted == LATEST and known:
        return max(known, key=lambda name: (ledger_root / name).stat().st_mtime)
    if wanted not in known:
        what = "no experiment" if wanted == LATEST else f"{wanted!r} is no experiment"
        raise SettingsError(
            f"{where}: {what} in {ledger_root}; use one of "
            f"{', '.join(known[-5:]) or 'those of earlier runs, of which there are none'}"
        )
    return wanted


def _settle_baseline(
    root: Path, given: Mapping[str, tuple[object, str]], experiment_id: str
) -> str | None:
    if "baseline" not in given:
        return None
    wanted, where = given["baseline"]
    if wanted == experiment_id:
        raise SettingsError(f"{where}: {wanted!r} is this run itself; name an earlier experiment")
    ledger_root = root / str(given.get("ledger_root", (_LEDGER_ROOT, ""))[0])
    return find_experiment(ledger_root, str(wanted), where)


def _settle_fail_on_regression(given: Mapping[str, tuple[object, str]]) -> bool:
    value, where = given.get("fail_on_regression", (False, ""))
    if value and "baseline" not in given:
        raise SettingsError(f"{where}: there is nothing to compare with; add --aec-baseline=ID")
    return bool(value)


def _settle_allow_drift(given: Mapping[str, tuple[object, str]]) -> bool:
    value, where = given.get("allow_drift", (False, ""))
    if value and "dataset" not in given:
        raise SettingsError(f"{where}: is about a dataset; add --aec-dataset=NAME@VERSION")
    return bool(value)


def _experiment_id(value: object, where: str, prefix: str) -> str:
    if value is None:
        # Unique without looking at the disk, so that every process can be told it up front.
        return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    return check_experiment_id(str(value), where)
