"""Projects with many generated tasks, for the other benchmarks."""

from __future__ import annotations

from pathlib import Path

DIFFICULTIES = ("easy", "medium", "hard")


def write_tasks(root: Path, count: int, mode: str = "separate") -> None:
    """Write ``count`` trivial tasks below ``root``/tasks, in five domains.

    Their verifiers run in a sandbox of their own, or in that of the agent (``shared``).
    """
    (root / "pytest.ini").write_text("[pytest]\n")
    for number in range(count):
        directory = root / "tasks" / f"domain-{number % 5}" / f"task-{number:05}"
        files = {
            "task.toml": 'version = "1.0"\n\n[metadata]\n'
            f'difficulty = "{DIFFICULTIES[number % 3]}"\nvisibility = "public"\n'
            'category = "reasoning"\ntags = ["generated", "AS-NZS-3008"]\n\n'
            "[agent]\ntimeout_sec = 600.0\n\n"
            f'[verifier]\ntimeout_sec = 300.0\nenvironment_mode = "{mode}"\n\n'
            "[environment]\ncpus = 2\nmemory_mb = 4096\nallow_internet = true\n",
            "instruction.md": f"Write {number} to `/workspace/output.jsonl`.\n",
            "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\n",
            "solution/solve.sh": f"echo {number} > /workspace/output.jsonl\n",
            "tests/test.sh": f"grep -qx {number} /workspace/output.jsonl && reward=1 || reward=0\n"
            "echo $reward > /logs/verifier/reward.txt\n",
        }
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
