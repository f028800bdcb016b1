"""A small project with tasks that pytest runs in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tasks import write_indented

VERIFY = """
import json, pathlib
out = pathlib.Path("/workspace/output.jsonl")
got = json.loads(out.read_text()) if out.exists() else {}
current = abs(got.get("current_a", 0) - 2.0) < 0.01
power = abs(got.get("power_w", 0) - 24.0) < 0.1
reward = {"reward": 0.65 * current + 0.35 * power, "current_a": int(current), "power_w": int(power)}
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps(reward))
"""
SOLVE = """echo '{"current_a": 2.0, "power_w": 24.0}' > /workspace/output.jsonl"""
HALF = """command:echo '{"power_w": 24}' > output.jsonl"""


class Project:
    """A directory with tasks that pytest runs in."""

    def __init__(self, pytester: pytest.Pytester, mode: tuple[str, ...]) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.mode = mode

    def task(
        self,
        task_id: str = "electrical/ohms-law",
        *,
        toml: str = '[metadata]\ndifficulty = "easy"\n',
        instruction: str = "Write current_a and power_w to `/workspace/output.jsonl`.",
        verify: str | None = VERIFY,
        test_sh: str | None = "python3 /tests/verify.py\n",
        solve: str | None = SOLVE,
        files: Mapping[str, str] | None = None,
    ) -> Path:
        """Write a task; by default one that the oracle solves."""
        directory = self.path / "tasks" / task_id
        contents = {
            "task.toml": toml,
            "instruction.md": instruction,
            "tests/verify.py": verify,
            "tests/test.sh": test_sh,
            "solution/solve.sh": solve,
            **(files or {}),
        }
        return write_indented(directory, contents)

    def run(self, *args: str) -> pytest.RunResult:
        """Run pytest on the tasks in this project's mode."""
        chosen = args if any(arg.startswith("tasks") for arg in args) else ("tasks", *args)
        return self.pytester.runpytest(*self.mode, *chosen)

    def records(self) -> list[dict[str, Any]]:
        """Return what the ledger holds."""
        paths = sorted((self.path / "artefacts/ledger").glob("*/*.json"))
        return [json.loads(path.read_text()) for path in paths]

    def record(self) -> dict[str, Any]:
        """Return the one record that the ledger holds."""
        (record,) = self.records()
        return record
