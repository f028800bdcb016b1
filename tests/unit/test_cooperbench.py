"""CooperBench's own examples, on our backends."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench.cooperbench import EvalBackend, Sandbox, get_backend
from pytest_aecbench.errors import BackendError, SandboxGone, SettingsError


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.needs("docker"))])
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> EvalBackend:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return get_backend(request.param)


@pytest.fixture
def sandbox(backend: EvalBackend) -> Iterator[Sandbox]:
    made = backend.create_sandbox(image="python:3.11-slim", timeout=600, workdir="/workspace")
    yield made
    made.terminate()


def test_a_command_gives_its_exit_code_and_output(sandbox: Sandbox) -> None:
    result = sandbox.exec("bash", "-c", "python3 --version; echo err >&2; exit 3")
    assert result.returncode == 3
    assert result.stdout_read().startswith("Python 3.")
    assert result.stderr_read() == "err\n"
    assert result.stdout_read().startswith("Python 3.")


def test_arguments_arrive_as_they_are(sandbox: Sandbox) -> None:
    odd = ["a b", "$HOME", "'", '"', "", "*", "é", "-n"]
    shown = sandbox.exec("printf", "%s|", *odd).stdout_read()
    assert shown == "".join(f"{argument}|" for argument in odd)


def test_commands_share_a_working_directory(sandbox: Sandbox) -> None:
    assert sandbox.exec("touch", "agent.patch").returncode == 0
    assert sandbox.exec("ls", "/workspace").stdout_read() == "agent.patch\n"


def test_a_failed_command_is_a_result(sandbox: Sandbox) -> None:
    assert sandbox.exec("false").returncode == 1
    assert sandbox.exec("no-such-program", "tests/").returncode == 127


def test_the_working_directory_can_be_chosen(backend: EvalBackend) -> None:
    sandbox = backend.create_sandbox("python:3.11-slim", workdir="/srv/project")
    try:
        assert sandbox.exec("pwd").stdout_read() == "/srv/project\n"
    finally:
        sandbox.terminate()


def test_the_timeout_bounds_the_sandboxs_time(backend: EvalBackend) -> None:
    sandbox = backend.create_sandbox("python:3.11-slim", timeout=2)
    try:
        started = time.monotonic()
        result = sandbox.exec("bash", "-c", "echo part; sleep 1000")
        assert time.monotonic() - started < 20
        assert (result.returncode, result.stdout_read()) == (124, "part\n")
        with pytest.raises(SandboxGone, match=r"^exec: the sandbox's timeout of 2 s has passed$"):
            sandbox.exec("true")
    finally:
        sandbox.terminate()


def test_a_terminated_sandbox_is_gone_and_leaves_nothing(
    backend: EvalBackend, tmp_path: Path
) -> None:
    sandbox = backend.create_sandbox("python:3.11-slim")
    sandbox.terminate()
    sandbox.terminate()
    with pytest.raises(SandboxGone):
        sandbox.exec("true")
    assert list(tmp_path.glob("aecbench-*/homes/*")) == []


def test_no_command_is_one_line(sandbox: Sandbox) -> None:
    with pytest.raises(BackendError, match=r"^exec: no command; give a command and its arguments$"):
        sandbox.exec()


def test_an_unknown_backend_is_one_line() -> None:
    with pytest.raises(SettingsError, match=r"^get_backend: 'podman' is not known; use one of .*"):
        get_backend("podman")
