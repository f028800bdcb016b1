"""What tests need of the machine: what is missing skips, or fails where AEC_REQUIRE is "all"."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from functools import cache
from importlib.util import find_spec

import pytest


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


AVAILABLE: dict[str, Callable[[], bool]] = {
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "buildx": lambda: _runs("docker", "buildx", "version"),
    "docker": lambda: find_spec("docker") is not None and _runs("docker", "info"),
    "namespaces": lambda: _runs(
        "unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount", "true"
    ),
}


# Not to be had from Debian 12, so that it cannot be required there.
OPTIONAL = {"buildx"}


@cache
def is_available(name: str) -> bool:
    return AVAILABLE[name]()


def needs(item: pytest.Item) -> set[str]:
    return {name for marker in item.iter_markers("needs") for name in marker.args}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): the machine must offer this")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in sorted(needs(item)):
        if not is_available(name):
            pytest.skip(f"this machine offers no {name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    required = os.environ.get("AEC_REQUIRE") == "all" and not needs(item) & OPTIONAL
    if report.skipped and required:
        report.outcome, report.longrepr = "failed", f"skipped, but required: {report.longrepr}"
    return report
