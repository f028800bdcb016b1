"""An arena: a project whose trials all earn 1, one run that is hurt, and its resumption."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.places import Place
from tests.stopping import processes, wait_until
from tests.tasks import write_tree

__all__ = ["Arena", "Verdict"]

_TRIALS = 6
_ROOT = Path(__file__).parents[2]
_PATIENCE_SEC = 300


@dataclass(frozen=True)
class Verdict:
    """What became of the trials; each figure must be 0."""

    lost: int
    doubled: int
    leaked: int
    zeros: int
    tracebacks: int
    details: tuple[str, ...] = ()


class Arena:
    """A project in ``home``, whose name is also the name of the experiment."""

    def __init__(self, home: Path, place: Place) -> None:
        self.home = home
        self.place = place
        self.temporary = home / "tmp"
        self.temporary.mkdir(parents=True)
        self.ledger = home / "artefacts/ledger" / home.name
        self._output = home / "output.txt"
        self._marker = f"AEC_ARENA={home}"
        for number in range(_TRIALS):
            files = {
                "task.toml": "",
                "instruction.md": f"Write the number {number} to `/workspace/answer.txt`.",
                "environment/Dockerfile": place.dockerfile,
                "solution/solve.sh": f"sleep 0.4\necho {number} > answer.txt\n",
                "tests/test.sh": f'test "$(cat answer.txt)" = {number}\n'
                "echo $((1 - $?)) > /logs/verifier/reward.txt\n",
            }
            write_tree(home / f"tasks/civil/task-{number}", files)

    def environment(self) -> dict[str, str]:
        """Return the variables of all processes of this arena's runs."""
        name, _, value = self._marker.partition("=")
        own = {"TMPDIR": str(self.temporary), "PYTHONPATH": str(_ROOT), name: value}
        return {**os.environ, **own, **self.place.environment()}

    def start(
        self,
        *arguments: str,
        before: Sequence[str] = (),
        env: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a run with two workers, or go on with the experiment if it has begun."""
        chosen = "resume" if self.ledger.exists() else "experiment-id"
        command = [
            *before,
            sys.executable,
            "-m",
            "pytest",
            "tasks",
            "-n2",
            "-p",
            "no:cacheprovider",
        ]
        command += [f"--aec-backend={self.place.name}", f"--aec-{chosen}={self.home.name}"]
        command += ["--max-worker-restart=100", "--aec-retries=3", "--aec-retry-delay=0.1"]
        return self.run([*command, *arguments], env)

    def run(
        self, command: Sequence[str], env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in the project; its output counts."""
        with self._output.open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.home,
                env={**self.environment(), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for_trials(self, run: subprocess.Popen[bytes]) -> None:
        """Wait until a trial is under way, or the run is over."""
        wait_until(lambda: self.notes() or run.poll() is not None, "the first trial")

    def workers(self) -> list[int]:
        """Return the processes that have trials under way."""
        found = []
        for note in self.notes():
            try:
                found.append(int(json.loads(note.read_text().splitlines()[0])["aecbench.pid"]))
            except (OSError, IndexError, ValueError):
                continue  # over by now, or only just begun
        return found

    def notes(self) -> list[Path]:
        """Return the notes on trials under way."""
        return list(self.ledger.glob(".*.running"))

    def complete(self) -> None:
        """Resume until nothing is left to do."""
        for _ in range(3):
            if self.start().wait(_PATIENCE_SEC) == 0:
                return

    def verdict(self) -> Verdict:
        """Return what became of the trials."""
        records = [json.loads(path.read_text()) for path in sorted(self.ledger.glob("*.json"))]
        scored = [one for one in records if one["evaluation"]["validity"] == "scored"]
        rewards = Counter(one["trial_key"] for one in scored)
        zeros = [one for one in scored if one["evaluation"]["reward"] != 1]
        left = self._left()
        output = self._output.read_text(errors="replace")
        return Verdict(
            lost=_TRIALS - len(rewards),
            doubled=sum(rewards.values()) - len(rewards),
            leaked=len(left),
            zeros=len(zeros),
            tracebacks=output.count("Traceback (most") + output.count("INTERNALERROR>"),
            details=(*left, *map(_told, zeros)),
        )

    def _left(self) -> list[str]:
        """Return what is left once processes that are ending had time to."""
        deadline = time.monotonic() + 20
        while (left := self._found()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left

    def _found(self) -> list[str]:
        found = self.place.left(self.temporary)
        found += [f"process {pid}" for pid in processes("environ", self._marker)]
        found += [str(path) for path in self.ledger.glob(".*")]
        return found + [str(path) for path in self.temporary.glob("aecbench-*/runs/*")]


def _told(record: dict[str, Any]) -> str:
    return f"{record['task']['task_id']}: {json.dumps(record['evaluation'])[:300]}"
