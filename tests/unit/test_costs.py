"""A test that takes long says so, or fails."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFTEST = """
from tests.costs import Costs

def pytest_configure(config):
    for name in ("slow", "nightly"):
        config.addinivalue_line("markers", name)
    config.pluginmanager.register(Costs(turn="no_such_fixture"))
"""
TESTS = """
import pytest

def test_long(): pass

@pytest.mark.slow
def test_long_and_known_to_be(): pass
"""


@pytest.mark.parametrize(("required", "failed"), [("all", 1), ("", 0)])
def test_what_takes_long_fails_where_everything_is_required(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, required: str, failed: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("AEC_SLOW_LIMIT", "0")
    monkeypatch.setenv("AEC_REQUIRE", required)
    monkeypatch.setenv("AEC_NIGHTLY", "0")
    pytester.makeconftest(CONFTEST)
    result = pytester.runpytest_subprocess(pytester.makepyfile(TESTS))
    result.assert_outcomes(passed=2 - failed, failed=failed)
    result.stdout.fnmatch_lines(["*over 0 s, and not marked slow*", "0 s  *::test_long"])
