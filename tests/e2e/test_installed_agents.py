"""Agents installed in the task's image: on Docker, through the vendors' SDKs, in several services.

The agent is the example of the documentation, whose script needs no network.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.costs import at_night
from tests.e2e.shipped import ROOT
from tests.e2e.test_vendors import plugins_for, serving
from tests.project import Project

PAGE = (ROOT / "docs/agents-in-the-sandbox.md").read_text("utf-8")
SLIM = "FROM python:3.11-slim\n"
# Earns everything only where the agent is not, and where its work is.
WITHOUT_AGENT = "! command -v my-solver && python3 /tests/verify.py\n"
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'

on_docker = pytest.mark.needs("docker")
pytestmark = pytest.mark.usefixtures("alone_on_engine")


def example(name: str, language: str = "yaml") -> str:
    """Return the example of that name."""
    (found,) = re.findall(rf"<!-- example: {name} -->\n```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the agent of the documentation."""
    monkeypatch.setenv("MY_SOLVER_KEY", "the-key-of-my-solver")
    (pytester.path / "x.yaml").write_text(example("program"))
    return Project(pytester, ("--aec-experiment=x.yaml",))


def replace(project: Project, **parameters: str) -> None:
    """Change parameters of the agent."""
    path = project.path / "x.yaml"
    experiment = yaml.safe_load(path.read_text())
    experiment["agents"][0]["parameters"].update(parameters)
    path.write_text(json.dumps(experiment))


def image_ids(name: str) -> set[str]:
    import docker

    return {image["Id"] for image in docker.from_env().api.images(name)}


@on_docker
def test_an_agent_is_installed_once_and_the_verifier_has_the_task_s_own_image(
    project: Project,
) -> None:
    # A content of its own, so that no other test has built it.
    files = {"environment/Dockerfile": f"{SLIM}LABEL test={project.path.name}\nWORKDIR /workspace"}
    project.task("electrical/layered", toml=SEPARATE, test_sh=WITHOUT_AGENT, files=files)
    project.run("--aec-repetitions=2").assert_outcomes(passed=2)
    first, second = sorted(project.records(), key=lambda record: str(record["repetition"]))
    environment = first["environment"]
    assert environment["image"].startswith("aecbench/layered:")
    assert environment["agent_image"].startswith("aecbench/layered-command:")
    assert second["environment"] == environment
    assert second["timing"]["build"] is None
    assert (first["cost"]["tokens_in"], first["cost"]["usd"]) == (120, 0.002)
    built = image_ids(environment["agent_image"])
    project.run("--aec-experiment-id=again").assert_outcomes(passed=1)
    assert image_ids(environment["agent_image"]) == built


@on_docker
def test_another_version_is_another_image(project: Project) -> None:
    project.task(files={"environment/Dockerfile": f"{SLIM}WORKDIR /workspace\n"})
    project.run().assert_outcomes(passed=1)
    replace(project, version="2.0")
    project.run("--aec-experiment-id=other").assert_outcomes(passed=1)
    records = project.records()
    assert len({record["environment"]["agent_image"] for record in records}) == 2
    assert len({record["environment"]["image"] for record in records}) == 1
    assert len({record["task"]["digest"] for record in records}) == 1


STAGES = f"{SLIM[:-1]} AS base\nRUN useradd -m app\nFROM base\nUSER app\nWORKDIR /home/app\n"
DOCKERFILES = {
    "stages, user and workdir": (STAGES, "", "app /home/app"),
    "workdir of task.toml": (f"{SLIM}WORKDIR /x\n", 'workdir = "/a b"\n', "root /a b"),
    "no dockerfile": (None, 'docker_image = "python:3.11-slim"\n', "root /workspace"),
    "everything copied": (f"{SLIM}WORKDIR /workspace\nCOPY . .\n", "", "root /workspace"),
}


