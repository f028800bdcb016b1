"""Ctrl-C ends trials at once and leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.project import Project

LONG = "touch started; sleep {0} & sleep {0}"


def start(project: Project, *arguments: str) -> subprocess.Popen[str]:
    """Start pytest on a task that never ends, and wait until its agent works."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "tasks", *arguments],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: list(project.path.glob("jobs/*/*/workspace/started")), process)
    return process


def wait_until(condition: object, process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never happened"
        assert process is None or process.poll() is None, "pytest ended early"
        time.sleep(0.02)


def processes_with(argument: str) -> list[str]:
    """Return the processes that have this argument."""
    found = []
    for pid in filter(str.isdigit, (path.name for path in Path("/proc").iterdir())):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if argument.encode() in arguments:
            found.append(pid)
    return found


@pytest.mark.parametrize("arguments", [(), ("-n2",), ("--aec-local-mode=rewriting",)])
def test_ctrl_c_ends_the_trial_and_leaves_no_process(
    project: Project, arguments: tuple[str, ...]
) -> None:
    seconds = f"3600.{os.getpid()}{len(arguments and arguments[0])}"
    project.task(solve=LONG.format(seconds))
    process = start(project, *arguments)
    assert processes_with(seconds)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert processes_with(seconds) == []


@pytest.mark.parametrize("arguments", [(), ("-n2",), ("--aec-local-mode=rewriting",)])
def test_kill_9_leaves_no_process(project: Project, arguments: tuple[str, ...]) -> None:
    seconds = f"7200.{os.getpid()}{len(arguments and arguments[0])}"
    project.task(solve=LONG.format(seconds))
    process = start(project, *arguments)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not processes_with(seconds))
