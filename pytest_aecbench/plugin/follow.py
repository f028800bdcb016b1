"""``--aec-follow`` and ``-s``: the turns of a model agent, printed as they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.plugin.state import is_worker, settings_of
from pytest_aecbench.plugin.unread import print_if_read

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_aecbench.agents.trajectory import Entry

__all__ = ["check_follow", "follower"]


def check_follow(config: pytest.Config) -> None:
    """Raise SettingsError where the turns of several trials would be mixed."""
    if settings_of(config).follow and config.getoption("numprocesses", None):
        raise SettingsError(
            "--aec-follow: the turns of several trials would be mixed; leave -n out"
        )


def follower(config: pytest.Config) -> Callable[[Entry], object] | None:
    """Return what prints the entries of a trajectory; None without a reader."""
    shown = config.getoption("capture") == "no" or settings_of(config).follow
    if is_worker(config) or not shown:
        return None
    from pytest_aecbench.reports.trajectory import Follower, Style

    terminal = config.get_terminal_writer()
    capture = config.pluginmanager.getplugin("capturemanager")

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print_if_read(text)

    return Follower(write, Style(terminal.fullwidth, terminal.hasmarkup))
