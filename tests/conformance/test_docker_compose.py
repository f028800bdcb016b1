"""Tasks of several services, through the compose command on a real engine."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.errors import BuildError, LaunchError, TaskError
from pytest_aecbench.testing import RunningSandbox
from pytest_aecbench.testing.sandbox import launching
from tests.conformance.conftest import BASE, write_context
from tests.conformance.runs import NEVER_ENDS, EngineRun, wait_until
from tests.project import Project
from tests.tasks import write_tree

pytestmark = pytest.mark.needs("docker")

WEB = """
services:
  main:
    depends_on:
      web: {condition: service_healthy}
    volumes: ["shared:/shared"]
  web:
    image: python:3.11-slim
    command: python3 -m http.server 8000 --directory /srv
    volumes: ["./site:/srv", "shared:/shared"]
    ports: ["8000:8000"]
    container_name: our-web
    healthcheck:
      test: [CMD, python3, -c, "import urllib.request as u; u.urlopen('http://localhost:8000')"]
      interval: 500ms
      retries: 40
volumes:
  shared: {name: all-trials-would-share-this}
"""
FETCH = """python3 -c "import urllib.request as u; print(u.urlopen('%s').read().decode())" """
ANSWER = '{"current_a": 2.0, "power_w": 24.0}'
FILES = {
    "environment/Dockerfile": BASE,
    "environment/docker-compose.yaml": WEB,
    "environment/site/answer.json": ANSWER,
}


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param(2, marks=pytest.mark.needs("compose"), id="compose-2"),
        pytest.param(
            1, marks=[pytest.mark.needs("docker-compose"), pytest.mark.nightly], id="compose-1"
        ),
    ],
)
def compose(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin of the docker command, or the old command where there is no plugin."""
    if request.param == 1:
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-plugins"))


@pytest.fixture
def run(project: Project, engine: Any) -> EngineRun:
    return EngineRun(project, engine)


def write_services(directory: Path, text: str = WEB) -> Path:
    task_dir = write_context(directory)
    (task_dir / "environment/docker-compose.yaml").write_text(text)
    (task_dir / "environment/site").mkdir()
    (task_dir / "environment/site/answer.json").write_text(ANSWER)
    return task_dir


def launch(
    backend: Any, task_dir: Path, limits: Limits | None = None, trial: str = "trial"
) -> RunningSandbox:
    workspace = task_dir.parent / trial / "workspace"
    workspace.mkdir(parents=True)
    image_ref = backend.build_environment(task_dir=task_dir)
    handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace, limits=limits)
    return RunningSandbox(backend, handle, workspace)


def names_in(engine: Any, label: str) -> list[str]:
    filters = {"label": label}
    found = [one["Names"][0] for one in engine.containers(all=True, filters=filters)]
    found += [one["Name"] for one in engine.networks(filters=filters)]
    return found + [one["Name"] for one in engine.volumes(filters=filters)["Volumes"] or ()]


@pytest.mark.usefixtures("alone_on_engine")
def test_trials_at_once_have_services_of_their_own_and_leave_none(
    project: Project, run: EngineRun
) -> None:
    # Were volume, port or name shared, the second trial would see the first or fail.
    solve = (
        "test ! -e /shared/taken && touch /shared/taken\n"
        f"{FETCH % 'http://our-web:8000/answer.json'} > /workspace/output.jsonl\n"
    )
    project.task(solve=solve, files=FILES)
    project.run("--aec-repetitions=2", "-n2").assert_outcomes(passed=2)
    assert run.validities() == ["scored", "scored"]
    assert run.left() == []


