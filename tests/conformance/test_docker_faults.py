"""Whole runs on an engine in which something dies: nothing is left, lost, or scored as a zero."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.errors import BackendError, classify
from pytest_aecbench.testing.sandbox import launching
from tests.conformance.conftest import BASE, write_context
from tests.conformance.private_engine import PrivateEngine
from tests.conformance.proxy import EngineProxy
from tests.conformance.runs import DOCKERFILE, NEVER_ENDS, EngineRun, wait_until
from tests.costs import at_night
from tests.project import SOLVE, Project

pytestmark = [pytest.mark.needs("docker"), pytest.mark.usefixtures("alone_on_engine")]


@pytest.fixture
def run(project: Project, engine: Any) -> EngineRun:
    return EngineRun(project, engine)


# Trials stopped in every phase at once


PHASES = ("agent", "building", "teardown", "verify")


class StuckRun(EngineRun):
    """A run with four workers, each of which is in another phase of a trial that never ends."""

    def begin(self) -> None:
        # A number of its own tells the container of this build from any other.
        self.build = f"sleep {os.getpid()}4321"
        dockerfile = {"environment/Dockerfile": f"{BASE}RUN {self.build}\n"}
        self.project.task("stuck/agent", solve=NEVER_ENDS, files=DOCKERFILE)
        self.project.task("stuck/building", files=dockerfile)
        self.project.task("stuck/teardown", files=DOCKERFILE)
        self.project.task("stuck/verify", test_sh="sleep 4322\n", files=DOCKERFILE)
        self.project.pytester.makeconftest(
            """
            import pathlib, time, pytest

            @pytest.fixture
            def aec_sandbox(aec_sandbox, aec_task, pytestconfig):
                yield aec_sandbox
                if aec_task.task_id == "stuck/teardown":
                    pathlib.Path(pytestconfig.rootpath, "tearing-down").touch()
                    time.sleep(4321)
            """
        )
        self.start("-n4")
        self.wait_for_command(NEVER_ENDS)
        self.wait_for_command("sleep 4322")
        self.wait_for(self.is_building)
        self.wait_for((self.project.path / "tearing-down").exists)

    def is_building(self) -> bool:
        return any(self.build in one["Command"] for one in self.engine.containers(all=True))

    def workers(self) -> list[int]:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def outcomes(self) -> dict[str, str]:
        """Return how the trial of each phase was judged."""
        self.validities()
        return {
            record["task"]["task_id"].removeprefix("stuck/"): record["evaluation"]["validity"]
            for record in self.project.records()
        }

    def images(self) -> list[Any]:
        return list(self.engine.images("aecbench/building"))


@pytest.fixture
def stuck(project: Project, engine: Any) -> Iterator[StuckRun]:
    run = StuckRun(project, engine)
    try:
        run.begin()
        yield run
    finally:
        if run.process is not None and run.returncode is None:
            run.signal(signal.SIGKILL)
            run.end()


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, id="ctrl-c"), at_night(signal.SIGTERM, id="sigterm")],
)
def test_a_run_that_is_stopped_in_any_phase_leaves_nothing(
    stuck: StuckRun, number: signal.Signals
) -> None:
    if number == signal.SIGINT:
        stuck.signal(number)  # a terminal tells all of them
    else:
        assert stuck.process is not None
        stuck.process.send_signal(number)
    output = stuck.end()
    assert stuck.returncode == pytest.ExitCode.INTERRUPTED, output
    assert stuck.outcomes() == {**dict.fromkeys(PHASES, "interrupted"), "teardown": "scored"}
    assert stuck.left() == []
    wait_until(lambda: not stuck.is_building())
    assert stuck.images() == []


@pytest.mark.nightly
def test_workers_killed_in_any_phase_leave_nothing(stuck: StuckRun) -> None:
    for pid in stuck.workers():
        os.kill(pid, signal.SIGKILL)
    output = stuck.end()
    assert stuck.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert stuck.outcomes() == {**dict.fromkeys(PHASES, "crashed"), "teardown": "scored"}
    assert stuck.left() == []
    wait_until(lambda: not stuck.is_building())
    assert stuck.images() == []


@pytest.mark.nightly
def test_what_a_killed_controller_left_is_settled_by_the_next_run(
    stuck: StuckRun, project: Project
) -> None:
    workers = stuck.workers()
    assert stuck.process is not None
    stuck.process.kill()
    stuck.end()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    project.task("stuck/none", files=DOCKERFILE)
    project.run("tasks/stuck/none").assert_outcomes(passed=1)
    outcomes = stuck.outcomes()
    assert outcomes.pop("none") == outcomes.pop("teardown") == "scored"
    assert outcomes.keys() == {"agent", "building", "verify"}
    assert set(outcomes.values()) <= {"crashed", "interrupted"}
    assert stuck.left() == []
    wait_until(lambda: not stuck.is_building())
    assert stuck.images() == []


# One process, one container


def test_ctrl_c_without_workers_leaves_nothing(project: Project, run: EngineRun) -> None:
    project.task(solve=NEVER_ENDS, files=DOCKERFILE)
    run.start()
    run.wait_for_command()
    run.signal(signal.SIGINT)
    output = run.end()
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    assert run.left() == []
    assert run.validities() == ["interrupted"]


def test_kill_9_leaves_what_can_be_reaped_and_no_zero(
    project: Project, run: EngineRun, docker_backend: Any
) -> None:
    project.task(solve=NEVER_ENDS, files=DOCKERFILE)
    run.start()
    run.wait_for_command()
    names = set(run.left())  # the agent's and the verifier's
    assert not names & {*docker_backend.reap()}
    run.signal(signal.SIGKILL)
    run.end()
    names = set(run.left())
    assert len(names) == 2
    assert names <= {*docker_backend.reap()}
    wait_until(lambda: run.left() == [])
    assert "scored" not in run.validities()


def test_a_container_that_dies_once_costs_nothing_but_twice_counts(
    project: Project, run: EngineRun, engine: Any
) -> None:
    project.task(solve=NEVER_ENDS, files=DOCKERFILE)
    run.start("--aec-retry-delay=0.01")
    run.wait_for_command()
    engine.kill(run.container_of())
    run.wait_for(lambda: run.validities() == ["error"])
    run.wait_for_command()
    engine.kill(run.container_of())
    assert "agent broke its sandbox: docker: the container has died" in run.end()
    assert run.validities() == ["error", "scored"]
    assert run.left() == []


def test_an_agent_that_wrecks_its_sandbox_is_scored_all_the_same(
    project: Project, run: EngineRun
) -> None:
    wreck = (
        "trap '' TERM\n(setsid sleep 4321 &) >/dev/null 2>&1\ncd /\n"
        "rm -rf /workspace /tests /logs\nln -s /etc /logs\nyes | head -c 200000000\n"
        "for i in {1..200}; do sleep 4321 & done\n"
    )
    project.task(solve=wreck, files=DOCKERFILE)
    project.run()
    evaluation = project.record()["evaluation"]
    assert (evaluation["validity"], evaluation["reward"]) == ("scored", 0)
    assert run.left() == []


def test_an_agent_out_of_memory_is_scored(project: Project, run: EngineRun) -> None:
    project.task(
        toml="[environment]\nmemory_mb = 64\n",
        solve="exec python3 -c 'bytearray(500 << 20)'",
        files=DOCKERFILE,
    )
    project.run().assert_outcomes(failed=1)
    assert run.validities() == ["scored"]
    jobs = project.path / project.record()["outputs"]["jobs_dir"]
    assert "out of memory" in (jobs / "logs/agent/stderr.txt").read_text()
    assert run.left() == []


def test_one_hostile_agent_cannot_trade_its_zeros_for_errors(
    project: Project, run: EngineRun
) -> None:
    attacks = {
        "logs": "rm -rf /logs; echo x > /logs",
        "workspace": "cd /; rm -rf /workspace; echo x > /workspace",
        "shell": "rm -f /bin/bash /usr/bin/bash",
        "programs": "rm -rf /usr/bin",
    }
    project.task("civil/solved", files=DOCKERFILE)
    for name, attack in attacks.items():
        project.task(f"civil/{name}", solve=attack, files=DOCKERFILE)
    project.run("-n2").assert_outcomes(passed=1, failed=len(attacks))
    assert run.validities() == ["scored"] * (1 + len(attacks))
    assert run.left() == []


# An engine that stops, a disk that is full


NO_NETWORK = "[environment]\nallow_internet = false\n"


@pytest.mark.needs("dockerd")
def test_a_trial_survives_a_restart_of_the_engine_by_a_retry(
    project: Project, private_engine: PrivateEngine
) -> None:
    project.task(toml=NO_NETWORK, solve=f"[ ! -e /slow ] || sleep 4321\n{SOLVE}", files=DOCKERFILE)
    project.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def aec_sandbox(aec_sandbox, aec_trial):
            if aec_trial.attempt == 1:
                aec_sandbox.execute("touch /slow")
            return aec_sandbox
        """
    )
    run = EngineRun(project, private_engine.client())
    run.start("--aec-retries=20", "--aec-retry-delay=0.5", env={"DOCKER_HOST": private_engine.host})
    run.wait_for_command()
    private_engine.stop()
    private_engine.start()
    output = run.end()
    assert run.returncode == pytest.ExitCode.OK, output
    *lost, scored = sorted(project.records(), key=lambda record: record["attempt"])
    assert lost
    assert {record["evaluation"]["validity"] for record in lost} == {"error"}
    assert scored["evaluation"]["reward"] == 1
    assert run.left() == []


