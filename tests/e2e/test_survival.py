"""A run whose workers keep dying loses nothing and repeats nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.costs import at_night
from tests.project import Project


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "workers"), [(20, 4), at_night(500, 8)])
@pytest.mark.usefixtures("own_machine")
def test_resume_completes_exactly_what_dying_workers_left(
    pytester: pytest.Pytester, trials: int, workers: int
) -> None:
    project = Project(pytester, ())
    for number in range(trials):
        project.task(
            f"domain-{number % 5}/task-{number:03}",
            instruction=f"Task {number}.",  # two tasks with the same files are one task
            solve="sleep 0.1; echo done > output.jsonl",
            verify=None,
            test_sh="[ -s output.jsonl ] && echo 1 > /logs/verifier/reward.txt",
        )
    command = [sys.executable, "-m", "pytest", "-q", "tasks", f"-n{workers}"]
    command.append(f"--aec-concurrency={workers}")
    endless = ["--max-worker-restart=1000", "--aec-experiment-id=chaos"]
    process = subprocess.Popen([*command, *endless], cwd=project.path, stdout=subprocess.DEVNULL)
    killed = 0
    while process.poll() is None:
        time.sleep(trials / 500)
        if killed < trials // 2:  # or on a busy machine no trial would ever end
            killed += kill_one(project.path)
    assert killed >= 5
    assert process.returncode == pytest.ExitCode.TESTS_FAILED
    first = scored(project)
    assert max(first.values()) == 1
    assert len(first) < trials
    resumed = subprocess.run(
        [*command, "--aec-resume=chaos"], cwd=project.path, capture_output=True, text=True
    )
    assert resumed.returncode == 0, resumed.stdout[-2000:]
    final = scored(project)
    assert len(final) == trials
    assert set(final.values()) == {1}
    crashed = [r for r in project.records() if r["evaluation"]["validity"] == "crashed"]
    assert len(crashed) == trials - len(first)
    assert list(project.path.glob("artefacts/ledger/*/.*.running")) == []


def kill_one(root: Path) -> bool:
    """Kill a worker that has a trial under way."""
    notes = list(root.glob("artefacts/ledger/*/.*.running"))
    random.shuffle(notes)
    for note in notes:
        try:
            owner = json.loads(note.read_text().splitlines()[0])
            os.kill(int(owner["aecbench.pid"]), signal.SIGKILL)
        except (OSError, IndexError, ValueError):
            continue  # over by now, or only just begun
        return True
    return False


def scored(project: Project) -> Counter[str]:
    """Return how many rewards each trial has."""
    return Counter(
        record["trial_key"]
        for record in project.records()
        if record["evaluation"]["validity"] == "scored"
    )
