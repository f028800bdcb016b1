"""What is the Docker backend's own: images, containers, and how it takes what goes wrong."""

from __future__ import annotations

import gc
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pytest_aecbench.backends import Limits, Mount, TrialHandle
from pytest_aecbench.backends.docker.create import ContainerSpec
from pytest_aecbench.backends.docker.engine import offers_gpus
from pytest_aecbench.backends.docker.reap import PROJECT_LABEL
from pytest_aecbench.errors import (
    BackendError,
    BuildError,
    LaunchError,
    SandboxBroken,
    SandboxGone,
    TransferError,
)
from pytest_aecbench.testing import RunningSandbox
from pytest_aecbench.testing.sandbox import launching
from tests.conformance.conftest import BASE, LaunchTask, write_context
from tests.conformance.runs import wait_until
from tests.costs import at_night
from tests.elsewhere import in_another_namespace, on_another_machine
from tests.tasks import write_tree

pytestmark = pytest.mark.needs("docker")


def exists(engine: Any, handle: TrialHandle) -> bool:
    return bool(engine.containers(all=True, filters={"id": handle.handle_id}))


# The engine


def test_the_engine_is_described_in_one_short_line(docker_backend: Any, engine: Any) -> None:
    docker_backend.preflight()
    shown = docker_backend.describe()
    assert shown.startswith(f"docker (engine {engine.version()['Version']}, ")
    assert len(shown) <= 66


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # docker-py leaves a socket open
def test_an_engine_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(LaunchError) as caught:
        DockerBackend().preflight()
    assert str(caught.value) == (
        f"docker: no engine answers at unix://{tmp_path}/none; start Docker, or set DOCKER_HOST"
    )
    del caught
    gc.collect()


# Images


def test_processes_at_once_build_an_image_once(engine: Any, tmp_path: Path) -> None:
    # Each build of this would give another image.
    mark = secrets.token_hex(8)
    task_dir = write_context(tmp_path, f"{BASE}RUN echo {mark} && cat /proc/uptime > /built\n")
    code = (
        "import pathlib, sys; from pytest_aecbench.backends.docker import DockerBackend;"
        "print(DockerBackend().build_environment(task_dir=pathlib.Path(sys.argv[1])))"
    )
    argv = [sys.executable, "-c", code, str(task_dir)]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    (image_ref,) = {process.communicate(timeout=120)[0].strip() for process in running}
    digest = engine.inspect_image(image_ref)["Config"]["Labels"]["aecbench.digest"]
    assert image_ref.endswith(f":{digest[:12]}")
    assert len(engine.images(filters={"label": f"aecbench.digest={digest}"})) == 1


def test_tasks_with_the_same_environment_share_an_image(
    docker_backend: Any, engine: Any, tmp_path: Path
) -> None:
    dockerfile = f"{BASE}ENV MARK={secrets.token_hex(8)}\n"
    refs = [
        docker_backend.build_environment(task_dir=write_context(tmp_path / name, dockerfile))
        for name in ("One task", "another")
    ]
    assert refs[0].startswith("aecbench/one-task:")
    assert refs[1].startswith("aecbench/another:")
    assert len({engine.inspect_image(ref)["Id"] for ref in refs}) == 1


def test_a_forced_build_happens_once_in_a_run(engine: Any, tmp_path: Path) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    task_dir = write_context(
        tmp_path, f"{BASE}RUN cat /proc/uptime > /built-{secrets.token_hex(8)}\n"
    )

    def build(**options: Any) -> str:
        ref = DockerBackend(**options).build_environment(task_dir=task_dir)
        return str(engine.inspect_image(ref)["Id"])

    first = build(run_id="1")
    forced = build(run_id="2", force_build=True)
    assert forced != first
    assert build(run_id="2", force_build=True) == forced
    assert build(run_id="3") == forced


