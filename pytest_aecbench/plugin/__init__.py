"""The pytest plugin's table of contents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

MODULES = (
    "options",
    "collection",
    "session",
    "concurrency",
    "fixtures",
    "retries",
    "records",
    "checks",
    "terminal",
    "gate",
    "html",
    "max_cost",
    "progress",
)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the modules that implement hooks and fixtures, and our own hooks."""
    # Not by pytest_plugins: for each name there, pytest looks through the entry points of every
    # installed distribution, which every pytest run on the machine would pay for.
    from pytest_aecbench.plugin import hooks

    pluginmanager.add_hookspecs(hooks)
    for module in MODULES:
        name = f"{__name__}.{module}"
        pluginmanager.register(import_module(name), name)
