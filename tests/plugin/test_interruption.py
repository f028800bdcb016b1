"""A run that is stopped or killed loses no record and leaves nothing running."""

from __future__ import annotations

import json
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


MODES = [(), ("-n2",), ("--aec-local-mode=rewriting",)]


@pytest.mark.parametrize("arguments", MODES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [True, False], ids=["group", "controller"])
def test_a_stopped_run_leaves_a_record_and_no_process(
    project: Project,
    seconds: str,
    arguments: tuple[str, ...],
    number: signal.Signals,
    to_group: bool,
) -> None:
    project.task(solve=LONG.format(seconds))
    process = start(project, *arguments)
    wait_until(lambda: processes_with(seconds))
    (os.killpg if to_group else os.kill)(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    wait_until(lambda: not processes_with(seconds))
    record = project.record()
    assert record["evaluation"]["validity"] == "interrupted", output
    assert record["evaluation"]["error"]["cause"] == "interrupted"
    assert "= aec: exp-" in output
    assert "errors, not scored: interrupted 1" in output
    assert list(project.path.glob("artefacts/ledger/*/.*")) == []


@pytest.mark.parametrize("arguments", MODES)
def test_kill_9_leaves_no_process_and_the_next_run_records_it(
    project: Project, seconds: str, arguments: tuple[str, ...]
) -> None:
    project.task(solve=LONG.format(seconds))
    process = start(project, *arguments)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not processes_with(seconds))
    project.task()
    result = project.run()
    result.assert_outcomes(passed=1)
    died, scored = sorted(record["evaluation"]["validity"] for record in project.records())
    assert (died in ("crashed", "interrupted"), scored) == (True, "scored")
    if died == "crashed":  # a worker may see its controller go and say so itself
        assert "aec: recorded 1 trials that died with their run" in result.stdout.str()
    assert list(project.path.glob("artefacts/ledger/*/.*")) == []


def worker_of(project: Project) -> int:
    """Return the process that has a trial under way."""

    def notes() -> list[Path]:
        return list(project.path.glob("artefacts/ledger/*/.*.running"))

    wait_until(lambda: len(notes()) == 1)  # the others are about to end
    (note,) = notes()
    return int(json.loads(note.read_text().splitlines()[0])["aecbench.pid"])


def test_a_worker_that_dies_makes_an_error_with_a_record(project: Project, seconds: str) -> None:
    project.task("civil/a")
    project.task("civil/b", solve=LONG.format(seconds))
    project.task("civil/c")
    process = start(project, "-n2", "--junitxml=out.xml")
    wait_until(lambda: len(project.records()) >= 1)
    os.kill(worker_of(project), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert "2 passed, 1 error" in output
    assert "errors, not scored: crashed 1" in output
    validities = sorted(record["evaluation"]["validity"] for record in project.records())
    assert validities == ["crashed", "scored", "scored"]
    assert 'errors="1" failures="0"' in (project.path / "out.xml").read_text()
    wait_until(lambda: not processes_with(seconds))


def test_a_trial_whose_worker_died_is_tried_again(project: Project, seconds: str) -> None:
    solve = f"""
        if [ ! -e {project.path}/again ]; then
            touch started; sleep {seconds}
        fi
        echo '{{"current_a": 2.0, "power_w": 24.0}}' > output.jsonl
        """
    project.task("civil/a", solve=solve)
    project.task("civil/b")
    # Only there can a trial see the project's own directory.
    process = start(project, "-n2", "--aec-retries=1", "--aec-local-mode=rewriting")
    wait_until(lambda: len(project.records()) >= 1)
    (project.path / "again").touch()
    os.kill(worker_of(project), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "2 passed, 1 retried" in output
    assert "3 attempts at 2 trials" in output
    validities = sorted(record["evaluation"]["validity"] for record in project.records())
    assert validities == ["crashed", "scored", "scored"]