def test_a_failed_build_names_its_step_and_shows_its_last_lines(
    docker_backend: Any, tmp_path: Path
) -> None:
    task_dir = write_context(tmp_path, f"{BASE}RUN echo before; echo why >&2; exit 3\n")
    with pytest.raises(BuildError) as caught:
        docker_backend.build_environment(task_dir=task_dir)
    first, *lines = str(caught.value).splitlines()
    assert first.startswith(f"{task_dir}/environment/Dockerfile: the build failed at 'Step 3/")
    assert "RUN echo before" in first
    assert "returned a non-zero code: 3" in first
    assert "  before" in lines
    assert any("why" in line for line in lines)
    log = Path(first.rpartition("(log: ")[2].rstrip(")"))
    assert "before\n" in log.read_text()


def test_a_build_that_never_ends_is_ended(docker_backend: Any, engine: Any, tmp_path: Path) -> None:
    seconds = f"1{secrets.randbelow(10**9)}"
    toml = "[environment]\nbuild_timeout_sec = 3\n"
    task_dir = write_context(tmp_path, f"{BASE}RUN echo here; sleep {seconds}\n", toml)
    started = time.monotonic()
    with pytest.raises(BuildError, match=r"it took over build_timeout_sec = 3 "):
        docker_backend.build_environment(task_dir=task_dir)
    assert time.monotonic() - started < 20
    wait_until(lambda: not any(seconds in one["Command"] for one in engine.containers(all=True)))


