"""What the harness adds to a trial in a rented sandbox, through each vendor's own SDK.

A server on the loopback stands in for the vendor and really runs the commands. What it spends on
them is not ours: the cost is what a trial takes beyond that, with the SDK's own share in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from generated import write_tasks

from pytest_aecbench.backends.local import LocalBackend

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

SERVERS = {"e2b": "E2BServer", "daytona": "DaytonaServer", "modal": "ModalServer"}


@contextmanager
def serving(vendor: str) -> Iterator[Any]:
    from tests.standins.executor import Executor

    executor = Executor(LocalBackend("namespaces"))
    server = getattr(import_module(f"tests.standins.{vendor}"), SERVERS[vendor])(executor)
    try:
        yield server
    finally:
        server.close()
        executor.close()


@contextmanager
def peak_of(server: Any) -> Iterator[list[int]]:
    """Watch how many sandboxes there are at once."""
    seen, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            seen[0] = max(seen[0], len(server.sandboxes))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield seen
    over.set()
    thread.join()


def measure(vendor: str, trials: int, workers: int) -> None:
    with tempfile.TemporaryDirectory() as name, serving(vendor) as server:
        root = Path(name)
        write_tasks(root, trials)
        argv = [sys.executable, "-m", "pytest", "-q", "tasks", f"--aec-backend={vendor}"]
        start = time.perf_counter()
        with peak_of(server) as peak:
            subprocess.run(
                [*argv, f"-n{workers}", f"--aec-concurrency={workers}"],
                cwd=root,
                env={**os.environ, **server.environment()},
                check=True,
                stdout=subprocess.DEVNULL,
            )
        wall = time.perf_counter() - start
        records = [json.loads(p.read_text()) for p in root.glob("artefacts/ledger/*/*.json")]
        assert len(records) == trials
        total = sum(
            sum(spent or 0 for phase, spent in record["timing"].items() if phase in PHASES)
            for record in records
        )
        ours = (total - server.spent_sec) / trials
        print(
            f"{vendor:8} {trials} trials at -n {workers}: {wall:5.1f} s, {peak[0]} at once; "
            f"{total / trials * 1000:4.0f} ms each, of which {ours * 1000:4.0f} ms are not the "
            f"server's ({total / max(server.spent_sec, 1e-9):.2f} of what it spent); "
            f"{len(server.calls) / trials:.1f} calls each"
        )


PHASES = {"build", "launch", "agent", "verify", "collect"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("vendors", nargs="*", default=list(SERVERS))
    arguments = parser.parse_args()
    for vendor in arguments.vendors:
        measure(vendor, arguments.trials, arguments.workers)


if __name__ == "__main__":
    main()
