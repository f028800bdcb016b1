"""What a sandbox of its own for the verifier costs, against verifying in the agent's sandbox.

The same trials run both ways, with an agent that works for some seconds. The second sandbox starts
while it works. Docker needs an engine with ``python:3.11-slim``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generated import write_tasks

MODES = ("shared", "separate")


def write_project(root: Path, trials: int, seconds: float, mode: str) -> None:
    write_tasks(root, trials, mode)
    for solve in root.glob("tasks/*/*/solution/solve.sh"):
        solve.write_text(f"sleep {seconds:g}\n{solve.read_text()}")


def measure(backend: str, mode: str, trials: int, seconds: float) -> float:
    """Return the seconds that each trial took."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_project(root, trials, seconds, mode)
        argv = [sys.executable, "-m", "pytest", "-qq", "tasks", f"--aec-backend={backend}"]
        start = time.perf_counter()
        subprocess.run(argv, cwd=root, check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - start) / trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", action="append", choices=["local", "docker"])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="how long the agent works")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    arguments = parser.parse_args()
    for backend in arguments.backend or ["local"]:
        taken = {
            mode: min(
                measure(backend, mode, arguments.trials, arguments.seconds)
                for _ in range(arguments.rounds)
            )
            for mode in MODES
        }
        shared, separate = (taken[mode] for mode in MODES)
        print(
            f"verification on {backend}: {separate:.2f} s a trial in a sandbox of its own, "
            f"{shared:.2f} s in the agent's, ratio {separate / shared:.2f} ({arguments.trials} "
            f"trials of {arguments.seconds:g} s, best of {arguments.rounds})"
        )


if __name__ == "__main__":
    main()