def test_what_cannot_be_built_is_one_line(
    docker_backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def message(dockerfile: str | None, toml: str = "") -> str:
        task_dir = write_context(tmp_path / secrets.token_hex(4), dockerfile, toml)
        with pytest.raises(BuildError, match=r"\A[^\n]+\Z") as caught:
            docker_backend.build_environment(task_dir=task_dir)
        return str(caught.value)

    assert "nothing to build; add environment/Dockerfile" in message(None)
    missing = '[environment]\ndocker_image = "aecbench.invalid/no/such:image"\n'
    assert message(None, missing).startswith(
        "docker: aecbench.invalid/no/such:image cannot be pulled; "
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "needs BuildKit; install" in message(f"{BASE}RUN --mount=type=cache,target=/c true\n")


@pytest.mark.needs("buildx")
def test_what_only_buildkit_understands_is_built_by_buildx(
    docker_backend: Any, engine: Any, tmp_path: Path
) -> None:
    run = "RUN --mount=type=cache,target=/cache"
    good = write_context(tmp_path / "good", f"{BASE}{run} echo {secrets.token_hex(8)} > /built\n")
    image_ref = docker_backend.build_environment(task_dir=good)
    assert image_ref.startswith("aecbench/good:")
    assert "aecbench.digest" in engine.inspect_image(image_ref)["Config"]["Labels"]
    bad = write_context(tmp_path / "bad", f"{BASE}{run} echo why; exit 3\n")
    with pytest.raises(BuildError, match=r"the build failed at '#\d+ .*echo why; exit 3'"):
        docker_backend.build_environment(task_dir=bad)
    toml = "[environment]\nbuild_timeout_sec = 3\n"
    endless = write_context(tmp_path / "endless", f"{BASE}{run} sleep 1000\n", toml)
    with pytest.raises(BuildError, match=r"it took over build_timeout_sec = 3 "):
        docker_backend.build_environment(task_dir=endless)


def test_an_image_that_is_named_is_used_as_it_is(
    docker_backend: Any, engine: Any, tmp_path: Path
) -> None:
    toml = '[environment]\ndocker_image = "python:3.11-slim"\n'
    task_dir = write_context(tmp_path, None, toml)
    assert docker_backend.build_environment(task_dir=task_dir) == "python:3.11-slim"
    (tmp_path / "workspace").mkdir()
    handle = docker_backend.launch_trial(
        image_ref="python:3.11-slim", workspace_dir=tmp_path / "workspace"
    )
    assert engine.inspect_container(handle.handle_id)["Config"]["WorkingDir"] == "/workspace"
    docker_backend.teardown(handle=handle)


def test_a_platform_is_that_of_the_dockerfile(
    docker_backend: Any, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = engine.inspect_image("python:3.11-slim")["Architecture"]
    dockerfile = f"FROM --platform=linux/{{}} python:3.11-slim\nENV MARK={secrets.token_hex(8)}\n"
    good = write_context(tmp_path / "good", dockerfile.format(ours))
    image_ref = docker_backend.build_environment(task_dir=good)
    assert engine.inspect_image(image_ref)["Architecture"] == ours
    # Only BuildKit fills in variables there, so that the error is not some parser's.
    variable = write_context(tmp_path / "variable", dockerfile.format("$BUILDARCH"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="needs BuildKit"):
        docker_backend.build_environment(task_dir=variable)


def test_what_is_ignored_does_not_get_in(docker_backend: Any, tmp_path: Path) -> None:
    task_dir = write_context(tmp_path, f"{BASE}COPY . /context\nRUN test ! -e /context/secret\n")
    (task_dir / "environment/secret").write_text("x")
    with pytest.raises(BuildError):
        docker_backend.build_environment(task_dir=task_dir)
    (task_dir / "environment/.dockerignore").write_text("secret\n")
    docker_backend.build_environment(task_dir=task_dir)


# Containers


def test_a_container_says_whose_it_is_and_has_its_limits(
    launch_task: LaunchTask, engine: Any
) -> None:
    limits = Limits(cpus=1.5, memory_mb=256, storage_mb=500, network=False, lifetime_sec=900)
    sandbox = launch_task(limits=limits)
    found = engine.inspect_container(sandbox.handle.handle_id)
    labels = found["Config"]["Labels"]
    assert labels["aecbench.pid"] == str(os.getpid())
    assert labels["aecbench.run"] == "conformance"
    assert labels["aecbench.trial"] == "trial-0"
    assert 900 < int(labels["aecbench.lifetime"]) < 3600
    host = found["HostConfig"]
    assert host["NanoCpus"] == 1_500_000_000
    assert host["Memory"] == host["MemorySwap"] == 256 * 1024**2
    assert host["PidsLimit"] > 0
    assert host["NetworkMode"] == "none"


def test_more_processors_than_there_are_is_no_error(launch_task: LaunchTask) -> None:
    assert launch_task(limits=Limits(cpus=4096)).output("echo fine") == "fine\n"


def test_the_images_entry_point_and_health_check_do_not_run(launch_task: LaunchTask) -> None:
    sandbox = launch_task(f'{BASE}ENTRYPOINT ["false"]\nHEALTHCHECK CMD touch /checked\n')
    assert sandbox.output("echo fine") == "fine\n"


def test_another_working_directory_is_the_workspace_too(launch_task: LaunchTask) -> None:
    sandbox = launch_task("FROM python:3.11-slim\nWORKDIR /app\n")
    assert sandbox.output("pwd; echo x > /workspace/y; cat y") == "/app\nx\n"
    assert (sandbox.collect().workspace / "y").read_text() == "x\n"


@pytest.mark.parametrize("workdir", ["/srv/site", "/srv/$HOME and \\\\ more"])
def test_a_workdir_in_the_task_goes_before_the_images(
    launch_task: LaunchTask, workdir: str
) -> None:
    toml = f'[environment]\nworkdir = "{workdir}"\n'
    sandbox = launch_task("FROM python:3.11-slim\nENV HOME=/x\nWORKDIR /app\n", toml=toml)
    shown = workdir.replace("\\\\", "\\")
    assert sandbox.output("pwd; echo x > /workspace/y; cat y") == f"{shown}\nx\n"
    assert (sandbox.collect().workspace / "y").read_text() == "x\n"


def test_the_images_user_runs_commands_but_not_the_clean_up(
    launch_task: LaunchTask, tmp_path: Path
) -> None:
    sandbox = launch_task(f"{BASE}RUN chmod 777 /workspace\nUSER daemon\n")
    (tmp_path / "up").mkdir()
    (tmp_path / "up/x").write_text("new")
    sandbox.output("(setsid sleep 1000 &) >/dev/null 2>&1; touch mine")
    uploads = {"/tests": tmp_path / "up"}
    shown = sandbox.output("id -un; cat /tests/x; ls", uploads=uploads, exclusive=True)
    assert shown == "daemon\nnewmine\n"
    assert "sleep" not in sandbox.output("cat /proc/[0-9]*/comm")
    assert sandbox.run("touch /tests/y").returncode != 0


def test_an_image_without_tar_takes_uploads(launch_task: LaunchTask, tmp_path: Path) -> None:
    sandbox = launch_task(f"{BASE}RUN rm /bin/tar\n")
    (tmp_path / "up").mkdir()
    (tmp_path / "up/x").write_text("new")
    sandbox.output("touch /tests/old")
    for _ in range(2):
        uploads = {"/tests": tmp_path / "up"}
        assert sandbox.output("ls /tests", uploads=uploads, exclusive=True) == "x\n"


def test_an_image_without_bash_is_a_launch_error(launch_task: LaunchTask, engine: Any) -> None:
    ours = {"label": f"aecbench.pid={os.getpid()}"}
    before = {one["Id"] for one in engine.containers(all=True, filters=ours)}
    with pytest.raises(LaunchError, match="bash"):
        launch_task(f"{BASE}RUN rm /bin/bash\n")
    assert {one["Id"] for one in engine.containers(all=True, filters=ours)} <= before


def test_no_signal_from_inside_ends_a_container(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    sandbox.run("for s in {1..64}; do kill -$s 1; done")
    assert sandbox.output("echo alive") == "alive\n"


def test_orphans_are_reaped(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    sandbox.output("for i in {1..20}; do (setsid true &); done")
    gone = "while grep -sq '^State:.Z' /proc/[0-9]*/status; do :; done"
    sandbox.output(gone, timeout_sec=10)


def test_commands_at_once_are_told_apart_at_a_deadline(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    with ThreadPoolExecutor(2) as threads:
        ended = threads.submit(sandbox.run, "touch one; sleep 1000", timeout_sec=3)
        sandbox.output("until [ -e one ]; do :; done")
        other = threads.submit(sandbox.run, "touch two; until [ -e go ]; do :; done; echo lived")
        assert ended.result().timed_out
        sandbox.output("touch go")
        assert other.result().stdout == "lived\n"


def test_deadlines_at_the_same_moment_cost_no_other_command_its_life(
    launch_task: LaunchTask,
) -> None:
    sandbox = launch_task()
    with ThreadPoolExecutor(25) as threads:
        other = threads.submit(sandbox.run, "touch two; until [ -e go ]; do :; done; echo lived")
        sandbox.output("until [ -e two ]; do :; done")
        ended = [threads.submit(sandbox.run, "sleep 1000", timeout_sec=1) for _ in range(24)]
        assert all(one.result().timed_out for one in ended)
        sandbox.output("touch go")
        assert other.result().stdout == "lived\n"


AS_DAEMON = "setpriv --reuid=1 --regid=1 --clear-groups"


@pytest.mark.parametrize(
    ("user", "shell"),
    [
        pytest.param("daemon", "bash", id="another user"),
        pytest.param("root", f"{AS_DAEMON} bash", id="another user's program"),
        pytest.param("root", "env -i bash", id="no environment"),
    ],
)
def test_a_deadline_ends_a_commands_own_processes_whoever_they_belong_to(
    launch_task: LaunchTask, user: str, shell: str
) -> None:
    sandbox = launch_task(f"{BASE}RUN chmod 777 /workspace\n")
    here = ": && cd /workspace"
    endless = f"{shell} -c '{here}; sleep 1000 & echo $! >pid; wait; true'; true"
    waiting = f"{shell} -c '{here}; touch two; until [ -e go ]; do sleep 0.1; done; echo lived'"
    with ThreadPoolExecutor(2) as threads:
        ended = threads.submit(sandbox.run, endless, timeout_sec=3, user=user)
        sandbox.output("until [ -s pid ]; do sleep 0.1; done")
        other = threads.submit(sandbox.run, f"{waiting}; true", user=user)
        sandbox.output("until [ -e two ]; do sleep 0.1; done")
        assert ended.result().timed_out
        gone = "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done"
        sandbox.output(f"{gone}; touch go", timeout_sec=10)
        assert other.result().stdout == "lived\n"


def test_a_process_that_is_slow_to_die_at_its_deadline_costs_no_other_its_life(
    launch_task: LaunchTask,
) -> None:
    # It has to give back memory, which takes as long as a busy processor does.
    slow = 'python3 -c \'import time; held = b"x" * 2**31; open("one", "w"); time.sleep(1000)\''
    sandbox = launch_task()
    with ThreadPoolExecutor(2) as threads:
        ended = threads.submit(sandbox.run, slow, timeout_sec=10)
        sandbox.output("until [ -e one ]; do sleep 0.1; done")
        other = threads.submit(sandbox.run, "until [ -e go ]; do sleep 0.1; done; echo lived")
        assert ended.result().timed_out
        sandbox.output("touch go")
        assert other.result().stdout == "lived\n"


def test_commands_that_start_at_a_deadline_of_another_live_on(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    with ThreadPoolExecutor(3) as threads:
        for _ in range(5):
            ended = threads.submit(sandbox.run, "sleep 1000", timeout_sec=0.2)
            while not ended.done():
                started = [threads.submit(sandbox.run, "/bin/true; echo lived") for _ in "ab"]
                assert [one.result().stdout for one in started] == ["lived\n"] * 2
            assert ended.result().timed_out


def test_a_sandbox_ends_with_its_lifetime(launch_task: LaunchTask) -> None:
    sandbox = launch_task(limits=Limits(lifetime_sec=3))
    began = time.monotonic()
    with pytest.raises(SandboxGone, match=r"^docker: the sandbox has outlived its lifetime$"):
        sandbox.run("sleep 1000", timeout_sec=300)
    assert time.monotonic() - began < 100
    with pytest.raises(SandboxGone):
        sandbox.run("true")


def test_a_command_ends_at_its_deadline_although_the_sandbox_may_live_on(
    launch_task: LaunchTask,
) -> None:
    sandbox = launch_task(limits=Limits(lifetime_sec=60))
    assert sandbox.run("sleep 1000", timeout_sec=1).timed_out
    assert sandbox.output("echo lives") == "lives\n"


# What goes wrong


@pytest.mark.parametrize("rounds", [3, at_night(30)])
def test_a_container_killed_at_the_start_of_a_command_is_gone_and_not_broken(
    launch_task: LaunchTask, engine: Any, rounds: int
) -> None:
    """The agent had no part in it, so it must not be scored for it."""

    def run_on(sandbox: RunningSandbox) -> None:
        while True:
            sandbox.run("true")

    for _ in range(rounds):
        sandbox = launch_task()
        with ThreadPoolExecutor(6) as threads:
            running = [threads.submit(run_on, sandbox) for _ in range(6)]
            time.sleep(0.5)  # so that each is at another point of a command
            engine.kill(sandbox.handle.handle_id)
            assert {type(one.exception()) for one in running} == {SandboxGone}


def test_a_container_killed_meanwhile_is_gone_but_its_files_are_not(
    launch_task: LaunchTask, engine: Any
) -> None:
    sandbox = launch_task()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(sandbox.run, "echo kept > x; touch /logs/x; sleep 1000")
        wait_until(lambda: (sandbox.collect().logs / "x").exists())
        engine.kill(sandbox.handle.handle_id)
        with pytest.raises(SandboxGone, match=r"^docker: the container has died \(exit code 137\)"):
            running.result()
    for exclusive in (False, True):
        with pytest.raises(SandboxGone, match=r"\A[^\n]+\Z"):
            sandbox.run("true", exclusive=exclusive)
    assert (sandbox.collect().workspace / "x").read_text() == "kept\n"


def test_mounts_are_seen_and_are_read_only_unless_asked(tmp_path: Path) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    for name in ("one", "other"):
        write_tree(tmp_path / name, {"given": name})
    mounts = [
        Mount(tmp_path / "one", "/mnt/one"),
        Mount(tmp_path / "other", "/mnt/other", writable=True),
        Mount(tmp_path / "one/given", "/etc/given"),
    ]
    backend = DockerBackend(run_id="conformance", mounts=mounts)
    image_ref = backend.build_environment(task_dir=write_context(tmp_path))
    with launching(backend, image_ref, tmp_path) as launch:
        sandbox = launch()
        assert sandbox.output("cat /mnt/*/given /etc/given") == "oneotherone"
        assert "Read-only file system" in sandbox.run("touch /mnt/one/made").stderr
        sandbox.output("touch /mnt/other/made")
    backend.close()
    assert (tmp_path / "other/made").exists()


def test_gpus_are_asked_of_the_engine_and_refused_by_one_that_has_none(
    docker_backend: Any, engine: Any
) -> None:
    image_ref = "python:3.11-slim"
    name = f"aecbench-{secrets.token_hex(6)}"
    spec = ContainerSpec(name, "trial", PurePosixPath("/workspace"), Limits(gpus=2))
    created = docker_backend._starter.create(spec, image_ref)
    try:
        (asked,) = engine.inspect_container(created)["HostConfig"]["DeviceRequests"]
    finally:
        engine.remove_container(created, force=True)
    assert (asked["Count"], asked["Capabilities"]) == (2, [["gpu"]])
    has_some = "nvidia" in engine.info()["Runtimes"]
    assert (docker_backend.refuse_gpus() is None) is has_some
    assert offers_gpus({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]})


def test_an_image_removed_in_mid_run_is_built_again(
    docker_backend: Any, engine: Any, tmp_path: Path
) -> None:
    task_dir = write_context(tmp_path, f"{BASE}LABEL only={tmp_path}-{os.getpid()}\n")
    image_ref = docker_backend.build_environment(task_dir=task_dir)
    with launching(docker_backend, image_ref, tmp_path) as launch:
        launch().teardown()
        docker_backend.close()
        engine.remove_image(image_ref)
        assert launch().output("echo sound") == "sound\n"
    docker_backend.close()
    engine.remove_image(image_ref)


def test_a_container_removed_meanwhile_is_gone(launch_task: LaunchTask, engine: Any) -> None:
    sandbox = launch_task()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(sandbox.run, "touch /logs/x; sleep 1000")
        wait_until(lambda: (sandbox.collect().logs / "x").exists())
        engine.remove_container(sandbox.handle.handle_id, force=True)
        with pytest.raises(SandboxGone):
            running.result()
    with pytest.raises(SandboxGone):
        sandbox.run("true")
    with pytest.raises(SandboxGone):
        sandbox.collect()
    sandbox.teardown()


def test_want_of_memory_is_told_from_other_kills(launch_task: LaunchTask) -> None:
    sandbox = launch_task(limits=Limits(memory_mb=64))
    result = sandbox.run("exec python3 -c 'bytearray(500 << 20)'")
    assert result.returncode == 137
    assert result.stderr.endswith("killed: the sandbox is out of memory\n")
    result = sandbox.run("kill -KILL $$")
    assert (result.returncode, result.stderr) == (137, "")


@pytest.mark.nightly
def test_a_fork_bomb_is_cleared_away(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    bomb = "(bomb() { bomb | bomb & }; bomb) >/dev/null 2>&1"
    count = "cat x; cd /proc; set -- [0-9]*; echo $#"
    assert sandbox.run(f"echo kept > x; {bomb}; sleep 1000", timeout_sec=3).timed_out
    assert sandbox.output(count, exclusive=True) == "kept\n3\n"
    sandbox.run(bomb)
    assert sandbox.output(count, exclusive=True) == "kept\n3\n"


def test_a_flood_of_output_is_capped(launch_task: LaunchTask) -> None:
    result = launch_task().run("yes | head -c 200000000; echo; echo last", timeout_sec=60)
    assert result.truncated
    assert result.stdout.endswith("\nlast\n")
    assert len(result.stdout) < 2 * 1024**2


def test_replaced_tools_do_not_save_a_process(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    sandbox.output("for t in sleep kill rm; do printf '#!/bin/sh\\n' > $(type -P $t); done; true")
    sandbox.output("(setsid bash -c 'while :; do read -t 1; done' &) >/dev/null 2>&1 </dev/zero")
    assert sandbox.output("cd /proc; echo [0-9]*", exclusive=True).split()[0] == "1"
    assert len(sandbox.output("cd /proc; echo [0-9]*").split()) == 3


# Puts a program in the place of the shell that says {!r} with each nonce, and then does {}.
FALSE_SHELL = r"""
cat >/tmp/shell <<'END'
#!/usr/bin/env -S python -I
import sys
nonce = b""
while (byte := sys.stdin.buffer.raw.read(1)) != bytes(1):
    nonce += byte
print({!r}.replace("NONCE", nonce.decode()), end="", flush=True)
{}
END
chmod 755 /tmp/shell
mv /tmp/shell /bin/bash
"""


@pytest.mark.parametrize(
    "said",
    [
        "NONCE ended 0",
        "NONCE started 1\nNONCE ended abc",
        f"NONCE started 1\nNONCE ended {'9' * 5000}",
        "NONCE started 1\nNONCE ended 256",
        "NONCE started a[$(id)0]\nNONCE ended 0",
    ],
    ids=["not started", "letters", "5,000 digits", "over 255", "start time with a command"],
)
def test_an_answer_that_an_agent_has_made_up_is_its_own_doing(
    launch_task: LaunchTask, said: str
) -> None:
    sandbox = launch_task()
    sandbox.output(FALSE_SHELL.format(f"{said}\n", ""))
    with pytest.raises(SandboxBroken):
        sandbox.run("true")


@pytest.mark.parametrize(
    "said", ["", "NONCE started 1\nNONCE ended "], ids=["before the start", "after the end"]
)
def test_an_endless_line_of_a_false_shell_does_not_fill_the_memory(
    launch_task: LaunchTask, said: str
) -> None:
    sandbox = launch_task()
    endless = "while sys.stdout.buffer.write(bytes(1 << 20)): pass"
    sandbox.output(FALSE_SHELL.format(said, endless))
    tracemalloc.start()
    try:
        with pytest.raises(SandboxBroken):
            sandbox.run("true", timeout_sec=10)
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024**2
    finally:
        tracemalloc.stop()


def test_processes_that_take_seconds_to_die_do_not_restart_the_container(
    launch_task: LaunchTask, engine: Any
) -> None:
    sandbox = launch_task()
    sandbox.output("(setsid sleep 1000 &) >/dev/null 2>&1")
    state = engine.inspect_container(sandbox.handle.handle_id)["State"]
    try:
        os.kill(state["Pid"], signal.SIGSTOP)  # so that it does not reap them
    except ProcessLookupError:
        pytest.skip("the engine is on another machine")
    thread = threading.Timer(5, os.kill, (state["Pid"], signal.SIGCONT))
    thread.start()
    try:
        assert sandbox.output("echo alone", exclusive=True) == "alone\n"
    finally:
        thread.join()
    assert engine.inspect_container(sandbox.handle.handle_id)["State"] == state


def test_files_that_the_host_cannot_take_are_a_transfer_error(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    sandbox.output("head -c 3000000 /dev/zero > big; touch small")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(TransferError, match=r"\A[^\n]+\Z"):
            sandbox.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (sandbox.collect().workspace / "big").stat().st_size == 3_000_000


def test_the_reward_comes_home_however_much_the_agent_has_written(
    launch_task: LaunchTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_aecbench.backends.shared.archives.TOTAL_CAP", 1_000_000)
    sandbox = launch_task()
    sandbox.output("head -c 3000000 /dev/zero > /logs/agent/big; echo 1 > /logs/verifier/reward")
    sandbox.output("cp /logs/agent/big big; touch after")
    artifacts = sandbox.collect()
    assert (artifacts.logs / "verifier/reward").read_text() == "1\n"
    assert [what.partition(" ")[0] for what in artifacts.skipped] == [
        "logs/agent/big",
        "workspace/big",
    ]


def test_a_very_deep_tree_is_left_out(launch_task: LaunchTask) -> None:
    sandbox = launch_task()
    deep = "import os; [(os.mkdir('deep'), os.chdir('deep')) for _ in range(300)]"
    sandbox.output(f'touch near; python3 -c "{deep}"')
    artifacts = sandbox.collect()
    (skipped,) = artifacts.skipped
    assert skipped.endswith("/deep (nested too deeply)")
    assert (artifacts.workspace / "near").exists()


# Keeping and cleaning up


def test_a_removal_that_fails_does_not_keep_the_others(
    launch_task: LaunchTask, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    monkeypatch.setattr("pytest_aecbench.backends.docker.reap._RELEASE_SEC", 0)
    backend = DockerBackend(run_id="conformance")
    image_ref = backend.build_environment(task_dir=write_context(tmp_path))
    handle = backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path)
    name = engine.inspect_container(handle.handle_id)["Name"].lstrip("/")
    project = f"aecbench-{secrets.token_hex(6)}"
    network = engine.create_network(project, labels={PROJECT_LABEL: project})["Id"]
    other = launch_task().handle.handle_id
    engine.connect_container_to_network(other, network)
    try:
        backend._unremoved.update({project: True, name: False})
        with pytest.raises(BackendError, match=f"removing {project}: it is still in use"):
            backend.close()
        assert not exists(engine, handle)
    finally:
        engine.disconnect_container_from_network(other, network)
        engine.remove_network(network)
    backend.close()


@pytest.mark.usefixtures("alone_on_engine")
def test_a_kept_container_can_be_entered_and_is_left_alone(
    launch_task: LaunchTask, docker_backend: Any, engine: Any
) -> None:
    sandbox = launch_task()
    sandbox.output("echo evidence > x")
    command = docker_backend.keep(sandbox.handle)
    sandbox.teardown()
    assert docker_backend.reap() == []
    try:
        entered = subprocess.run(
            [*command.replace(" -it", "").split(), "-c", "cat x"], capture_output=True, text=True
        )
        assert entered.stdout == "evidence\n"
    finally:
        engine.remove_container(sandbox.handle.handle_id, force=True)


def test_twice_as_many_at_once_as_the_engine_has_processors(
    docker_backend: Any, engine: Any
) -> None:
    assert docker_backend.concurrency() == 2 * engine.info()["NCPU"]


@pytest.mark.usefixtures("alone_on_engine")
def test_only_what_dead_processes_left_is_reaped(
    launch_task: LaunchTask, docker_backend: Any, engine: Any, tmp_path: Path, own_machine: Path
) -> None:
    code = (
        "import os, pathlib, sys; from pytest_aecbench.backends.docker import DockerBackend;"
        "handle = DockerBackend().launch_trial(image_ref=sys.argv[1],"
        "workspace_dir=pathlib.Path(sys.argv[2])); print(handle.handle_id, flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    alive = launch_task()
    image_ref = docker_backend.build_environment(task_dir=write_context(tmp_path / "task"))
    argv = [sys.executable, "-c", code, image_ref, str(alive.workspace_dir)]
    left = TrialHandle("docker", subprocess.run(argv, stdout=subprocess.PIPE).stdout.decode()[:-1])
    name = engine.inspect_container(left.handle_id)["Name"].lstrip("/")
    assert name in docker_backend.reap(dry_run=True)
    assert exists(engine, left)
    assert len(list((own_machine / "homes").iterdir())) == 2
    assert name in docker_backend.reap()
    assert not exists(engine, left)
    assert len(list((own_machine / "homes").iterdir())) == 1
    assert alive.output("echo alive") == "alive\n"


REAP = """if True:
    import json, sys
    from pytest_aecbench.backends.docker import DockerBackend
    backend = DockerBackend()
    print(json.dumps([backend.reap(), backend.left_alone]))
"""


@pytest.mark.needs("machines")
@pytest.mark.usefixtures("alone_on_engine")
def test_a_live_container_is_left_alone_from_elsewhere_while_it_may_be_needed(
    launch_task: LaunchTask, engine: Any, tmp_path: Path
) -> None:
    sandbox, overdue = launch_task(), launch_task(limits=Limits(lifetime_sec=-600))
    name, other = (
        engine.inspect_container(one.handle.handle_id)["Name"].lstrip("/")
        for one in (sandbox, overdue)
    )
    wait_until(lambda: age(engine, overdue) > 1)
    reap = (sys.executable, "-c", REAP)
    removed, left_alone = reaped(in_another_namespace(*reap))
    assert other in removed
    assert name not in removed
    assert name in left_alone
    removed, left_alone = reaped(on_another_machine(tmp_path, *reap))
    assert (name in removed, name in left_alone) == (False, True)
    assert sandbox.output("echo alive") == "alive\n"


def reaped(command: list[str]) -> list[list[str]]:
    return list(json.loads(subprocess.check_output(command, text=True)))


def age(engine: Any, sandbox: RunningSandbox) -> float:
    """Return the seconds since a container was created, by this machine's clock."""
    (found,) = engine.containers(all=True, filters={"id": sandbox.handle.handle_id})
    return time.time() - float(found["Created"])