def causes(project: Project) -> list[str]:
    """Return why each attempt was an error, in their order; empty for one that was not."""
    records = sorted(project.records(), key=lambda record: record["attempt"])
    errors = [record["evaluation"]["error"] for record in records]
    return [error["cause"] if error else "" for error in errors]


@pytest.mark.needs("dockerd")
def test_an_engine_that_is_away_when_an_image_is_looked_up_is_tried_again(
    project: Project, private_engine: PrivateEngine
) -> None:
    project.task(toml=NO_NETWORK, files=DOCKERFILE)
    project.pytester.makeconftest(
        """
        import pathlib, time, pytest

        @pytest.fixture(scope="session")
        def aec_backend(aec_backend, pytestconfig):
            (pytestconfig.rootpath / "checked").touch()
            while not (pytestconfig.rootpath / "away").exists():
                time.sleep(0.05)
            return aec_backend
        """
    )
    run = EngineRun(project, private_engine.client())
    run.start("--aec-retries=20", "--aec-retry-delay=0.5", env={"DOCKER_HOST": private_engine.host})
    run.wait_for((project.path / "checked").exists)
    private_engine.stop()
    (project.path / "away").touch()
    run.wait_for(lambda: causes(project))
    private_engine.start()
    output = run.end()
    assert run.returncode == pytest.ExitCode.OK, output
    assert {*causes(project)[:-1]} == {"backend_lost"}


