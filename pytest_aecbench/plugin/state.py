"""The state of a run in one process: its settings, and what its modules tell one another."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.host.signals import Interrupts
from pytest_aecbench.settings.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdist.workermanage import WorkerController

    from pytest_aecbench.backends import ComputeBackend
    from pytest_aecbench.datasets.drift import DatasetInUse
    from pytest_aecbench.host.runs import Spent
    from pytest_aecbench.ledger.claims import Claims
    from pytest_aecbench.plugin.evaluate import Row, Stored
    from pytest_aecbench.plugin.resume import Reusable
    from pytest_aecbench.reports.comparison import Comparison
    from pytest_aecbench.reports.gates import Verdict
    from pytest_aecbench.settings.layers import Layer
    from pytest_aecbench.settings.model import Settings

__all__ = [
    "RunState",
    "has_trials",
    "is_configured",
    "is_first_worker",
    "is_worker",
    "settings_of",
    "state_of",
]

_HANDOVER = "aecbench"


class RunState:
    """Everything that the plugin's modules know of the run, worked out on first use.

    A worker is told what the controller worked out, because files may have changed since.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._told: Mapping[str, Any] | None = getattr(config, "workerinput", {}).get(_HANDOVER)
        self.interrupts = Interrupts(hurries=not is_worker(config))
        self.refusal: pytest.UsageError | None = None
        self.has_trials = False
        self.notes: list[str] = []  # what is odd about the run, besides its settings
        self.order: list[int] = []  # the places, among all tests, of those that run
        self.backend: ComputeBackend | None = None
        self.workers: set[WorkerController] = set()
        self.crashes: dict[str, int] = {}
        self.past_durations: dict[str, float] | None = None  # by node id
        self.markers: dict[str, pytest.MarkDecorator | None] = {}
        self.marks: dict[tuple[str, ...], dict[str, pytest.Mark]] = {}  # of a task with these words
        self.comparison: Comparison | None = None
        self.verdict: Verdict | None = None
        self.spent: Spent | None = None

    @cached_property
    def settings(self) -> Settings:
        """The resolved settings."""
        if self._told is None:
            return _resolve(self._config)
        from pytest_aecbench.settings.resolve import thaw

        # Nothing, where the settings are wrong: the controller refuses the run if it has trials.
        return thaw(self._told.get("settings", {}), self._config.rootpath)

    @cached_property
    def reusable(self) -> Reusable:
        """The reusable records, as they were when the run began."""
        from pytest_aecbench.plugin.resume import Reusable, find_reusable

        if self._told is not None:
            return Reusable(**self._told.get("reusable", {}))
        option = self._config.option
        if option.collectonly or option.setupplan:
            return Reusable()
        from pytest_aecbench.errors import AecBenchError

        settings = settings_of(self._config)
        try:
            return find_reusable(settings, self.claims)
        except AecBenchError as error:
            raise pytest.UsageError(str(error)) from None

    @cached_property
    def claims(self) -> Claims:
        """The claims of this process on the experiment and on its trials."""
        from pytest_aecbench.ledger.claims import Claims

        settings = settings_of(self._config)
        claims = Claims(settings.experiment_ledger, settings.run_id)
        self._config.add_cleanup(claims.leave)
        return claims

    @cached_property
    def dataset(self) -> DatasetInUse | None:
        """The dataset that the run is confined to, compared with the tasks."""
        if self._told is None:
            from pytest_aecbench.plugin.dataset import find_dataset

            return find_dataset(settings_of(self._config))
        # Not from the settings: what they name may have a higher version by now.
        if (told := self._told.get("dataset")) is None:
            return None
        from pytest_aecbench.datasets.drift import DatasetInUse

        return DatasetInUse(**told)

    @cached_property
    def stored_rows(self) -> list[Row]:
        """The stored trials that ``--aec-evaluate`` verifies again, in plain types."""
        if self._told is not None:
            return list(self._told.get("stored_rows", []))
        from pytest_aecbench.plugin.evaluate import find_rows

        return find_rows(self._config)

    @cached_property
    def stored(self) -> Stored | None:
        """The stored trials by agent and repetition; None where agents run."""
        if settings_of(self._config).evaluate is None:
            return None
        from pytest_aecbench.plugin.evaluate import Stored

        return Stored.from_rows(self.stored_rows)

    def handover(self) -> dict[str, Any]:
        """Return what workers are told, in plain types."""
        dataset = self.dataset
        return {
            "settings": settings_of(self._config).frozen(),
            "reusable": asdict(self.reusable),
            "dataset": dataset and asdict(dataset),
            "stored_rows": self.stored_rows,
        }

    def tell(self, node: WorkerController) -> None:
        """Hand over to a worker; nothing, where the settings are wrong."""
        node.workerinput[_HANDOVER] = {}
        with suppress(pytest.UsageError):  # said if there turn out to be trials
            node.workerinput[_HANDOVER] = self.handover()


