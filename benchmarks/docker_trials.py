"""What a trivial trial costs on the Docker backend, against the bare engine doing the same.

The floor is docker-py's low-level client with nothing around it: for each task create a container
of the same image, start it, run solution and verifier in one exec, fetch the reward, remove it.
It needs an engine with ``python:3.11-slim``.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.utils import kwargs_from_env
from generated import write_tasks

from pytest_aecbench.backends.docker import DockerBackend


def bare_trial(image: str, task: Path) -> None:
    api = docker.APIClient(**kwargs_from_env())
    command = "\n".join(
        [
            "mkdir -p /logs/verifier",
            f"({(task / 'solution/solve.sh').read_text()})",
            f"({(task / 'tests/test.sh').read_text()})",
        ]
    )
    container = api.create_container(image, ["sleep", "infinity"])["Id"]
    api.start(container)
    api.exec_start(api.exec_create(container, ["bash", "-c", command])["Id"])
    chunks, _ = api.get_archive(container, "/logs/verifier/reward.txt")
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        reward = tar.extractfile("reward.txt")
        assert reward is not None
        assert reward.read() == b"1\n"
    api.remove_container(container, force=True)
    api.close()


@contextmanager
def timed(costs: dict[tuple[str, int], list[float]], what: str, workers: int) -> Iterator[None]:
    start = time.perf_counter()
    yield
    costs.setdefault((what, workers), []).append(time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts")
    arguments = parser.parse_args()
    costs: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_tasks(root, arguments.trials)
        tasks = sorted(path.parent for path in root.glob("tasks/*/*/task.toml"))
        backend = DockerBackend()
        images = [backend.build_environment(task_dir=task) for task in tasks]
        for _ in range(arguments.rounds):
            for workers in (1, 4):
                with timed(costs, "bare", workers), ThreadPoolExecutor(workers) as threads:
                    list(threads.map(bare_trial, images, tasks))
                with timed(costs, "ours", workers):
                    subprocess.run(
                        [sys.executable, "-m", "pytest", "-qq", "tasks", "--aec-backend=docker"]
                        + ([f"-n{workers}"] if workers > 1 else []),
                        cwd=root,
                        check=True,
                        stdout=subprocess.DEVNULL,
                    )
    for workers in (1, 4):
        floor, cost = (
            min(costs[what, workers]) / arguments.trials * 1000 for what in ("bare", "ours")
        )
        print(
            f"docker trials, {workers} at a time: {cost:.0f} ms each, bare engine {floor:.0f} ms "
            f"each, ratio {cost / floor:.2f} ({arguments.trials} trials, "
            f"best of {arguments.rounds})"
        )


if __name__ == "__main__":
    main()
