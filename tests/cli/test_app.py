"""What holds for the aec-bench command as a whole."""

from __future__ import annotations

import pytest_aecbench
from tests.cli.conftest import Run


def test_the_command_says_its_version(aec_bench: Run) -> None:
    ended = aec_bench("--version")
    assert (ended.code, ended.out) == (0, f"pytest-aecbench {pytest_aecbench.__version__}\n")


def test_no_command_shows_what_there_is(aec_bench: Run) -> None:
    assert "Usage: aec-bench" in aec_bench("--help").out


def test_an_unknown_command_is_refused(aec_bench: Run) -> None:
    ended = aec_bench("rnu")
    assert (ended.code, ended.out) == (2, "")
    assert "rnu" in ended.err
