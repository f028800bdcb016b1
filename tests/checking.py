"""Tasks to check, sound and broken, and what their checks came to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.tasks import write_indented

VERIFY = """\
import json, pathlib
EXPECTED = {"current_a": 24 / 13, "power_w": 24 * 12 / 13}
out = pathlib.Path("/workspace/output.jsonl")
got = {}
if out.is_file() and not out.is_symlink() and out.stat().st_size < 10_000:
    try:
        got = json.loads(out.read_text())
    except (ValueError, RecursionError):
        pass
got = got if isinstance(got, dict) else {}
def right(name):
    value = got.get(name)
    return type(value) in (int, float) and abs(value - EXPECTED[name]) <= 0.01 * EXPECTED[name]
details = {name: int(right(name)) for name in EXPECTED}
reward = {"reward": sum(details.values()) / 2, **details}
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps(reward))
"""
# A task in which no check finds anything.
SOUND = {
    "task.toml": '[metadata]\ndifficulty = "easy"\n[verifier]\ntimeout_sec = 60\n',
    "instruction.md": "A source of 12 V feeds 6.5 ohms. Write one JSON object with `current_a` and "
    "`power_w`, each within 1 %, to `/workspace/output.jsonl`.\n",
    "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\n",
    "tests/test.sh": "python3 /tests/verify.py\n",
    "tests/verify.py": VERIFY,
    "tests/fixtures/golden_pass.md": '```json\n{"current_a": 1.85, "power_w": 22.2}\n```\n',
    "tests/fixtures/golden_fail.md": '```json\n{"current_a": 1.85, "power_w": 11.1}\n```\n',
    "tests/fixtures/golden_fail_swapped.md": "Swapped.\n\nreward: 0\n\n"
    '```json\n{"current_a": 22.2, "power_w": 1.85}\n```\n',
    "solution/solve.sh": 'python3 -c "import json; I = 12 / 6.5; '
    "print(json.dumps({'current_a': I, 'power_w': 12 * I}))\" > /workspace/output.jsonl\n",
}


def write_task(directory: Path, changes: Mapping[str, str | None] | None = None) -> Path:
    """Write the sound task with these files changed, or left out where None."""
    return write_indented(directory, {**SOUND, **(changes or {})})


@dataclass(frozen=True)
class Checked:
    """How pytest ended, and what the ledger has of each check."""

    code: int
    output: str
    records: list[dict[str, Any]]

    def outcomes(self, task_id: str) -> dict[str, str]:
        """Return the outcome of each check of one task."""
        return {r["check"]: r["outcome"] for r in self.records if r["task_id"] == task_id}

    def failed(self, task_id: str) -> list[str]:
        """Return the checks of one task that did not pass."""
        return [
            check
            for check, outcome in self.outcomes(task_id).items()
            if outcome in ("failed", "error")
        ]

    def record(self, task_id: str, check: str) -> dict[str, Any]:
        """Return what the ledger has of one check."""
        (record,) = [r for r in self.records if (r["task_id"], r["check"]) == (task_id, check)]
        return record


def checked_once(
    factory: pytest.TempPathFactory, name: str, check: Callable[[Path], Checked]
) -> Checked:
    """Return what one process has found, for all that run tests at the same time."""
    shared = factory.getbasetemp()
    root = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / name
    found = root / "checked.json"
    with FileLock(f"{root}.lock"):
        if not found.exists():
            root.mkdir()
            found.write_text(json.dumps(asdict(check(root))))
    return Checked(**json.loads(found.read_text()))


def run_checks(root: Path, *arguments: str) -> Checked:
    """Run pytest below ``root`` as a user does."""
    if not (root / "pytest.ini").exists():
        (root / "pytest.ini").write_text("[pytest]\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
    )
    paths = sorted((root / "artefacts/ledger/_checks").glob("*/*.json"))
    records = [json.loads(path.read_text()) for path in paths]
    return Checked(ended.returncode, ended.stdout + ended.stderr, records)
