"""Everything that a run is asked to do, as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends import BACKENDS
from pytest_aecbench.documents.variables import expand_in, variables_in
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.secrets import handed_over, secrets_from
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends import Mount
    from pytest_aecbench.providers.prices import Price
    from pytest_aecbench.reports.gates import Gate
    from pytest_aecbench.tasks.selection import Selection

__all__ = ["Settings", "backend_options"]

# The backends that have no table of their own in a configuration file.
WITHOUT_OPTIONS = ("docker", "local")


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
    agent_files: tuple[str, ...]
    repetitions: int
    backend: str
    backend_options: Mapping[str, object] = field(repr=False)  # may hold secrets
    max_cost_usd: float | None
    cache_calls: Path | None
    follow: bool
    prices: Mapping[str, Price]
    local_mode: str
    local_show: tuple[Path, ...]
    mounts: tuple[Mount, ...]
    timeout_override_sec: float | None
    memory_mb: int | None
    cpus: float | None
    concurrency: int | None
    gcp_parallelism: int | None
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
    html: str | None
    progress_sec: float
    checks: tuple[str, ...]
    resume: bool
    rerun: str
    join: bool
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
        """Return this machine's credentials and what ``.env`` and the configuration hand over."""
        private = {name: os.environ.get(name, "") for name in self.secret_names}
        options = [value for name, (value, _) in self.given.items() if name.startswith("compute:")]
        names = variables_in(options).union(*(agent.variables for agent in self.agents))
        public = {self.backend, *(agent.model for agent in self.agents)}  # every record names them
        handed = handed_over(names, os.environ).items()
        added = {name: value for name, value in handed if value not in public}
        return secrets_from(os.environ, {**added, **private})

    def frozen(self) -> dict[str, Any]:
        """Return these settings in plain types, for another process to resolve again."""
        return {
            "root": str(self.root),
            "given": dict(self.given),
            "experiment_id": self.experiment_id,
            "run_id": self.run_id,
            "secret_names": self.secret_names,
        }

    def on(self, backend: str) -> Settings:
        """Return these settings for another backend, with the options that belong to it."""
        return replace(self, backend=backend, backend_options=self.options_of(backend))

    def options_of(self, backend: str) -> dict[str, object]:
        """Return what the configuration says in a backend's own table, whichever is chosen."""
        return backend_options(backend, self.given)

    def below_root(self, path: Path) -> str:
        """Return a path as a configuration file names it."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)

    @property
    def experiment_ledger(self) -> Path:
        """The directory of this experiment's records."""
        return self.ledger_root / self.experiment_id

    def task_id(self, task_dir: Path) -> str:
        """Return the task's path below the tasks root, or below the project where it is not."""
        for base in (self.tasks_root, self.root):
            if task_dir != base and task_dir.is_relative_to(base):
                return task_dir.relative_to(base).as_posix()
        return task_dir.name


def backend_options(backend: str, given: Mapping[str, tuple[object, str]]) -> dict[str, object]:
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
