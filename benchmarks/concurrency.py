"""What trials in lanes cost: memory and processor time in flight, and time against the engine.

Three things are measured, each against a floor of the same run:

- ``local``: trials in real sandboxes, all in flight at once, against the same trials one at a time;
- ``hollow``: the same with sandboxes that are directories, which leaves the cost of the harness;
- ``docker``: trials that do nothing in four lanes, against the bare engine (``alike`` of
  ``docker_trials.py``: the same containers, commands and files, in four processes);
- ``separate``: the same with verifiers in containers of their own, against ``apart``.

Memory is the most that the process had resident (VmHWM; ``getrusage`` would also count the process
that started it). Processor time is that of the process itself, with its start and all imports.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from docker_trials import APART, run_floor, tasks_in
from generated import write_tasks

LANES = 4
NOOP_TRIALS = (20, 200)
MODES = {"docker": "shared", "separate": "separate"}

# Agents go on when as many of them are there as MEET says.
MEETING = r"""
import json, os, re, threading, time
from pathlib import Path

from pytest_aecbench.backends import BackendExecutionResult, CollectedArtifacts, TrialHandle
from pytest_aecbench.backends.local import LocalBackend

together = threading.Barrier(int(os.environ["MEET"]))


class Local(LocalBackend):
    def execute_trial(self, *, handle, request):
        if "/solution" in request.uploads:
            together.wait(600)
        return super().execute_trial(handle=handle, request=request)


class Hollow:
    thread_safe = True

    def build_environment(self, *, task_dir):
        return "hollow"

    def launch_trial(self, *, image_ref, workspace_dir):
        return TrialHandle("hollow", str(workspace_dir))

    def execute_trial(self, *, handle, request):
        if "/solution" in request.uploads:
            together.wait(600)
        logs = Path(handle.handle_id).parent / "hollow"
        (logs / "verifier").mkdir(parents=True, exist_ok=True)
        (logs / "verifier/reward.txt").write_text("1\n")
        return BackendExecutionResult(0)

    def collect_outputs(self, *, handle):
        workspace = Path(handle.handle_id)
        return CollectedArtifacts(workspace, workspace.parent / "hollow")

    def teardown(self, *, handle):
        pass


def pytest_aecbench_make_backend(config, name):
    return {"meeting-local": Local, "meeting-hollow": Hollow}[name]()


def pytest_unconfigure(config):
    peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]
    cost = {"memory_mb": int(peak) / 1024, "cpu_sec": time.process_time()}
    Path("cost.json").write_text(json.dumps(cost))
"""
# The same for a backend of the plugin.
COUNTING = MEETING.partition("def pytest_aecbench_make_backend")[0] + (
    "def pytest_unconfigure" + MEETING.partition("def pytest_unconfigure")[2]
)


class Cost(NamedTuple):
    """What a run has cost."""

    memory_mb: float
    cpu_sec: float
    wall_sec: float


def write_project(root: Path, trials: int, conftest: str, mode: str = "shared") -> None:
    write_tasks(root, trials, mode)
    (root / "conftest.py").write_text(conftest)


def run(root: Path, lanes: int, *arguments: str) -> Cost:
    """Run the project's trials; no other plugins, because they have costs of their own."""
    argv = [sys.executable, "-m", "pytest", "-qq", "tasks", f"--aec-concurrency={lanes}"]
    # Bytecode is kept, as for every ordinary user.
    dropped = ("PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS")
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "MEET": str(lanes)}
    start = time.perf_counter()
    subprocess.run(
        [*argv, "-p", "pytest_aecbench.plugin", "-p", "no:cacheprovider", *arguments],
        cwd=root,
        env=env,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    wall_sec = time.perf_counter() - start
    return Cost(**json.loads((root / "cost.json").read_text()), wall_sec=wall_sec)


def measure_in_flight(backend: str, trials: int, rounds: int) -> None:
    ours, floors = [], []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_project(root, trials, MEETING)
        for _ in range(rounds):
            floors.append(run(root, 1, f"--aec-backend=meeting-{backend}"))
            ours.append(run(root, trials, f"--aec-backend=meeting-{backend}"))
    memory, floor_memory = (min(one.memory_mb for one in many) for many in (ours, floors))
    cpu, floor_cpu = (min(one.cpu_sec for one in many) / trials * 1000 for many in (ours, floors))
    print(
        f"{trials} trials in flight, {backend}: {memory:.0f} MB, one at a time "
        f"{floor_memory:.0f} MB, ratio {memory / floor_memory:.2f}; processor time {cpu:.0f} ms "
        f"each, one at a time {floor_cpu:.0f} ms, ratio {cpu / floor_cpu:.2f} (best of {rounds})"
    )


def measure_docker(trials: int, rounds: int, mode: str) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    ours, floors = [], []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_project(root, trials, COUNTING, mode)
        backend = DockerBackend()
        images = [backend.build_environment(task_dir=task) for task in tasks_in(root)]
        for _ in range(rounds):
            start = time.perf_counter()
            run_floor("alike" if mode == "shared" else APART, root, images, LANES)
            floors.append(time.perf_counter() - start)
            # The bare trials run the solution too.
            ours.append(run(root, LANES, "--aec-backend=docker"))
    wall, floor = (
        best / trials * 1000 for best in (min(one.wall_sec for one in ours), min(floors))
    )
    cpu = min(one.cpu_sec for one in ours) / trials * 1000
    print(
        f"{trials} docker trials in {LANES} lanes, {mode} verifiers: {wall:.0f} ms each, engine "
        f"alone {floor:.0f} ms, ratio {wall / floor:.2f}; processor time {cpu:.0f} ms each "
        f"(best of {rounds})"
    )


def has_engine() -> bool:
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts")
    parser.add_argument("parts", nargs="*", default=["local", "hollow", *MODES])
    arguments = parser.parse_args()
    if "local" in arguments.parts:
        measure_in_flight("local", 100, arguments.rounds)
    if "hollow" in arguments.parts:
        measure_in_flight("hollow", 1000, arguments.rounds)
    for part, mode in MODES.items():
        for trials in NOOP_TRIALS if part in arguments.parts and has_engine() else ():
            measure_docker(trials, arguments.rounds, mode)


if __name__ == "__main__":
    main()
