"""A run of the tests that leaves a process fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.completeness import NOT_WHOLE
from tests.leftovers import processes_of

CONFTEST = """
from tests import leftovers

leftovers._PATIENCE_SEC = 0.0

def pytest_configure(config):
    config.pluginmanager.register(leftovers.Leftovers())
"""
TESTS = """
import subprocess, sys

def test_it(tmp_path):
    process = subprocess.Popen(["sleep", "600"], cwd=tmp_path, start_new_session=True)
    if {ends}:
        process.kill()
        process.wait()
    process.returncode = 0  # so that Python does not warn of it
"""


@pytest.mark.parametrize("arguments", [(), ("-n1",)], ids=["plain", "worker"])
@pytest.mark.parametrize("ends", [True, False], ids=["ends", "left"])
def test_a_process_that_tests_have_left_is_named(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    ends: bool,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeconftest(CONFTEST)
    file = pytester.makepyfile(TESTS.format(ends=ends))
    result = pytester.runpytest_subprocess(file, *arguments)
    result.assert_outcomes(passed=1)
    left = processes_of(pytester.path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if ends:
        assert (result.ret, left) == (0, {})
    else:
        assert result.ret == NOT_WHOLE
        result.stdout.fnmatch_lines(["*processes that tests have left*", "*  sleep 600 "])
