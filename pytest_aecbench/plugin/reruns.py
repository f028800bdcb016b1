"""``--reruns`` of pytest-rerunfailures, which trials cannot have."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    import pytest

__all__ = ["check_reruns"]


def check_reruns(config: pytest.Config) -> None:
    """Raise SettingsError if pytest-rerunfailures would repeat trials until they pass."""
    given = [getattr(config.option, name, None) for name in ("force_reruns", "reruns")]
    with suppress(ValueError, KeyError):  # the plugin is not there
        given.append(config.getini("reruns"))
    if any(given):
        raise SettingsError(
            "--reruns: a trial that is repeated until it passes tells nothing; use --aec-retries "
            "for errors, --aec-repetitions for more trials, or -p no:rerunfailures"
        )
