"""A vendor that does not answer: the run says what it asks for, and stops in a stated time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.project import Project


@pytest.fixture(params=["closed", "silent"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address at which nothing listens, and one that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "silent":
            listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.slow
def test_an_unreachable_vendor_stops_the_run_in_the_time_that_was_said(
    project: Project, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("E2B_API_KEY", "e2b_" + "0" * 40)
    monkeypatch.setenv("E2B_API_URL", address)
    project.task()
    (project.path / "conftest.py").write_text(
        "from pytest_aecbench.backends.remote import backend\nbackend.PREFLIGHT_SEC = 2.0\n"
    )
    start = time.monotonic()
    # In a process of its own, because protobuf cannot be imported twice.
    result = project.pytester.runpytest_subprocess("tasks", "--aec-backend=e2b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stdout.lines.count("aec: asking e2b for the account; this takes 2 s at most") == 1
    (line,) = [line for line in result.stderr.lines if line]
    assert line.startswith(("ERROR: e2b cannot be reached; ", "ERROR: e2b: no answer within 2 s; "))
    assert line.endswith("; check the network, then run 'aec-bench doctor'")
    assert time.monotonic() - start < 2 + 28  # for imports on a slow machine
    assert project.records() == []
