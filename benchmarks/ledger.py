"""Time the ledger against the least that writing and reading the same bytes can cost.

Run ``python benchmarks/ledger.py [--records N] [--tasks N]``. Ten agents attempt each task equally
often; with as many tasks as records, no two records share one, which costs most. The floors are
measured in the same run: for writing, a plain open, write, fsync and rename; for reading, a plain
open, read and ``json.loads``; for a command, a process that does the latter, and the command on an
empty ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from pytest_aecbench.ledger.identity import trial_key
from pytest_aecbench.ledger.record import (
    AgentIdentity,
    AgentOutcome,
    Cost,
    Environment,
    Evaluation,
    Inputs,
    OutputFile,
    Outputs,
    TaskIdentity,
    Timing,
    TrialRecord,
)
from pytest_aecbench.ledger.store import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

EXPERIMENT = "exp-benchmark"
AGENTS = [
    AgentIdentity(
        name=f"claude-{turns}",
        harness="tool_loop",
        model="claude-sonnet-4",
        parameters={"max_turns": turns, "max_tokens": 8192},
    )
    for turns in range(10, 20)
]


def make_record(number: int, tasks: int) -> TrialRecord:
    started = datetime(2026, 4, 12, tzinfo=timezone.utc) + timedelta(seconds=number)
    trial_id = str(uuid4())
    nth, task = divmod(number, tasks)
    repetition, agent = nth // len(AGENTS) + 1, AGENTS[(task + nth) % len(AGENTS)]
    digest = f"{task:064x}"
    reward = (task + nth) % 5 / 4
    return TrialRecord(
        trial_id=trial_id,
        trial_key=trial_key(digest, agent, repetition),
        experiment_id=EXPERIMENT,
        run_id="run-benchmark",
        task=TaskIdentity(
            task_id=f"electrical/voltage-drop-{task}",
            digest=digest,
            domain="electrical",
            difficulty=("easy", "medium", "hard")[task % 3],
            tags=("electrical", "AS-NZS-3008"),
        ),
        agent=agent,
        repetition=repetition,
        attempt=1,
        environment=Environment(
            backend="docker", image=f"aec-bench/task:{digest}", platform="linux-x86_64"
        ),
        inputs=Inputs(
            instruction_sha256=digest,
            agent_timeout_sec=600,
            verifier_timeout_sec=300,
            build_timeout_sec=600,
        ),
        outputs=Outputs(
            files=tuple(
                OutputFile(path=path, size=4096, sha256=digest)
                for path in (
                    "logs/agent/stdout.txt",
                    "logs/verifier/details.json",
                    "logs/verifier/reward.json",
                    "logs/verifier/test-stdout.txt",
                    "workspace/output.jsonl",
                    "workspace/trajectory.jsonl",
                )
            ),
            output_path="/workspace/output.jsonl",
            output_excerpt='{"voltage_drop_v": 3.2, "compliant": true}\n' * 10,
            jobs_dir=f"jobs/{EXPERIMENT}/{trial_id}",
        ),
        evaluation=Evaluation(
            reward=reward,
            threshold=1,
            passed=reward >= 1,
            validity="scored",
            details={"compliance": 1, "voltage_drop_v": reward},
            breakdown={
                "checks": [
                    {"name": name, "expected": 3.2, "found": 3.1, "passed": True}
                    for name in ("current_a", "impedance", "voltage_drop_v", "compliance")
                ]
            },
            verifier_returncode=0,
        ),
        agent_result=AgentOutcome(status="completed", turns=7),
        timing=Timing(
            started_at=started,
            finished_at=started + timedelta(seconds=40.25),
            wait=0.01,
            build=2.5,
            launch=0.4,
            agent=33.1,
            verify=3.9,
            collect=0.2,
        ),
        cost=Cost(
            tokens_in=12345 + number, tokens_out=2345 + number % 999, usd=(number % 997) / 1000
        ),
        harness_version="0.1.0",
    )


def write_plainly(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def read_plainly(directory: Path) -> list[object]:
    return [json.loads(path.read_bytes()) for path in sorted(directory.iterdir())]


def seconds(action: Callable[..., object], *arguments: object) -> float:
    started = perf_counter()
    result = action(*arguments)
    elapsed = perf_counter() - started
    del result  # only now: giving the memory back is no part of the action
    return elapsed


def measure(records: list[TrialRecord], root: Path) -> tuple[float, float, float, float]:
    """Return the seconds that writing and reading take: floor, ledger, floor, ledger."""
    ledger, plain = Ledger(root / "ledger"), root / "plain"
    plain.mkdir()
    write_floor = write = 0.0
    for record in records:  # turn by turn, so that both meet the same disk
        path, data = plain / f"{record.trial_id}.json", record.to_json()
        write_floor += seconds(write_plainly, path, data)
        write += seconds(ledger.append, record)
    assert len(ledger.load().records) == len(read_plainly(plain)) == len(records)
    read_floor = min(seconds(read_plainly, plain) for _ in range(3))
    read = min(seconds(ledger.load) for _ in range(3))
    return write_floor, write, read_floor, read


READ = """
import json, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/*.json")):
    json.loads(path.read_bytes())
"""


# In between, because a process begins with the memory of the one that starts it.
WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""


def cpu(root: Path, *command: str) -> tuple[float, float]:
    """Return the seconds of processor time that a process takes, and the most MB that it needs."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(root / "cache")}
    watched = [sys.executable, "-c", WATCH, sys.executable, *command]
    done = subprocess.run(watched, cwd=root, env=environ, capture_output=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def measure_commands(root: Path) -> None:
    """Print what commands cost the first time, when there is no index, and the second."""
    floor, _ = cpu(root, "-c", READ, "ledger")
    (root / "empty").mkdir()
    print(f"reading the JSON in a process of its own: {floor:.2f} s of processor time")
    for words in (("ledger", "list"), ("report", "leaderboard")):
        command = ("-m", "pytest_aecbench", *words)
        (root / "aec-bench.toml").write_text('[paths]\nledger = "empty"\n')
        start, _ = cpu(root, *command)
        (root / "aec-bench.toml").write_text('[paths]\nledger = "ledger"\n')
        shutil.rmtree(root / "cache")
        for time in ("first", "second"):
            cost, megabytes = cpu(root, *command)
            print(
                f"aec-bench {' '.join(words)}, {time} time: {cost:.2f} s, {start:.2f} s on an empty"
                f" ledger, the rest {(cost - start) / floor:.2f} of the JSON; {megabytes:.0f} MB"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the ledger against plain files.")
    parser.add_argument("--records", type=int, default=10_000, metavar="N")
    parser.add_argument("--tasks", type=int, metavar="N", help="default: a record in a hundred")
    given = parser.parse_args()
    number = given.records
    tasks = given.tasks or max(1, number // 100)
    records = [make_record(n, tasks) for n in range(number)]
    with tempfile.TemporaryDirectory() as root:
        write_floor, write, read_floor, read = measure(records, Path(root))
        measure_commands(Path(root))
    print(f"{number} records of {tasks} tasks, of {len(records[0].to_json())} bytes each")
    for verb, floor, ours in (("write", write_floor, write), ("read", read_floor, read)):
        print(f"{verb:5}  ledger {ours:7.2f} s  floor {floor:7.2f} s  ratio {ours / floor:.2f}")


if __name__ == "__main__":
    main()
