"""Limits of the process that are too low for a run are one line, not an internal error."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys

import pytest

from pytest_aecbench.host.limits import exhausted_limit
from tests.project import Project


def run_with(project: Project, limit: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the project's trials with so many open files allowed."""
    command = f'ulimit -n {limit}; exec "$0" -m pytest tasks "$@"'
    return subprocess.run(
        ["bash", "-c", command, sys.executable, *options],
        cwd=project.path,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(("limit", "options"), [(16, []), (20, []), (24, []), (30, ["-n", "8"])])
def test_too_few_open_files_refuse_the_run_in_one_line(
    project: Project, limit: int, options: list[str]
) -> None:
    project.task()
    result = run_with(project, limit, *options)
    assert "INTERNALERROR" not in result.stdout
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    expected = (
        f"the run cannot begin: ulimit -n is {limit}, which is too low; allow more open files"
    )
    assert result.stderr.strip() == f"ERROR: {expected}"


ONE_IS_LEFT = """
import os, resource, sys

# The limit is per user, and root has none.
uid = 100_000 + os.getpid()
os.chown(".", uid, uid)
for entry in os.walk("."):
    for name in (*entry[1], *entry[2]):
        os.chown(os.path.join(entry[0], name), uid, uid)
os.execvp("setpriv", [
    "setpriv", f"--reuid={uid}", "--clear-groups",
    "--inh-caps=+dac_read_search,+dac_override", "--ambient-caps=+dac_read_search,+dac_override",
    "prlimit", f"--nproc={sys.argv[1]}", sys.executable, "-m", "pytest", "tasks", *sys.argv[2:],
])
"""


@pytest.mark.needs("machines")
@pytest.mark.parametrize(
    ("limit", "options"),
    [
        (1, []),
        (1, ["--aec-concurrency=4"]),
        # The run itself and its sandbox could start; the agent's shell could start nothing.
        (5, []),
        (15, ["--aec-concurrency=4"]),
    ],
)
def test_too_few_processes_refuse_the_run_in_one_line(
    project: Project, limit: int, options: list[str]
) -> None:
    project.task()
    result = run_with_processes(project, limit, *options)
    said = f"ulimit -u is {limit}, which is too low; allow more processes and threads"
    assert f"ERROR: local: {said}" in result.stderr, result.stdout
    assert "INTERNALERROR" not in result.stdout
    assert "Traceback" not in result.stderr
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert not project.records()


@pytest.mark.needs("machines")
def test_a_trial_runs_with_the_processes_that_it_needs(project: Project) -> None:
    project.task()
    result = run_with_processes(project, 40)
    assert "1 passed" in result.stdout, result.stdout


def run_with_processes(
    project: Project, limit: int, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run the project's trials as a user who may have so many processes and threads."""
    (project.path / "tmp").mkdir()
    return subprocess.run(
        [sys.executable, "-c", ONE_IS_LEFT, str(limit), *options, "-p", "no:cacheprovider"],
        cwd=project.path,
        env={**os.environ, "TMPDIR": str(project.path / "tmp"), "HOME": str(project.path)},
        capture_output=True,
        text=True,
    )


def test_too_few_processes_are_named_and_other_errors_are_not() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    found = exhausted_limit(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
    assert found == f"ulimit -u is {limit}, which is too low; allow more processes and threads"
    assert exhausted_limit(RuntimeError("can't start new thread")) == found
    assert exhausted_limit(OSError(errno.ENOENT, "")) is None
    assert exhausted_limit(RuntimeError("another one")) is None