@on_docker
@pytest.mark.parametrize(("dockerfile", "toml", "place"), DOCKERFILES.values(), ids=DOCKERFILES)
def test_user_and_working_directory_stay_the_task_s(
    project: Project, dockerfile: str | None, toml: str, place: str
) -> None:
    files = {"environment/.dockerignore": "*\n!given.txt\n", "environment/given.txt": "x"}
    if dockerfile is not None:
        files["environment/Dockerfile"] = dockerfile
    project.task(toml=f"[environment]\n{toml}", files=files)
    run = 'my-solver < "$AGENT_INSTRUCTION_FILE"; echo "$(id -un) $PWD" > place; ls -A > files'
    replace(project, run=run)
    assert project.run("--aec-no-verify").ret == 0
    (workspace,) = (project.path / "jobs").glob("*/*/workspace")
    assert (workspace / "place").read_text() == f"{place}\n"
    left = set((workspace / "files").read_text().split())
    expected = {"given.txt"} if dockerfile and "COPY" in dockerfile else set()
    home = {".bashrc", ".profile", ".bash_logout"}
    assert left - {"output.jsonl", "place", "files"} - home == expected


@on_docker
@pytest.mark.needs("docker-compose")
def test_of_several_services_the_agent_is_in_main(project: Project) -> None:
    compose = 'version: "3"\nservices:\n  main: {build: {context: app}}\n  db:\n'
    compose += "    image: python:3.11-slim\n    command: sleep infinity\n"
    files = {
        "environment/docker-compose.yaml": compose,
        "environment/app/Dockerfile": f"{SLIM}WORKDIR /workspace\n",
    }
    project.task(toml=SEPARATE, test_sh=WITHOUT_AGENT, files=files)
    project.run().assert_outcomes(passed=1)
    assert project.record()["environment"]["agent_image"].startswith("compose:ohms-law-command-")


@on_docker
def test_a_script_that_fails_is_a_failed_build(project: Project) -> None:
    project.task(files={"environment/Dockerfile": f"{SLIM}WORKDIR /workspace\n"})
    script = "echo first; false; echo second"
    replace(project, install=script)
    project.run().assert_outcomes(errors=1)
    error = project.record()["evaluation"]["error"]
    assert error["cause"] == "build"
    assert "first" in error["message"]
    assert "second" not in error["message"].replace(script, "")


@on_docker
@pytest.mark.slow
@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("vendor", ["modal", at_night("daytona"), at_night("e2b")])
def test_a_vendor_builds_the_image_with_the_agent(
    vendor: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    project.task(
        toml=SEPARATE,
        test_sh=WITHOUT_AGENT,
        files={"environment/Dockerfile": f"{SLIM}WORKDIR /workspace\n"},
    )
    with serving(vendor, DockerBackend(), monkeypatch) as server:
        result = project.pytester.runpytest_subprocess(
            *project.mode, f"--aec-backend={vendor}", *plugins_for(vendor), "tasks"
        )
        result.assert_outcomes(passed=1)
        assert server.sandboxes == {}
    environment = project.record()["environment"]
    assert environment["agent_image"] not in (None, environment["image"])


@on_docker
def test_an_agent_in_python_can_be_installed(project: Project) -> None:
    project.task(
        test_sh="test -e output.jsonl; echo $((1 - $?)) > /logs/verifier/reward.txt",
        files={"environment/Dockerfile": f"{SLIM}WORKDIR /workspace\n"},
    )
    (project.path / "solvers.py").write_text(example("installed", "python"))
    project.pytester.syspathinsert()
    options = ("--aec-backend=docker", "--aec-agent=solvers.Solver")
    project.pytester.runpytest(*options, "tasks").assert_outcomes(passed=1)
    assert project.record()["environment"]["agent_image"].startswith("aecbench/ohms-law-solver:")


def test_the_example_with_a_network_is_an_experiment(tmp_path: Path) -> None:
    from pytest_aecbench.settings.layers import experiment_layer

    path = tmp_path / "x.yaml"
    path.write_text(example("network"))
    agents: Any = experiment_layer(path)["agents"][0]
    assert agents[0]["parameters"] == {"network": True, "max_turns": 40}