_STATE = pytest.StashKey[RunState]()


def state_of(config: pytest.Config) -> RunState:
    """Return the state of the run in this process."""
    if _STATE not in config.stash:
        config.stash[_STATE] = RunState(config)
    return config.stash[_STATE]


def settings_of(config: pytest.Config) -> Settings:
    """Return the run's settings; a mistake in them is a usage error."""
    # Imported here because most pytest runs have no use for it.
    from pytest_aecbench.errors import SettingsError

    state = state_of(config)
    try:
        return state.settings
    except SettingsError as error:
        state.refusal = pytest.UsageError(*str(error).splitlines())
        raise state.refusal from None


def has_trials(config: pytest.Config) -> bool:
    """Return whether trials are or were run, here or in workers."""
    return state_of(config).has_trials


def is_configured(config: pytest.Config) -> bool:
    """Return whether the user set anything of ours, which makes it worth checking early."""
    return bool(_options(config) or _ini_keys(config))


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process runs tests for another one."""
    return hasattr(config, "workerinput")


def is_first_worker(config: pytest.Config) -> bool:
    """Return whether this process is the one to say what all workers would say."""
    return bool(getattr(config, "workerinput", {"workerid": "gw0"})["workerid"] == "gw0")


def _options(config: pytest.Config) -> Layer:
    """Return what was set on the command line."""
    return {
        row.name: (value, row.option)
        for row in TABLE
        if row.option and _is_set(value := config.getoption(row.option))
    }


def _ini_keys(config: pytest.Config) -> Layer:
    """Return what pytest's own configuration sets."""
    file = f"{config.inipath.name}: " if config.inipath else ""
    return {
        row.name: (value, f"{file}{row.ini_key}")
        for row in TABLE
        if row.ini and _is_set(value := _ini(config, row.ini_key))
    }


def _ini(config: pytest.Config, key: str) -> object:
    try:
        return config.getini(key)
    except (TypeError, ValueError) as error:  # how pytest reports a value of the wrong type
        raise pytest.UsageError(f"{key}: {error}") from None


def _is_set(value: object) -> bool:
    return not (value is None or value is False or value == [] or value == "")


def _resolve(config: pytest.Config) -> Settings:
    from pytest_aecbench.documents.variables import DotEnv, load_dotenv
    from pytest_aecbench.settings import layers
    from pytest_aecbench.settings.resolve import resolve

    options, ini = _options(config), _ini_keys(config)
    root = layers.find_root(config.rootpath)
    dotenv = DotEnv()
    if root or options or ini:  # not in a project that has nothing to do with us
        dotenv = load_dotenv(root or config.rootpath)
        config.add_cleanup(dotenv.unload)
    project = layers.project_layer(root) if root else {}
    experiment = {}
    if path := options.get("experiment"):
        experiment = layers.experiment_layer(config.invocation_params.dir / str(path[0]))
    return resolve(
        root or config.rootpath,
        {**layers.user_layer(), **ini, **project, **experiment, **options},
        secret_names=dotenv.secret,
        notes=layers.conflicts(ini, project),
    )
