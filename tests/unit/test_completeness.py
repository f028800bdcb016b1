"""A run of the tests in which some were left out is told from one in which some failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.completeness import NOT_WHOLE

CONFTEST = """
from tests.completeness import Completeness

def pytest_configure(config):
    config.pluginmanager.register(Completeness())
"""
FAILING = "def test_good(): pass\ndef test_bad(): assert False\n"
SKIPPED = "import pytest\npytest.skip('no reason', allow_module_level=True)\n"
BROKEN = "import not_there\n"


@pytest.fixture(autouse=True)
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("AEC_REQUIRE", "all")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_some=FAILING)


@pytest.mark.parametrize("arguments", [(), ("-n1",)], ids=["plain", "worker"])
def test_failed_tests_are_only_failed_tests(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    assert pytester.runpytest_subprocess(*arguments).ret == pytest.ExitCode.TESTS_FAILED
    assert pytester.runpytest_subprocess("-x", *arguments).ret != NOT_WHOLE


@pytest.mark.parametrize("arguments", [(), ("-n1",)], ids=["plain", "worker"])
@pytest.mark.parametrize("module", [BROKEN, SKIPPED], ids=["broken", "skipped"])
def test_a_module_that_was_not_collected_is_named(
    pytester: pytest.Pytester, module: str, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_other=module)
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret in (NOT_WHOLE, pytest.ExitCode.INTERRUPTED)
    result.stdout.fnmatch_lines(["test_other.py was not collected"])


def test_tests_that_did_not_run_are_counted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_some="def test_first(): pass\ndef test_second(): pass\n")
    pytester.makeconftest(
        CONFTEST + "\ndef pytest_runtestloop(session):\n    session.items.pop()\n"
    )
    result = pytester.runpytest_subprocess()
    assert result.ret == NOT_WHOLE
    result.stdout.fnmatch_lines(["1 of 2 tests have no report"])
