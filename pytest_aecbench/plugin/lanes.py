"""The way in which trials run: in lanes of this process, one at a time, or in workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.plugin.state import is_worker, settings_of

if TYPE_CHECKING:
    import pytest

__all__ = ["ON_THE_WAY", "Way", "check_lanes", "lanes_of", "way_of"]

# A lane has its slot, connections or the pipes and namespaces of sandboxes, and files to copy.
_FILES_OF_A_LANE = 16
_FILES_OF_THE_PROCESS = 128


class Way(NamedTuple):
    """The number of lanes that trials run in, if any, and the header's sentence about it.

    ``as_job`` says that lanes wait for one job, which is what limits the trials at once.
    """

    lanes: int | None
    sentence: str | None
    as_job: bool = False


# Trials that have a lane in order to wait for a job cost 60 KB each.
_ALL = 1_000_000
# So many of them work at the same time on their way to the job, or home from it.
ON_THE_WAY = 32


def lanes_of(config: pytest.Config) -> int | None:
    """Return how many trials this process runs side by side; None for one after the other."""
    return way_of(config).lanes


def way_of(config: pytest.Config) -> Way:
    """Return how trials are run, by the settings, the options of pytest and the backend."""
    from pytest_aecbench.backends import is_batch
    from pytest_aecbench.plugin.lookup import backend_of

    settings, option = settings_of(config), config.option
    count = settings.concurrency
    if option.collectonly or option.setupplan or option.setuponly or option.setupshow:
        return Way(None, None)
    if is_batch(backend := backend_of(config)) and not is_worker(config):
        return Way(_ALL, "all trials as one job for each image", as_job=True)
    if count is None or count < 2 or is_worker(config) or _has_workers(config):
        return Way(None, None)
    if not getattr(backend, "thread_safe", False):
        name = type(backend).__name__
        return Way(None, f"one trial at a time; {name} is not thread_safe, use -n")
    return Way(count, f"up to {count} trials at once in this process")


def _has_workers(config: pytest.Config) -> bool:
    option = config.option
    return getattr(option, "numprocesses", None) is not None or bool(getattr(option, "tx", None))


def check_lanes(config: pytest.Config) -> None:
    """Raise SettingsError for lanes that cannot be, and let this process open enough files."""
    count, _, as_job = way_of(config)
    if count is None:
        return
    settings = settings_of(config)
    where = settings.where("concurrency", "--aec-concurrency")
    if as_job:
        where = f"--aec-backend={settings.backend}"
        _check_job(config, where)
        count = ON_THE_WAY
    for name in ("usepdb", "trace"):
        if config.getoption(name, False):
            option = {"usepdb": "--pdb"}.get(name, f"--{name}")
            raise SettingsError(f"{option}: debugs one trial at a time; leave out {where}")
    import resource

    needed = count * _FILES_OF_A_LANE + _FILES_OF_THE_PROCESS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            most = max(1, (hard - _FILES_OF_THE_PROCESS) // _FILES_OF_A_LANE)
            raise SettingsError(
                f"{where}: {count} trials at once need {needed} open files, and this process may "
                f"have {hard}; use at most {most}, or raise the limit (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _check_job(config: pytest.Config, where: str) -> None:
    """Raise SettingsError for options that one job for all trials has no use for."""
    name = settings_of(config).backend
    if _has_workers(config):
        raise SettingsError(
            f"-n: {name} runs all trials of a run as one job, for which one process waits; leave "
            "-n out, and limit the trials at once by --aec-concurrency"
        )
    if settings_of(config).checks:
        raise SettingsError(
            f"--aec-check: {name} runs whole trials, and checks send commands one by one; check "
            "tasks with --aec-backend=docker or local"
        )
