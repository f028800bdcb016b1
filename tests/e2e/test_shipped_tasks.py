"""The shipped tasks, run as a user runs them: the oracle earns all, nop earns nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TASKS = sorted(path.parent for path in (ROOT / "tasks").glob("*/*/task.toml"))


def rewards(directory: Path, mode: str) -> dict[tuple[str, str], float]:
    """Run every shipped task in ``directory`` and return what each agent earned."""
    (directory / "tasks").symlink_to(ROOT / "tasks")
    (directory / "pytest.ini").write_text("[pytest]\n")
    arguments = ["tasks", "--aec-agent=oracle", "--aec-agent=nop", f"--aec-local-mode={mode}"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    found = {}
    for path in (directory / "artefacts/ledger").glob("*/*.json"):
        record = json.loads(path.read_text())
        assert record["evaluation"]["validity"] == "scored", record["evaluation"]
        assert record["warnings"] == []
        found[record["task"]["task_id"], record["agent"]["name"]] = record["evaluation"]["reward"]
    return found


def test_oracle_earns_all_and_nop_nothing_alike_in_both_modes(tmp_path: Path) -> None:
    by_mode = {}
    for mode in ("auto", "rewriting"):
        directory = tmp_path / mode
        directory.mkdir()
        by_mode[mode] = rewards(directory, mode)
    names = [str(task.relative_to(ROOT / "tasks")) for task in TASKS]
    assert len(names) >= 12
    expected = {(name, agent): float(agent == "oracle") for name in names for agent in AGENTS}
    assert by_mode == {"auto": expected, "rewriting": expected}


AGENTS = ("oracle", "nop")
