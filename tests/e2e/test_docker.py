"""The shipped tasks on a Docker engine: the same rewards as on this machine, and nothing left."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.shipped import expected, rewards, some_or_all
from tests.project import Project

pytestmark = [pytest.mark.needs("docker"), pytest.mark.usefixtures("alone_on_engine")]


def containers_of(directory: Path) -> list[str]:
    """Return the containers that exist of the experiments in ``directory``."""
    import docker

    found = []
    for experiment in (directory / "artefacts/ledger").iterdir():
        label = f"aecbench.experiment={experiment.name}"
        found += docker.from_env().api.containers(all=True, filters={"label": label})
    return found


@pytest.mark.slow
@some_or_all
def test_rewards_are_those_of_the_local_backend(tmp_path: Path, names: tuple[str, ...]) -> None:
    on_docker = rewards(tmp_path / "docker", "--aec-backend=docker", "-n4", names=names)
    assert on_docker == expected(names)
    assert on_docker == rewards(tmp_path / "local", "--aec-backend=local", "-n4", names=names)
    assert containers_of(tmp_path / "docker") == []


def test_the_sandbox_of_a_failed_trial_is_kept_and_can_be_entered(
    pytester: pytest.Pytester,
) -> None:
    project = Project(pytester, ())
    dockerfile = {"environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\n"}
    project.task("civil/good", files=dockerfile)
    project.task("civil/low", solve="echo mine > note.txt", files=dockerfile)
    result = project.run("--aec-backend=docker", "--aec-keep=failed")
    result.assert_outcomes(passed=1, failed=1)
    found = re.findall(
        r"^the (.*)'s sandbox:\ndocker exec -it .* (\S+) bash$", result.stdout.str(), re.MULTILINE
    )
    assert [whose for whose, _ in found] == ["verifier", "agent"]
    names = [name for _, name in found]
    try:
        for name in names:
            argv = ["docker", "exec", name, "cat", "/workspace/note.txt"]
            assert subprocess.run(argv, capture_output=True, text=True).stdout == "mine\n"
        assert len(containers_of(project.path)) == 2
    finally:
        subprocess.run(["docker", "rm", "-f", *names], capture_output=True, check=True)


def test_an_agents_files_can_be_read_by_its_user_and_do_not_reach_the_verifier(
    pytester: pytest.Pytester,
) -> None:
    project = Project(pytester, ())
    project.task(
        toml='[agent]\nuser = "nobody"\n',
        test_sh="test ! -e my_agent.py -a ! -L my_agent.py -a ! -e /logs/agent/files "
        "&& python3 /tests/verify.py",
        files={
            "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\n"
            "RUN chmod 777 /workspace\n"
        },
    )
    answer = '{"current_a": 2.0, "power_w": 24.0}'
    agent = project.path / "my_agent.py"
    agent.write_text(f"open('output.jsonl', 'w').write('{answer}')")
    agent.chmod(0o600)
    mine = ("--aec-agent=command:python3 my_agent.py", "--aec-agent-files=my_agent.py")
    project.run("--aec-backend=docker", *mine).assert_outcomes(passed=1)


def test_a_task_without_a_dockerfile_runs_in_the_image_it_names(pytester: pytest.Pytester) -> None:
    project = Project(pytester, ("--aec-backend=docker",))
    project.task(toml='[environment]\ndocker_image = "python:3.11-slim"\n')
    project.run().assert_outcomes(passed=1)
    assert project.record()["environment"]["image"] == "python:3.11-slim"
    assert containers_of(project.path) == []


def test_what_a_dead_worker_left_is_removed_by_the_run_itself(pytester: pytest.Pytester) -> None:
    project = Project(pytester, ("-n2",))
    dockerfile = {"environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\n"}
    project.task("civil/good", files=dockerfile)
    project.task("civil/dies", files=dockerfile)
    project.pytester.makeconftest(
        """
        import os, pytest

        @pytest.fixture
        def aec_execution(aec_execution, aec_task):
            if aec_task.task_id == "civil/dies":
                os.kill(os.getpid(), 9)
            return aec_execution
        """
    )
    result = project.run("--aec-backend=docker")
    assert "1 passed, 1 error" in result.stdout.str()
    validities = sorted(record["evaluation"]["validity"] for record in project.records())
    assert validities == ["crashed", "scored"]
    assert containers_of(project.path) == []


def test_what_was_left_in_one_place_can_be_verified_in_another(
    pytester: pytest.Pytester,
) -> None:
    project = Project(pytester, ("-n2",))
    project.task(
        toml="[environment]\nallow_internet = false\n",
        solve="rm removed.txt; echo mine > given.txt; ln -s given.txt link",
        test_sh='test "$(ls)" = "$(printf "given.txt\\nlink")" && grep -q mine link\n'
        "echo $((1 - $?)) > /logs/verifier/reward.txt\n",
        files={
            "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\nCOPY *.txt ./\n",
            "environment/given.txt": "theirs\n",
            "environment/removed.txt": "theirs\n",
        },
    )
    project.run("--aec-backend=docker", "--aec-experiment-id=one").assert_outcomes(passed=1)
    project.run("--aec-evaluate=one", "--aec-experiment-id=two").assert_outcomes(passed=1)
    project.run("--aec-evaluate=two", "--aec-backend=docker").assert_outcomes(passed=1)
    backends = {record["experiment_id"][:3]: record["environment"] for record in project.records()}
    assert {name: found["backend"] for name, found in backends.items()} == {
        "one": "docker",
        "two": "local",
        "eva": "docker",
    }
    assert containers_of(project.path) == []


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_is_replayed_is_verified_and_heard(pytester: pytest.Pytester, kind: str) -> None:
    project = Project(pytester, ())
    dockerfile = {"environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\n"}
    project.task(test_sh="echo judging; python3 /tests/verify.py", files=dockerfile)
    given = project.path / ("given/output.jsonl" if kind == "directory" else "given")
    given.parent.mkdir(exist_ok=True)
    given.write_text('{"power_w": 24.0}')
    result = project.run("--aec-backend=docker", "--aec-agent=replay:given", "-s")
    result.assert_outcomes(failed=1)
    assert project.record()["evaluation"]["reward"] == 0.35
    assert "judging" in result.stdout.lines