def test_every_part_says_whose_it_is_and_main_has_the_limits(
    docker_backend: Any, engine: Any, tmp_path: Path
) -> None:
    limits = Limits(cpus=1.5, memory_mb=256, network=False, lifetime_sec=900)
    sandbox = launch(docker_backend, write_services(tmp_path / "task"), limits)
    main = engine.inspect_container(sandbox.handle.handle_id)
    project = main["Config"]["Labels"]["aecbench.project"]
    assert len(names_in(engine, f"aecbench.project={project}")) == 4
    owned = names_in(engine, f"aecbench.pid={os.getpid()}")
    assert set(names_in(engine, f"aecbench.project={project}")) <= set(owned)
    host = main["HostConfig"]
    assert (host["NanoCpus"], host["Memory"]) == (1_500_000_000, 256 * 1024**2)
    assert host["MemorySwap"] == host["Memory"]
    assert host["PidsLimit"] > 0
    (network,) = engine.networks(filters={"label": f"aecbench.project={project}"})
    assert network["Internal"]
    assert sandbox.output(FETCH % "http://web:8000/answer.json") == f"{ANSWER}\n"
    sandbox.teardown()
    docker_backend.close()
    assert names_in(engine, f"aecbench.project={project}") == []


def test_main_is_what_its_file_makes_of_it(docker_backend: Any, tmp_path: Path) -> None:
    text = """
    services:
      main:
        build: {context: "${CONTEXT_DIR}", dockerfile: other/F, target: wanted, args: {WORD: a$$b}}
        image: ${MAIN_IMAGE_NAME}
        user: daemon
        working_dir: /app
        command: "false"
        environment: ["TESTS=${TEST_DIR}", "GIVEN=${GIVEN}"]
        volumes: ["${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}"]
        deploy: {resources: {limits: {cpus: "${CPUS}", memory: "${MEMORY}"}}}
    """
    task_dir = write_services(tmp_path / "task", text)
    (task_dir / "task.toml").write_text('[environment]\nenv = {GIVEN = "${USER:-x}-$$"}\n')
    (task_dir / "environment/other").mkdir()
    dockerfile = "FROM python:3.11-slim AS wanted\nARG WORD\nRUN echo $WORD > /word\n"
    (task_dir / "environment/other/F").write_text(f"{dockerfile}FROM wanted\nRUN false\n")
    sandbox = launch(docker_backend, task_dir, Limits(network=False))
    shown = sandbox.output("id -un; pwd; cat /word; echo $TESTS $GIVEN; echo 1 > /logs/verifier/x")
    assert shown == f"daemon\n/app\na$b\n/tests {os.environ.get('USER', 'x')}-$\n"
    assert (sandbox.collect().logs / "verifier/x").read_text() == "1\n"
    assert "eth" not in sandbox.output("cat /proc/net/dev")
    sandbox.teardown()
    docker_backend.close()


NEVER_HEALTHY = "healthcheck: {test: [CMD, 'false'], interval: 200ms, retries: 2}"


@pytest.mark.parametrize(
    ("web", "why"),
    [("command: [/no/such]", "/no/such"), (f"command: sleep 1000, {NEVER_HEALTHY}", "web")],
    ids=["cannot start", "never healthy"],
)
def test_a_start_that_fails_halfway_leaves_nothing(
    docker_backend: Any, engine: Any, tmp_path: Path, web: str, why: str
) -> None:
    main = "main: {depends_on: {web: {condition: service_healthy}}}"
    text = f"services: {{{main}, web: {{image: 'python:3.11-slim', {web}}}}}\n"
    task_dir = write_services(tmp_path / "task", text)
    with pytest.raises(LaunchError, match=rf"\A[^\n]*the services did not start; [^\n]*{why}"):
        launch(docker_backend, task_dir)
    assert names_in(engine, f"aecbench.pid={os.getpid()}") == []


def test_images_removed_in_mid_run_are_built_again(
    docker_backend: Any, engine: Any, tmp_path: Path
) -> None:
    only = f"{BASE}LABEL only={tmp_path}-{os.getpid()}\n"
    alone = "services: {web: {build: web, command: sleep infinity}}\n"
    files = {"docker-compose.yaml": alone, "web/Dockerfile": only}
    task_dir = write_context(tmp_path, f"{only}LABEL main=1\n")
    write_tree(task_dir / "environment", files)
    image_ref = docker_backend.build_environment(task_dir=task_dir)
    images = list(docker_backend._composed[image_ref].images.values())
    with launching(docker_backend, image_ref, tmp_path) as launch:
        for removed in images:
            engine.remove_image(removed)
            sandbox = launch()
            assert sandbox.output("echo sound") == "sound\n"
            sandbox.teardown()
            docker_backend.close()
    for image in images:
        engine.remove_image(image)


