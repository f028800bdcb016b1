"""A disk that fills up or turns read-only in mid-run stops the run with one clear error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.costs import at_night
from tests.plugin.test_model_agents import SUBMIT, call, reply, write_script
from tests.project import Project

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.slow]

TRIALS = 6
# Counts what is spent, and ruins the disk once a first trial has its record.
RUINOUS_BACKEND = """
import os, subprocess
from pathlib import Path

from pytest_aecbench.backends.local import LocalBackend

HERE = Path(__file__).parent


def fill(directory):
    number = 0
    for size in (65536, 4096, 1):
        try:
            while True:
                number += 1
                (directory / f"fill-{os.getpid()}-{number}").write_bytes(bytes(size))
        except OSError:
            pass


class Ruinous(LocalBackend):
    def execute_trial(self, *, handle, request):
        if "/solution" in request.uploads:
            with (HERE / "spent").open("a") as file:
                file.write("x")
        elif "/tests" in request.uploads and list(HERE.glob("artefacts/ledger/*/*.json")):
            disk, how = os.environ["RUIN"].split()
            if how == "fill":
                fill(HERE / disk)
            else:
                command = ["mount", "-o", "remount,ro", HERE / disk]
                subprocess.run(command, capture_output=True)
        return super().execute_trial(handle=handle, request=request)


def pytest_aecbench_make_backend(config, name):
    return Ruinous() if name == "ruinous" else None
