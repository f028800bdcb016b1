"""The shipped tasks, run as a user runs them: the oracle earns all, nop earns nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.shipped import TASKS, expected, rewards


@pytest.mark.slow
def test_oracle_earns_all_and_nop_nothing_alike_in_both_modes(tmp_path: Path) -> None:
    by_mode = {
        mode: rewards(tmp_path / mode, f"--aec-local-mode={mode}") for mode in ("auto", "rewriting")
    }
    assert len(TASKS) >= 12
    assert by_mode == {"auto": expected(), "rewriting": expected()}