def test_a_file_that_is_wrong_is_one_line(docker_backend: Any, tmp_path: Path) -> None:
    task_dir = write_services(tmp_path / "task", "services: {main: {imaeg: x}}\n")
    with pytest.raises(BuildError, match=r"\A[^\n]*docker-compose.yaml: is not valid; [^\n]*imaeg"):
        docker_backend.build_environment(task_dir=task_dir)


@pytest.mark.usefixtures("alone_on_engine")
@pytest.mark.parametrize("arguments", [(), ("-n2",)], ids=["plain", "n2"])
def test_without_a_compose_command_no_trial_is_started(
    project: Project,
    run: EngineRun,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
) -> None:
    project.task("civil/one", files=FILES)
    project.task("civil/other", files={"environment/Dockerfile": BASE})
    monkeypatch.setenv("PATH", str(tmp_path))
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = result.stderr.str() + result.stdout.str()
    path = project.path / "tasks/civil/one/environment/docker-compose.yaml"
    assert f"{path}: needs compose; install the docker CLI with compose, or docker-compose" in said
    assert project.records() == []


def test_the_example_of_the_page_works(docker_backend: Any, tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs/docker.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", docs, re.DOTALL)
    sandbox = launch(docker_backend, write_services(tmp_path / "task", example))
    assert "Directory listing" in sandbox.output(FETCH % "http://web:8000")
    sandbox.teardown()
    docker_backend.close()


@pytest.mark.usefixtures("alone_on_engine")
def test_kill_9_leaves_services_that_are_reaped_together(
    project: Project, run: EngineRun, docker_backend: Any
) -> None:
    project.task(solve=NEVER_ENDS, files=FILES)
    run.start()
    run.wait_for_command()
    left = run.left()
    assert len(left) == 4
    assert not set(left) & set(docker_backend.reap())
    run.signal(signal.SIGKILL)
    run.end()
    assert set(left) <= set(docker_backend.reap(dry_run=True))
    assert run.left() == left
    assert set(left) <= set(docker_backend.reap())
    wait_until(lambda: run.left() == [])
    assert "scored" not in run.validities()


@pytest.mark.usefixtures("alone_on_engine")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_a_run_ended_while_its_services_start_leaves_nothing(
    project: Project, run: EngineRun, docker_backend: Any, number: signal.Signals
) -> None:
    never = WEB.replace("http://localhost:8000'", "http://localhost:1'").replace("40", "4000")
    project.task(files={**FILES, "environment/docker-compose.yaml": never})
    run.start()
    run.wait_for(run.containers)
    run.signal(number)
    run.end()
    if number == signal.SIGKILL:
        wait_until(lambda: docker_backend.reap() == [] and run.left() == [])
    assert run.left() == []
    assert "scored" not in run.validities()


@pytest.mark.usefixtures("alone_on_engine")
def test_kept_services_live_on_until_their_user_removes_them(
    project: Project, run: EngineRun, docker_backend: Any, engine: Any
) -> None:
    project.task(files=FILES)
    run.start("--aec-keep=all")
    run.end()
    network, volume, main, web = run.left()
    assert main.startswith("aecbench-kept-")
    assert web.startswith(f"{main}-web-")
    assert not {network, volume, main, web} & set(docker_backend.reap())
    for one in run.containers():
        assert one["State"] == "running"
        engine.remove_container(one["Id"], force=True, v=True)
    assert {network, volume} <= set(docker_backend.reap())
    assert run.left() == []


def test_a_task_that_needs_compose_is_named(
    docker_backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, composed = write_context(tmp_path / "plain"), write_services(tmp_path / "composed")
    docker_backend.examine([plain, composed])
    monkeypatch.setenv("PATH", str(tmp_path))
    docker_backend.examine([plain])
    with pytest.raises(TaskError, match=rf"\A{composed}/[^\n]*: needs compose; install"):
        docker_backend.examine([plain, composed])
