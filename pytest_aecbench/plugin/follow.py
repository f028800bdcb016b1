"""``--aec-follow`` and ``-s``: the turns of a model agent, printed as they happen."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.lanes import lane_of_thread
from pytest_aecbench.plugin.shown import printer_of
from pytest_aecbench.plugin.state import is_worker, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_aecbench.agents.trajectory import Entry

__all__ = ["check_follow", "follower"]


def check_follow(config: pytest.Config) -> None:
    """Raise SettingsError where the turns of several trials would be mixed."""
    from pytest_aecbench.plugin.lanes import lanes_of

    if not settings_of(config).follow:
        return
    option = "-n" if config.getoption("numprocesses", None) else "--aec-concurrency"
    if option == "-n" or lanes_of(config):
        raise SettingsError(
            f"--aec-follow: the turns of several trials would be mixed; leave {option} out"
        )


def follower(item: pytest.Item) -> Callable[[Entry], object] | None:
    """Return what prints the entries of a trial's trajectory; None without a reader."""
    config = item.config
    shown = config.getoption("capture") == "no" or settings_of(config).follow
    if is_worker(config) or not shown:
        return None
    from pytest_aecbench.reports.trajectory import Follower, Style

    terminal = config.get_terminal_writer()
    capture = config.pluginmanager.getplugin("capturemanager")
    show = printer_of(item)

    def write(text: str) -> None:
        # In a thread of a lane nothing is captured, and the capture is another lane's.
        with nullcontext() if lane_of_thread() else capture.global_and_fixture_disabled():
            show(f"{text}\n")

    return Follower(write, Style(terminal.fullwidth, terminal.hasmarkup))
