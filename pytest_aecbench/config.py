"""The settings of a pytest run, from its options and ini keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_aecbench.settings import Settings

__all__ = [
    "expect_trials",
    "has_trials",
    "is_configured",
    "is_first_worker",
    "is_retried",
    "is_worker",
    "settings_of",
]

# setting -> option, ini key
_KEYS = {
    "agents": ("--aec-agent", "aec_agent"),
    "repetitions": ("--aec-repetitions", "aec_repetitions"),
    "backend": ("--aec-backend", "aec_backend"),
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
    "summary_md": ("--aec-summary-md", "aec_summary_md"),
    "progress_sec": ("--aec-progress", "aec_progress"),
    "resume": ("--aec-resume", None),
    "rerun": ("--aec-rerun", None),
    "experiment_id": ("--aec-experiment-id", None),
    "tasks_root": (None, "aec_tasks_root"),
    "ledger_root": (None, "aec_ledger_root"),
    "jobs_root": (None, "aec_jobs_root"),
}

_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()


def settings_of(config: pytest.Config) -> Settings:
    """Return the run's settings, resolving them on first use; a mistake is a usage error."""
    if _SETTINGS not in config.stash:
        # Imported here because most pytest runs have no use for it.
        from pytest_aecbench.errors import SettingsError
        from pytest_aecbench.settings import resolve

        handed_over = getattr(config, "workerinput", {}).get("aecbench", {})
        try:
            config.stash[_SETTINGS] = resolve(config.rootpath, _given(config), **handed_over)
        except SettingsError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_SETTINGS]


def is_configured(config: pytest.Config) -> bool:
    """Tell whether the user set anything of ours, which makes it worth checking early."""
    return bool(_given(config))


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


def _given(config: pytest.Config) -> dict[str, tuple[object, str]]:
    """Return what the user set and where; an option goes before its ini key."""
    given = {}
    for name, (option, key) in _KEYS.items():
        if option and _is_set(value := config.getoption(option)):
            given[name] = (value, option)
        elif key and _is_set(value := _ini(config, key)):
            given[name] = (value, key)
    return given


def _ini(config: pytest.Config, key: str) -> object:
    try:
        return config.getini(key)
    except (TypeError, ValueError) as error:  # how pytest reports a value of the wrong type
        raise pytest.UsageError(f"{key}: {error}") from None


def _is_set(value: object) -> bool:
    return not (value is None or value is False or value == [] or value == "")
