"""The settings of a pytest run, from its options, ini keys and configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.host.signals import Interrupts

if TYPE_CHECKING:
    from pytest_aecbench.settings import Settings
    from pytest_aecbench.settings.layers import Layer

__all__ = [
    "expect_trials",
    "freeze",
    "has_trials",
    "interrupts_of",
    "is_configured",
    "is_first_worker",
    "is_retried",
    "is_worker",
    "refusal_of",
    "settings_of",
]

# setting -> option, ini key
_KEYS = {
    "agents": ("--aec-agent", "aec_agent"),
    "dataset": ("--aec-dataset", "aec_dataset"),
    "allow_drift": ("--aec-allow-drift", None),
    "repetitions": ("--aec-repetitions", "aec_repetitions"),
    "backend": ("--aec-backend", "aec_backend"),
    "concurrency": ("--aec-concurrency", "aec_concurrency"),
    "max_cost_usd": ("--aec-max-cost", "aec_max_cost"),
    "local_mode": ("--aec-local-mode", "aec_local_mode"),
    "threshold": ("--aec-threshold", "aec_threshold"),
    "timeout_multiplier": ("--aec-timeout-multiplier", "aec_timeout_multiplier"),
    "no_verify": ("--aec-no-verify", "aec_no_verify"),
    "retries": ("--aec-retries", "aec_retries"),
    "retry_delay_sec": ("--aec-retry-delay", "aec_retry_delay"),
    "checks": ("--aec-check", None),
    "keep": ("--aec-keep", "aec_keep"),
    "force_build": ("--aec-force-build", None),
    "gate": ("--aec-gate", "aec_gate"),
    "max_error_rate": ("--aec-max-error-rate", "aec_max_error_rate"),
    "baseline": ("--aec-baseline", "aec_baseline"),
    "fail_on_regression": ("--aec-fail-on-regression", "aec_fail_on_regression"),
    "summary_md": ("--aec-summary-md", "aec_summary_md"),
    "progress_sec": ("--aec-progress", "aec_progress"),
    "resume": ("--aec-resume", None),
    "rerun": ("--aec-rerun", None),
    "evaluate": ("--aec-evaluate", None),
    "experiment_id": ("--aec-experiment-id", None),
    "tasks_root": (None, "aec_tasks_root"),
    "ledger_root": (None, "aec_ledger_root"),
    "jobs_root": (None, "aec_jobs_root"),
    "datasets_root": (None, "aec_datasets_root"),
    # Not themselves settings: which file to read, and what to do with the settings.
    "experiment": ("--aec-experiment", None),
    "show_config": ("--aec-show-config", None),
}

_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
_REFUSAL = pytest.StashKey[pytest.UsageError]()


def settings_of(config: pytest.Config) -> Settings:
    """Return the run's settings, resolving them on first use; a mistake is a usage error."""
    if _SETTINGS not in config.stash:
        # Imported here because most pytest runs have no use for it.
        from pytest_aecbench.errors import SettingsError

        try:
            config.stash[_SETTINGS] = _thaw(config) if is_worker(config) else _resolve(config)
        except SettingsError as error:
            config.stash[_REFUSAL] = pytest.UsageError(*str(error).splitlines())
            raise config.stash[_REFUSAL] from None
    return config.stash[_SETTINGS]


def refusal_of(config: pytest.Config) -> pytest.UsageError | None:
    """Return what was wrong with the settings, once they were asked for."""
    return config.stash.get(_REFUSAL, None)


def _resolve(config: pytest.Config) -> Settings:
    from pytest_aecbench.documents.variables import DotEnv, load_dotenv
    from pytest_aecbench.settings import layers, resolve

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


def freeze(config: pytest.Config) -> dict[str, Any]:
    """Return the settings as workers get them, who read no file: it may have changed since."""
    settings = settings_of(config)
    return {
        "root": str(settings.root),
        "given": dict(settings.given),
        "experiment_id": settings.experiment_id,
        "run_id": settings.run_id,
        "secret_names": settings.secret_names,
    }


def _thaw(config: pytest.Config) -> Settings:
    from pytest_aecbench.settings import resolve

    # Nothing, where the settings are wrong: the controller refuses the run if it has trials.
    frozen = dict(getattr(config, "workerinput", {})["aecbench"])
    root = Path(frozen.pop("root", config.rootpath))
    return resolve(root, frozen.pop("given", {}), **frozen)


def is_configured(config: pytest.Config) -> bool:
    """Tell whether the user set anything of ours, which makes it worth checking early."""
    return bool(_options(config) or _ini_keys(config))


_INTERRUPTS = pytest.StashKey[Interrupts]()


def interrupts_of(config: pytest.Config) -> Interrupts:
    """Return the run's interrupts, which have no effect until they are listened to."""
    return config.stash.setdefault(_INTERRUPTS, Interrupts(hurries=not is_worker(config)))


_HAS_TRIALS = pytest.StashKey[bool]()


def expect_trials(config: pytest.Config) -> None:
    """Note that trials are going to be run, here or in workers."""
    config.stash[_HAS_TRIALS] = True


def has_trials(config: pytest.Config) -> bool:
    """Tell whether trials are or were run."""
    return config.stash.get(_HAS_TRIALS, False)


def is_retried(report: pytest.CollectReport | pytest.TestReport) -> bool:
    """Tell whether the report is of an attempt after which there was another."""
    return str(report.outcome) == "retried"


def is_worker(config: pytest.Config) -> bool:
    """Tell whether this process runs tests for another one."""
    return hasattr(config, "workerinput")


def is_first_worker(config: pytest.Config) -> bool:
    """Tell whether this process is the one to say what all workers would say."""
    return bool(getattr(config, "workerinput", {"workerid": "gw0"})["workerid"] == "gw0")


def _options(config: pytest.Config) -> Layer:
    """Return what was set on the command line."""
    return {
        name: (value, option)
        for name, (option, _) in _KEYS.items()
        if option and _is_set(value := config.getoption(option))
    }


def _ini_keys(config: pytest.Config) -> Layer:
    """Return what pytest's own configuration sets."""
    file = f"{config.inipath.name}: " if config.inipath else ""
    return {
        name: (value, f"{file}{key}")
        for name, (_, key) in _KEYS.items()
        if key and _is_set(value := _ini(config, key))
    }


def _ini(config: pytest.Config, key: str) -> object:
    try:
        return config.getini(key)
    except (TypeError, ValueError) as error:  # how pytest reports a value of the wrong type
        raise pytest.UsageError(f"{key}: {error}") from None


def _is_set(value: object) -> bool:
    return not (value is None or value is False or value == [] or value == "")
