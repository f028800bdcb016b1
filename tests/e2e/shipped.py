"""The shipped tasks, run in a directory of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TASKS = sorted(path.parent for path in (ROOT / "tasks").glob("*/*/task.toml"))
AGENTS = ("oracle", "nop")

# The oracle earns all and nop earns nothing.
EXPECTED = {
    (task.relative_to(ROOT / "tasks").as_posix(), agent): float(agent == "oracle")
    for task in TASKS
    for agent in AGENTS
}


def rewards(directory: Path, *arguments: str) -> dict[tuple[str, str], float]:
    """Run every shipped task in ``directory`` and return what each agent earned."""
    directory.mkdir()
    (directory / "tasks").symlink_to(ROOT / "tasks")
    (directory / "pytest.ini").write_text("[pytest]\n")
    agents = [f"--aec-agent={agent}" for agent in AGENTS]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tasks", *agents, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    found = {}
    for path in (directory / "artefacts/ledger").glob("*/*.json"):
        record = json.loads(path.read_text())
        assert record["evaluation"]["validity"] == "scored", record["evaluation"]
        assert record["warnings"] == []
        found[record["task"]["task_id"], record["agent"]["name"]] = record["evaluation"]["reward"]
    return found
