"""The shipped tasks, run as a user runs them: the oracle earns all, nop earns nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.shipped import TASKS, expected, one_or_all, rewards, some_or_all

pytestmark = pytest.mark.slow


@some_or_all
def test_oracle_earns_all_and_nop_nothing(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert len(TASKS) >= 12
    found = rewards(tmp_path / "auto", "--aec-local-mode=auto", names=names)
    assert found == expected(names)


@one_or_all
def test_they_earn_the_same_by_rewriting(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = rewards(tmp_path / "rewriting", "--aec-local-mode=rewriting", names=names)
    assert found == expected(names)


@some_or_all
def test_they_earn_the_same_side_by_side(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert rewards(tmp_path / "lanes", "--aec-concurrency=8", names=names) == expected(names)
