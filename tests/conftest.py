"""What tests need of the machine: what is missing skips, or fails where it is required."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


AVAILABLE: dict[str, Callable[[], bool]] = {
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "namespaces": lambda: _runs(
        "unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount", "true"
    ),
    "rootless": lambda: (
        os.geteuid() == 0
        and _runs(
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"),
        )
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): the machine must offer this")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if not AVAILABLE[name]():
                required = name in os.environ.get("AEC_REQUIRE", "").split(",")
                (pytest.fail if required else pytest.skip)(f"this machine offers no {name}")
