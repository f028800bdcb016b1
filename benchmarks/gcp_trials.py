"""What thousands of tiny trials as one job of Cloud Batch cost the process that waits for them.

Google's clients talk to stand-ins in this process: the server for Batch and the emulator of Cloud
Storage. So that these are not what is measured, tasks run without sandboxes, but they do run: the
agent's command and the verifier's script, from the archives in the bucket, whose paths lead to a
directory of their own.

Memory is the most that the pytest process had resident, processor time is its own, with its start
and all imports. Calls are those that it made, of each service.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from generated import write_tasks

from pytest_aecbench.backends.local import LocalBackend

sys.path.insert(0, str(Path(__file__).parents[1]))

REPETITIONS = 10
COUNTING = r"""
import collections, json, re, time
from pathlib import Path

from requests.adapters import HTTPAdapter

calls, send = collections.Counter(), HTTPAdapter.send


def counted(self, request, **options):
    calls["batch" if "/locations/" in request.url else "storage"] += 1
    return send(self, request, **options)


HTTPAdapter.send = counted


def pytest_unconfigure(config):
    peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]
    cost = {"memory_mb": int(peak) / 1024, "cpu_sec": time.process_time(), "calls": calls}
    Path("cost.json").write_text(json.dumps(cost))
"""
PLACES = ("/workspace", "/logs", "/tests", "/solution")


class Tasks:
    """Runs tasks without sandboxes, for a server's ``simulate``."""

    def __init__(self, buckets: Any) -> None:
        self._buckets = buckets

    def __call__(self, run: Any, attempt: Any) -> int:
        """Run one attempt; return its exit code."""
        bucket, _, prefix = run.spec.volumes[0].gcs.remote_path.partition("/")
        directory = self._buckets.directory(bucket, prefix.strip("/"))
        with tempfile.TemporaryDirectory() as name:
            home, root = Path(name), Path(name, "root")
            with tarfile.open(directory / f"in-{attempt.index}.tar") as tar:
                tar.extractall(home, filter="data")
            for place in ("workspace", "logs/verifier"):
                (root / place).mkdir(parents=True)
            for phase in ("agent", "verify"):
                self._perform(home / phase, root)
            with tarfile.open(directory / f"agent-{attempt.index}.tar", "w") as tar:
                for phase in ("agent", "verify"):
                    for part in ("", "/out", "/err", "/times", "/done"):
                        tar.add(home / f"{phase}{part}", f"{phase}{part}", recursive=False)
                for place in ("logs", "workspace"):
                    tar.add(root / place, place)
        self._buckets.flush()
        return 0

    def _perform(self, phase: Path, root: Path) -> None:
        with tarfile.open(phase / "archive") as tar:
            tar.extractall(root, filter="data")
        scripts = [path for path in root.rglob("*.sh") if path.is_file()]
        for path in (*scripts, phase / "command"):
            text = path.read_text()
            for place in PLACES:
                text = text.replace(f"{place}/", f"{root}{place}/")
            path.write_text(text)
        begun = time.time()
        done = subprocess.run(
            ["bash", "-c", (phase / "command").read_text()],
            cwd=root / "workspace",
            capture_output=True,
            check=False,
        )
        (phase / "out").write_bytes(done.stdout)
        (phase / "err").write_bytes(done.stderr)
        (phase / "times").write_text(f"{begun} {time.time()}\n")
        nonce = (phase / "request").read_bytes().partition(b"\0")[0].decode()
        answer = f"{nonce} ended {done.returncode} 0 0 {len(done.stdout)} = {len(done.stderr)} =\n"
        (phase / "done").write_text(answer)


def measure(trials: int) -> None:
    from tests.standins.batch import BatchServer
    from tests.standins.buckets import Buckets
    from tests.standins.executor import Executor

    executor, buckets = Executor(LocalBackend("namespaces")), Buckets()
    server = BatchServer(executor, buckets, capacity=8)
    server.simulate = Tasks(buckets)
    try:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            write_tasks(root, trials // REPETITIONS, mode="shared")
            for path in root.glob("tasks/*/*/task.toml"):
                image = '[environment]\ndocker_image = "python:3.11-slim"\n'
                path.write_text(path.read_text().replace("[environment]\n", image))
            (root / "conftest.py").write_text(COUNTING)
            options = f'endpoint = "{server.url}"\n'
            (root / "aec-bench.toml").write_text(f"[compute.gcp]\n{options}")
            start = time.perf_counter()
            subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-qq", "tasks", "--aec-backend=gcp"),
                    f"--aec-repetitions={REPETITIONS}",
                ],
                cwd=root,
                env={**os.environ, **server.environment(root)},
                check=True,
                stdout=subprocess.DEVNULL,
            )
            wall = time.perf_counter() - start
            cost = json.loads((root / "cost.json").read_text())
            records = len([*root.glob("artefacts/ledger/*/*.json")])
            assert records == trials, records
    finally:
        server.close()
        executor.close()
        buckets.close()
    jobs = len(server.called(server.CREATE))
    listed, looked = len(server.called(server.TASKS)), len(server.called(server.GET))
    print(
        f"{trials} trials in {jobs} job: {wall:.0f} s, {cost['memory_mb']:.0f} MB, processor time "
        f"{cost['cpu_sec'] / trials * 1000:.1f} ms each; calls of Batch {cost['calls']['batch']} "
        f"({listed} pages of tasks, {looked} looks), "
        f"{cost['calls']['batch'] / trials:.3f} each; calls of Storage "
        f"{cost['calls']['storage'] / trials:.2f} each"
    )


def main() -> None:
    logging.disable()  # the emulator logs every object that is not there
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", type=int, nargs="*", default=[500, 5000])
    for trials in parser.parse_args().trials:
        measure(trials)


if __name__ == "__main__":
    main()
