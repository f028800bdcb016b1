"""What a trivial trial costs on the Docker backend, against the bare engine doing the same.

There are two floors, both docker-py's low-level client with nothing around it, in as many fresh
processes as there are workers:

- ``least``: create a container of the same image, start it, run solution and verifier in one
  exec, fetch the reward, remove it;
- ``alike``: what a trial cannot do without, since the verifier's files may come only after the
  agent: an exec for each of the two, and the logs and the workspace fetched.

A third one, ``apart``, is for verifiers in a container of their own, as ``concurrency.py`` measures
them: that of ``alike``, and a second container, into which the workspace is put.

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from docker.utils import kwargs_from_env
from generated import write_tasks

from pytest_aecbench.backends import BackendExecutionRequest, Limits
from pytest_aecbench.backends.docker import DockerBackend

FLOORS = ("least", "alike")
APART = "apart"
Costs = dict[tuple[str, int], list[float]]


def tasks_in(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("tasks/*/*/task.toml"))


def bare_trial(api: Any, floor: str, image: str, task: Path) -> None:
    solve, verify = ((task / name).read_text() for name in ("solution/solve.sh", "tests/test.sh"))
    first = f"mkdir -p /logs/verifier\n({solve})"
    container = start(api, image)
    if floor == APART:
        run(api, container, first)
        workspace = fetch(api, container, "/workspace")
        api.remove_container(container, force=True)
        container = start(api, image)
        api.put_archive(container, "/", workspace)
        run(api, container, f"mkdir -p /logs/verifier\n({verify})")
        paths = ["/logs/verifier"]
    elif floor == "least":
        run(api, container, f"{first}\n({verify})")
        paths = ["/logs/verifier"]
    else:
        run(api, container, first)
        run(api, container, verify)
        paths = ["/logs/verifier", "/workspace"]
    fetched = [fetch(api, container, path) for path in paths]
    with tarfile.open(fileobj=io.BytesIO(fetched[0])) as tar:
        reward = tar.extractfile("verifier/reward.txt")
        assert reward is not None
        assert reward.read() == b"1\n"
    api.remove_container(container, force=True)


def start(api: Any, image: str) -> str:
    container: str = api.create_container(image, ["sleep", "infinity"])["Id"]
    api.start(container)
    return container


def run(api: Any, container: str, command: str) -> None:
    api.exec_start(api.exec_create(container, ["bash", "-c", command])["Id"])


def fetch(api: Any, container: str, path: str) -> bytes:
    return b"".join(api.get_archive(container, path)[0])


def run_floor(floor: str, root: Path, images: list[str], workers: int) -> None:
    """Run all tasks in ``workers`` processes, each of which takes every so manyth."""
    argv = [sys.executable, __file__, "--floor", floor, "--root", str(root)]
    running = [
        subprocess.Popen([*argv, "--share", f"{number}/{workers}", *images])
        for number in range(workers)
    ]
    assert [process.wait() for process in running] == [0] * workers


@contextmanager
def timed(costs: Costs, what: str, workers: int) -> Iterator[None]:
    start = time.perf_counter()
    yield
    costs.setdefault((what, workers), []).append(time.perf_counter() - start)


def count_requests(task: Path, workspace: Path) -> int:
    """Return how many requests to the engine one trial makes, the image being there."""
    backend = DockerBackend()
    requests: list[str] = []
    backend._api.hooks["response"].append(lambda answer, **_: requests.append(answer.url))
    backend._starter.info  # noqa: B018  (asked once in a run)
    requests.clear()
    workspace.mkdir()
    image = backend.build_environment(task_dir=task)
    limits = Limits(cpus=1, memory_mb=1024, lifetime_sec=600)
    handle = backend.launch_trial(image_ref=image, workspace_dir=workspace, limits=limits)
    for name in ("solution", "tests"):
        script = next((task / name).glob("*.sh")).name
        request = BackendExecutionRequest(
            f"bash /{name}/{script}", uploads={f"/{name}": task / name}, exclusive=name == "tests"
        )
        assert backend.execute_trial(handle=handle, request=request).returncode == 0
    backend.collect_outputs(handle=handle)
    backend.teardown(handle=handle)
    backend.close()
    return len(requests)


def measure(trials: int, rounds: int) -> tuple[Costs, int]:
    costs: Costs = {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_tasks(root, trials)
        tasks = tasks_in(root)
        backend = DockerBackend()
        images = [backend.build_environment(task_dir=task) for task in tasks]
        requests = count_requests(tasks[0], root / "workspace")
        for _ in range(rounds):
            for workers in (1, 4):
                for floor in FLOORS:
                    with timed(costs, floor, workers):
                        run_floor(floor, root, images, workers)
                with timed(costs, "ours", workers):
                    subprocess.run(
                        [sys.executable, "-m", "pytest", "-qq", "tasks", "--aec-backend=docker"]
                        + ([f"-n{workers}"] if workers > 1 else []),
                        cwd=root,
                        check=True,
                        stdout=subprocess.DEVNULL,
                    )
    return costs, requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts")
    parser.add_argument("--floor", choices=(*FLOORS, APART), help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--share", help=argparse.SUPPRESS)
    parser.add_argument("images", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.floor:
        number, workers = map(int, arguments.share.split("/"))
        api = docker.APIClient(**kwargs_from_env())
        both = list(zip(arguments.images, tasks_in(arguments.root), strict=True))
        for image, task in both[number::workers]:
            bare_trial(api, arguments.floor, image, task)
        return
    costs, requests = measure(arguments.trials, arguments.rounds)
    for workers in (1, 4):
        ours, least, alike = (
            min(costs[what, workers]) / arguments.trials * 1000 for what in ("ours", *FLOORS)
        )
        print(
            f"docker trials, {workers} at a time: {ours:.0f} ms and {requests} requests each; "
            f"the engine alone, with the fewest requests {least:.0f} ms, ratio {ours / least:.2f}; "
            f"alike {alike:.0f} ms, ratio {ours / alike:.2f} "
            f"({arguments.trials} trials, best of {arguments.rounds})"
        )


if __name__ == "__main__":
    main()
