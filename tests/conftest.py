"""What tests need of the machine: what is missing skips, or fails where AEC_REQUIRE is "all"."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Generator

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
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): the machine must offer this")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if not AVAILABLE[name]():
                pytest.skip(f"this machine offers no {name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("AEC_REQUIRE") == "all":
        report.outcome, report.longrepr = "failed", f"skipped, but required: {report.longrepr}"
    return report
