"""The shipped tasks through each vendor's SDK: the same rewards as on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends.local import LocalBackend
from tests.costs import at_night
from tests.e2e.shipped import ROOT, expected, one_or_all, rewards
from tests.project import SOLVE, Project
from tests.standins.executor import Executor

pytestmark = pytest.mark.needs("namespaces")

SERVERS = {"daytona": "DaytonaServer", "e2b": "E2BServer", "modal": "ModalServer"}


@contextmanager
def serving(vendor: str, backend: Any, patch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Run a vendor's stand-in over one of our backends, and lead the vendor's SDK there."""
    executor = Executor(backend)
    server = getattr(import_module(f"tests.standins.{vendor}"), SERVERS[vendor])(executor)
    for name, value in server.environment().items():
        patch.setenv(name, value)
    patch.setenv("PYTHONPATH", str(ROOT))
    try:
        yield server
    finally:
        server.close()
        executor.close()


def plugins_for(vendor: str) -> list[str]:
    return ["-p", "tests.standins.plaintext"] if vendor == "daytona" else []


@pytest.mark.slow
@one_or_all
@pytest.mark.parametrize("vendor", ["e2b", at_night("daytona"), at_night("modal")])
def test_rewards_are_those_of_the_local_backend(
    vendor: str, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(vendor, LocalBackend("namespaces"), monkeypatch) as server:
        workers = min(4, len(names) - 1)  # each imports the SDK anew
        arguments = [f"--aec-backend={vendor}", f"-n{workers}", *plugins_for(vendor)]
        assert rewards(tmp_path / vendor, *arguments, names=names) == expected(names)
        assert server.sandboxes == {}


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["e2b", at_night("daytona"), at_night("modal")])
def test_an_agent_brings_its_files(
    vendor: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(pytester, (f"--aec-backend={vendor}", *plugins_for(vendor)))
    project.task(files={"environment/Dockerfile": "FROM x:1\nWORKDIR /workspace\n"})
    (project.path / "agent").mkdir()
    (project.path / "agent/main.sh").write_text(SOLVE)
    mine = ("--aec-agent=command:bash agent/main.sh", "--aec-agent-files=agent")
    with serving(vendor, LocalBackend("namespaces"), monkeypatch):
        result = pytester.runpytest_subprocess(*project.mode, "tasks", *mine)
    result.assert_outcomes(passed=1)


@pytest.mark.needs("docker")
@pytest.mark.parametrize("vendor", ["e2b", at_night("daytona"), at_night("modal")])
def test_the_dockerfile_that_was_uploaded_is_really_built(
    vendor: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_aecbench.backends.docker import DockerBackend

    project = Project(pytester, (f"--aec-backend={vendor}", *plugins_for(vendor)))
    project.task(
        solve="cat /built.txt given.txt > all.txt",
        test_sh='test "$(cat all.txt)" = "$(printf "built\\ngiven")"\n'
        "echo $((1 - $?)) > /logs/verifier/reward.txt\n",
        files={
            "environment/Dockerfile": "FROM python:3.11-slim\nRUN echo built > /built.txt\n"
            "WORKDIR /workspace\nCOPY given.txt ./\n",
            "environment/given.txt": "given\n",
        },
    )
    with serving(vendor, DockerBackend(), monkeypatch) as server:
        result = pytester.runpytest_subprocess(*project.mode, "tasks")
        result.assert_outcomes(passed=1)
        assert server.sandboxes == {}