"""
# The disk goes with the namespace, so what is on it is copied at the end.
SCRIPT = """
mount -t tmpfs -o size="$1" tmpfs "$2" || exit 99
shift 2
"$@"
code=$?
mkdir after && cp -a artefacts jobs after/
exit $code
"""


def run(project: Project, disk: str, how: str, *arguments: str) -> tuple[int, str]:
    for number in range(TRIALS):
        project.task(f"civil/task-{number}", instruction=f"Task {number}.")
    (project.path / "conftest.py").write_text(RUINOUS_BACKEND)
    environment = {"RUIN": f"{disk} {how}"}
    return run_on_disk(
        project, disk, "256k", "--aec-backend=ruinous", *arguments, environment=environment
    )


def run_on_disk(
    project: Project,
    disk: str,
    size: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run pytest with a small disk at a directory of the project."""
    (project.path / disk).mkdir(parents=True)
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    pytest_argv = [sys.executable, "-m", "pytest", "tasks", *arguments]
    result = subprocess.run(
        ["unshare", *as_root, "--mount", "bash", "-c", SCRIPT, "run", size, disk, *pytest_argv],
        cwd=project.path,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.returncode, result.stdout


@pytest.mark.parametrize("arguments", [(), at_night(("-n2",))], ids=["plain", "n2"])
@pytest.mark.parametrize(
    ("disk", "how", "reason"),
    [
        ("artefacts/ledger", "fill", "No space left on device"),
        at_night("artefacts/ledger", "read-only", "Read-only file system"),
        at_night("jobs", "fill", "No space left on device"),
        ("jobs", "read-only", "Read-only file system"),
    ],
)
def test_a_disk_that_fails_in_mid_run_stops_it(
    project: Project, disk: str, how: str, reason: str, arguments: tuple[str, ...]
) -> None:
    returncode, output = run(project, disk, how, "--junitxml=out.xml", *arguments)
    assert returncode == pytest.ExitCode.INTERRUPTED, output
    (line,) = [line for line in output.splitlines() if "Interrupted: aec: " in line]
    assert f"{disk}" in line.partition(": cannot")[0]
    assert f"cannot be written, {reason}; " in line
    # Once, also where each worker has a trial that cannot be recorded.
    assert sum(line.startswith("LedgerError: /") for line in output.splitlines()) == 1
    assert "<failure" not in (project.path / "out.xml").read_text()
    assert "INTERNALERROR" not in output
    assert "Traceback" not in output
    spent = len((project.path / "spent").read_text())
    assert spent <= (4 if arguments else 2), output
    after = project.path / "after/artefacts/ledger"
    records = [json.loads(path.read_text()) for path in after.glob("*/*.json")]
    assert any(record["evaluation"]["validity"] == "scored" for record in records)
    if disk == "jobs":
        causes = [r["evaluation"]["error"]["cause"] for r in records if r["evaluation"]["error"]]
        assert "ledger" in causes
    for path in after.glob("*/.[!c]*"):  # what could not be recorded is noted, as a whole
        assert path.suffix == ".running", path
        owner, record, *phases = path.read_text().splitlines()
        assert json.loads(owner)
        assert json.loads(record)
        assert phases


@pytest.mark.parametrize("mode", ["separate", "shared"])
@pytest.mark.parametrize("arguments", [(), at_night(("-n1",))], ids=["plain", "n1"])
def test_an_agent_that_fills_the_disk_is_scored_and_the_run_goes_on(
    project: Project, arguments: tuple[str, ...], mode: str
) -> None:
    toml = f'[environment]\nstorage_mb = 2\n[verifier]\nenvironment_mode = "{mode}"\n'
    project.task("civil/a", toml=toml, solve="cat /dev/zero > zeros")
    project.task("civil/b", toml=toml)
    returncode, output = run_on_disk(project, "jobs", "8m", *arguments)
    assert returncode == pytest.ExitCode.TESTS_FAILED, output
    after = project.path / "after/artefacts/ledger"
    records = [json.loads(path.read_text()) for path in after.glob("*/*.json")]
    evaluations = {record["task"]["task_id"]: record["evaluation"] for record in records}
    assert evaluations["civil/a"]["reward"] == 0
    assert evaluations["civil/a"]["cause"] == "agent broke its sandbox: it filled the disk"
    assert evaluations["civil/b"]["reward"] == 1


@pytest.mark.parametrize("mode", ["separate", "shared"])
def test_a_model_agent_whose_sandbox_fills_the_disk_of_its_trajectory_is_scored(
    project: Project, mode: str
) -> None:
    toml = f'[environment]\nstorage_mb = 2\n[verifier]\nenvironment_mode = "{mode}"\n'
    for name in ("a", "b"):
        project.task(f"civil/{name}", toml=toml)
    fill = reply("I fill the disk.", call("bash", command="cat /dev/zero > zeros; seq 5000"))
    agent = f"--aec-agent=tool_loop:{write_script(project, fill, SUBMIT)}"
    returncode, output = run_on_disk(project, "jobs", "8m", agent)
    assert returncode == pytest.ExitCode.TESTS_FAILED, output
    records = (project.path / "after/artefacts/ledger").glob("*/*.json")
    for record in map(json.loads, [path.read_text() for path in records]):
        assert record["evaluation"]["reward"] == 0
        assert record["evaluation"]["cause"] == "agent broke its sandbox: it filled the disk"
        assert record["agent_result"]["end"] == "sandbox_broken"
        assert record["cost"]["calls"] == 1


def test_an_agent_is_not_blamed_for_a_disk_that_is_too_small(project: Project) -> None:
    project.task(toml="[environment]\nstorage_mb = 20\n", solve="cat /dev/zero > zeros")
    returncode, output = run_on_disk(project, "jobs", "8m")
    assert returncode == pytest.ExitCode.INTERRUPTED, output
    assert "No space left on device" in output


# Fills the disk with a neighbour's files while outputs are collected, and then removes them.
CROWDED_BACKEND = (
    RUINOUS_BACKEND.partition("class Ruinous")[0]
    + """
class Crowded(LocalBackend):
    def collect_outputs(self, *, handle):
        found = super().collect_outputs(handle=handle)
        if not (HERE / "filled").exists():
            (HERE / "filled").touch()
            fill(HERE / "jobs")
        return found

    def teardown(self, *, handle):
        for file in (HERE / "jobs").glob("fill-*"):
            file.unlink()
        super().teardown(handle=handle)


def pytest_aecbench_make_backend(config, name):
    return Crowded() if name == "crowded" else None
"""
)


def test_an_agent_is_not_blamed_for_a_disk_that_a_neighbour_has_filled(project: Project) -> None:
    project.task(toml="[environment]\nstorage_mb = 2\n")
    (project.path / "conftest.py").write_text(CROWDED_BACKEND)
    returncode, output = run_on_disk(project, "jobs", "8m", "--aec-backend=crowded")
    assert returncode == pytest.ExitCode.INTERRUPTED, output
    (path,) = (project.path / "after/artefacts/ledger").glob("*/*.json")
    evaluation = json.loads(path.read_text())["evaluation"]
    assert (evaluation["reward"], evaluation["error"]["cause"]) == (None, "ledger")
    assert list((project.path / "after/jobs").glob("*/*/workspace/output.jsonl"))


def test_a_full_disk_for_files_refuses_the_run_before_it_begins(project: Project) -> None:
    project.task()
    (project.path / "jobs").write_text("in the way")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "jobs: cannot be written, " in result.stderr.str()
