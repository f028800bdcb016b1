"""How long a run of uneven trials takes under -n 8, against the least that any order could need.

Trials only sleep, so that eight of them fit on any machine. The floor is the longest trial or an
eighth of all of them together, whichever is more.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from generated import write_tasks

from pytest_aecbench import Ledger

WORKERS = 8
# Trials that sleep where an agent would work.
CONFTEST = """
import time
import pytest
from pytest_aecbench import AgentResult
from pytest_aecbench.trials.reward import Reward

def seconds(task):
    return float((task.path / "seconds").read_text())

@pytest.fixture
def aec_sandbox():
    return None

@pytest.fixture
def aec_execution(aec_task):
    time.sleep(seconds(aec_task))
    return AgentResult()

@pytest.fixture
def aec_reward(aec_execution):
    return Reward(1.0, "reward.json")
"""


def run(root: Path, *arguments: str) -> float:
    """Return how long the trials took, from the first that began to the last that ended."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tasks", f"-n{WORKERS}", *arguments],
        cwd=root,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    newest = max((root / "artefacts/ledger").iterdir(), key=lambda path: path.stat().st_mtime)
    timings = [record.timing for record in Ledger(newest.parent).records(newest.name)]
    spent = max(t.finished_at for t in timings) - min(t.started_at for t in timings)
    return spent.total_seconds()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20260412)
    arguments = parser.parse_args()
    numbers = random.Random(arguments.seed)
    lengths = [min(8.0, numbers.lognormvariate(-0.7, 1.0)) for _ in range(arguments.trials)]
    floor = max(max(lengths), sum(lengths) / WORKERS)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_tasks(root, arguments.trials)
        (root / "conftest.py").write_text(CONFTEST)
        for task, length in zip(sorted(root.glob("tasks/*/*")), lengths, strict=True):
            (task / "seconds").write_text(str(length))
        modes = {
            "xdist worksteal": ("--dist=worksteal",),
            "xdist loadgroup": ("--dist=loadgroup",),
            "ours": (),  # which knows by now how long each trial takes
        }
        print(f"makespan of {arguments.trials} trials with -n {WORKERS}, least {floor:.1f} s")
        for mode, options in modes.items():
            taken = run(root, *options)
            print(f"  {mode}: {taken:.1f} s, ratio {taken / floor:.2f}")


if __name__ == "__main__":
    main()