@pytest.mark.nightly  # by day, connections that are lost during a build are enough
@pytest.mark.needs("dockerd")
def test_an_engine_that_stops_while_it_builds_an_image_is_tried_again(
    project: Project, private_engine: PrivateEngine
) -> None:
    step = f"sleep {os.getpid()}4323"
    project.task(
        toml=NO_NETWORK, files={"environment/Dockerfile": f"{BASE}RUN {step} || echo woken\n"}
    )
    run = EngineRun(project, private_engine.client())
    run.start("--aec-retries=20", "--aec-retry-delay=0.5", env={"DOCKER_HOST": private_engine.host})
    run.wait_for(lambda: running(step))
    private_engine.stop()
    run.wait_for(lambda: causes(project))
    private_engine.start()
    run.wait_for(lambda: running(step))
    for pid in running(step):
        os.kill(pid, signal.SIGKILL)
    output = run.end()
    assert run.returncode == pytest.ExitCode.OK, output
    first, *later = causes(project)
    assert first == "backend"
    assert {*later} <= {"backend", "backend_lost", "launch", ""}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("RUN {}", id="engine"),
        pytest.param(
            "RUN --mount=type=tmpfs,target=/x {}", id="buildx", marks=pytest.mark.needs("buildx")
        ),
    ],
)
def test_a_connection_lost_during_a_build_is_not_an_error_of_the_build(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    command = f"sleep {os.getpid()}4325"
    task_dir = write_context(tmp_path, f"{BASE}{step.format(command)}\n")
    home = Path(tempfile.mkdtemp(prefix="aec-"))  # a socket's path has to be short
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    with closing(EngineProxy(home / "socket", host)) as proxy, ThreadPoolExecutor(1) as thread:
        monkeypatch.setenv("DOCKER_HOST", proxy.host)
        backend = DockerBackend()
        built = thread.submit(backend.build_environment, task_dir=task_dir)
        wait_until(lambda: running(command) or built.done())
        proxy.cut()
        with pytest.raises(BackendError) as caught:
            built.result()
        backend.close()
    assert classify(caught.value).retry, caught.value
    wait_until(lambda: not running(command))  # a build nobody waits for is ended
    shutil.rmtree(home)


def test_a_deadline_is_kept_although_no_process_can_be_started_in_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    home = Path(tempfile.mkdtemp(prefix="aec-"))  # a socket's path has to be short
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    with closing(EngineProxy(home / "socket", host)) as proxy, ThreadPoolExecutor(1) as thread:
        monkeypatch.setenv("DOCKER_HOST", proxy.host)
        monkeypatch.setattr("pytest_aecbench.backends.docker.backend.IMPATIENCE_SEC", 2)
        with closing(DockerBackend()) as backend:
            image_ref = backend.build_environment(task_dir=write_context(tmp_path / "task"))
            with launching(backend, image_ref, tmp_path) as launch:
                sandbox = launch()
                stuck = thread.submit(sandbox.run, "touch /logs/x; sleep 1000", timeout_sec=3)
                wait_until(lambda: (sandbox.collect().logs / "x").exists())
                proxy.held = b"/exec HTTP"
                assert stuck.result().timed_out
                assert sandbox.output("echo sound") == "sound\n"
    shutil.rmtree(home)


def running(command: str) -> list[int]:
    """Return the processes of the machine that have exactly this command line."""
    wanted = f"{command} ".replace(" ", "\0").encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == wanted:
                found.append(int(path.parent.name))
    return found


@pytest.mark.nightly
@pytest.mark.needs("dockerd")
def test_a_disk_filled_by_an_agent_counts_against_it_alone(
    project: Project, private_engine: PrivateEngine
) -> None:
    fill = f"{SOLVE}\nyes > /workspace/big\n"
    limited = f"{NO_NETWORK}storage_mb = 100\n"
    project.task("disk/a-filled", toml=NO_NETWORK, solve=fill, files=DOCKERFILE)
    project.task("disk/b-limited", toml=limited, solve="yes > /workspace/big", files=DOCKERFILE)
    project.task("disk/c-unfilled", toml=limited, files=DOCKERFILE)
    run = EngineRun(project, private_engine.client())
    before = shutil.disk_usage(private_engine.home / "data").free
    run.start(env={"DOCKER_HOST": private_engine.host})
    output = run.end()
    judged = [
        (record["task"]["task_id"], record["evaluation"]["reward"], record["evaluation"]["cause"])
        for record in sorted(project.records(), key=lambda record: record["timing"]["started_at"])
    ]
    first, again, limited_trial, unfilled = judged
    assert first == ("disk/a-filled", None, None), output  # in doubt, so it is tried once more
    assert again[:2] == ("disk/a-filled", 1), output
    assert limited_trial[:2] == ("disk/b-limited", 0), output
    for _, _, cause in (again, limited_trial):
        assert cause.startswith("agent broke its sandbox: docker: ")
        assert "the container has stored" in cause
    assert unfilled == ("disk/c-unfilled", 1, None), output
    assert run.left() == []
    assert before - shutil.disk_usage(private_engine.home / "data").free < 100 * 1024**2


@pytest.mark.needs("dockerd")
def test_pruning_removes_every_image_of_ours_and_no_other(
    project: Project, private_engine: PrivateEngine
) -> None:
    project.task(toml=NO_NETWORK, files=DOCKERFILE)
    run = EngineRun(project, private_engine.client())
    env = {"DOCKER_HOST": private_engine.host}
    run.start("--aec-force-build", env=env)
    run.end()
    # Built twice, so that the first has lost its name to the second.
    run.start("--aec-force-build", env=env)
    run.end()
    assert len(run.engine.images(filters={"label": "aecbench.digest"})) >= 2
    argv = [sys.executable, "-c", "from pytest_aecbench.cli import main; main()", "images", "prune"]
    done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "aecbench/ohms-law:" in done.stdout
    assert "(superseded)" in done.stdout
    assert [one["RepoTags"] for one in run.engine.images()] == [["python:3.11-slim"]]
