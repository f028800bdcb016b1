"""How many trials run at once, on the whole machine, and what -n auto is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.host.slots import cores, slot
from tests.costs import at_night
from tests.project import SOLVE, Project
from tests.stopping import start, wait_until

pytestmark = pytest.mark.slow

SLOW = f"sleep 0.3; {SOLVE}"


def agent_times(records: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return when each trial had its sandbox, at least."""
    from datetime import datetime

    found = []
    for record in records:
        timing = record["timing"]
        end = datetime.fromisoformat(timing["finished_at"].replace("Z", "+00:00")).timestamp()
        found.append((end - timing["agent"], end))
    return found


def most_at_once(records: list[dict[str, Any]]) -> int:
    times = agent_times(records)
    return max(sum(begin <= at < end for begin, end in times) for at, _ in times)


def test_workers_share_the_slots_and_the_wait_is_recorded(project: Project) -> None:
    for name in "abcd":
        project.task(f"civil/{name}", solve=SLOW)
    project.run("-n4", "--aec-concurrency=1").assert_outcomes(passed=4)
    records = project.records()
    assert most_at_once(records) == 1
    waits = sorted(record["timing"]["wait"] for record in records)
    assert waits[-1] > 0.3


def test_two_runs_share_the_slots(project: Project, own_machine: Path) -> None:
    for name in "abc":
        project.task(f"civil/{name}", solve=SLOW)
    command = [sys.executable, "-m", "pytest", "-q", "tasks", "-n2", "--aec-concurrency=1"]
    runs = [
        subprocess.Popen(
            [*command, f"--aec-experiment-id={name}"],
            cwd=project.path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    for run in runs:
        output, _ = run.communicate(timeout=120)
        assert run.returncode == 0, output
    assert len(project.records()) == 6
    assert most_at_once(project.records()) == 1
    assert list((own_machine / "runs").iterdir()) == []


def test_time_spent_waiting_is_charged_to_nobody(project: Project) -> None:
    project.task(toml="[agent]\ntimeout_sec = 20.0\n")
    project.pytester.makeini("[pytest]\ntimeout = 3\n")
    with slot("local", 1):
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "tasks", "--aec-concurrency=1"],
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_until(lambda: list(project.path.glob("artefacts/ledger/*/.*.running")))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    record = project.record()
    assert record["timing"]["wait"] > 3.5
    assert "trial time" in output
    shown = next(line for line in output.splitlines() if "trial time" in line)
    assert float(shown.split("trial time ")[1].split()[0]) < record["timing"]["wait"]


@pytest.mark.parametrize("number", [signal.SIGINT, at_night(signal.SIGTERM)])
def test_a_run_that_waits_ends_at_once_when_told_to(
    project: Project, number: signal.Signals
) -> None:
    project.task()
    with slot("local", 1):
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "tasks", "--aec-concurrency=1"],
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        notes = "artefacts/ledger/*/.*.running"
        wait_until(lambda: any("\nwait" in n.read_text() for n in project.path.glob(notes)))
        os.kill(process.pid, number)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert not project.records()  # it has only waited, which is not an error of the agent's
    assert not list(project.path.glob("artefacts/ledger/*/.*"))
    (resume,) = re.findall(r"^--aec-resume=\S+ runs what is left$", output, re.MULTILINE)
    project.run(resume.split()[0]).assert_outcomes(passed=1)


def test_a_killed_run_frees_its_slots(project: Project) -> None:
    project.task(solve="touch started; sleep 600")
    process = start(project, "--aec-concurrency=1")
    process.kill()
    process.communicate(timeout=60)
    project.task()
    project.run("--aec-concurrency=1").assert_outcomes(passed=1)


BARE = """
    from pytest_aecbench.backends.local import LocalBackend

    class Bare:
        {concurrency}
        def __init__(self):
            self._local = LocalBackend()
        def build_environment(self, *, task_dir):
            return self._local.build_environment(task_dir=task_dir)
        def launch_trial(self, *, image_ref, workspace_dir):
            return self._local.launch_trial(image_ref=image_ref, workspace_dir=workspace_dir)
        def execute_trial(self, *, handle, request):
            return self._local.execute_trial(handle=handle, request=request)
        def collect_outputs(self, *, handle):
            return self._local.collect_outputs(handle=handle)
        def teardown(self, *, handle):
            self._local.teardown(handle=handle)

    def pytest_aecbench_make_backend(config, name):
        return Bare() if name == "bare" else None
    """


def test_a_backend_that_names_no_number_has_no_limit(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(BARE.format(concurrency=""))
    project.run("--aec-backend=bare").assert_outcomes(passed=1)
    assert project.record()["timing"]["wait"] is None
    project.run("--aec-backend=bare", "--aec-concurrency=1").assert_outcomes(passed=1)
    assert sorted(r["timing"]["wait"] is None for r in project.records()) == [False, True]


def test_a_run_begins_with_as_few_sandboxes_as_its_backend_wants(project: Project) -> None:
    for name in "abcd":
        project.task(f"civil/{name}", solve=f"sleep 0.5; {SOLVE}")
    project.pytester.makeconftest(BARE.format(concurrency="first_at_once = 1"))
    project.run("--aec-backend=bare", "-n4", "--aec-concurrency=4").assert_outcomes(passed=4)
    records = sorted(project.records(), key=lambda record: str(record["timing"]["finished_at"]))
    # Its slots double after five seconds, by which the first trials are over.
    assert most_at_once(records[:2]) == 1
    assert any(record["timing"]["wait"] > 0.3 for record in records)


def test_only_processes_with_trials_make_a_backend(project: Project) -> None:
    project.task()
    conftest = BARE.format(concurrency="made = Path(__file__).with_name('made')")
    conftest = conftest.replace("self._local =", "self.made.open('a').write('x'); self._local =")
    conftest = conftest.replace('"bare"', '"local"')  # a name that need not be looked up
    project.pytester.makeconftest(f"from pathlib import Path\n{textwrap.dedent(conftest)}")
    project.run("-n3").assert_outcomes(passed=1)
    # The one that plans the run, and the one that runs it.
    assert (project.path / "made").read_text() == "xx"


@pytest.mark.parametrize(("value", "right"), [("0", "a whole number from 1"), ("x", "a whole")])
def test_a_bad_number_is_one_line(project: Project, value: str, right: str) -> None:
    project.task()
    result = project.run(f"--aec-concurrency={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert right in result.stderr.str()


THREE = "def concurrency(self): return 3"


@pytest.mark.parametrize(
    ("arguments", "workers"),
    [
        (("tasks", "--aec-concurrency=3"), 3),
        (("tasks", "--aec-backend=bare"), 3),
        at_night(("tasks/civil/a/task.toml", "--aec-backend=bare"), 3),
        at_night(("tasks", "-nlogical", "--aec-concurrency=3"), 3),
        (("tasks", "--aec-concurrency=3", "--maxprocesses=2"), 2),
        (("tasks", "--aec-backend=nosuch.Thing", "--collect-only"), None),
    ],
)
def test_auto_is_as_many_workers_as_trials_run_at_once(
    project: Project, arguments: tuple[str, ...], workers: int | None
) -> None:
    project.task("civil/a")
    project.pytester.makeconftest(BARE.format(concurrency=THREE))
    result = project.pytester.runpytest("-nauto", *arguments)
    if workers is None:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
    else:
        assert f"{workers} workers" in result.stdout.str()


@pytest.mark.parametrize(
    "arguments", [(), at_night(("tasks",)), at_night(("tasks/civil",)), ("tasks/civil/a",)]
)
def test_auto_knows_tasks_by_where_they_are(project: Project, arguments: tuple[str, ...]) -> None:
    project.task("civil/a")
    project.pytester.makeini("[pytest]\naec_concurrency = 3\n")
    assert "3 workers" in project.pytester.runpytest("-nauto", *arguments).stdout.str()


def test_auto_is_xdists_own_where_there_are_no_tasks(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.task("civil/a")
    project.pytester.makeini("[pytest]\naec_concurrency = 3\n")
    (project.path / "tests").mkdir()
    (project.path / "tests/test_it.py").write_text("def test_it(): pass\n")
    without = project.pytester.runpytest("-nauto", "tests").stdout.str()
    assert "3 workers" not in without
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "2")
    assert "2 workers" in project.pytester.runpytest("-nauto", "tasks").stdout.str()


def test_auto_imports_nothing_heavy_where_there_are_no_tasks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    pytester.makeconftest(
        """
        import sys

        def pytest_configure(config):
            heavy = {"pydantic", "yaml", "docker", "filelock", "pytest_aecbench.settings.model"}
            if not hasattr(config, "workerinput"):
                assert config.option.tx
                assert not heavy & set(sys.modules), heavy & set(sys.modules)
        """
    )
    result = pytester.runpytest_subprocess("-nauto", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)


def test_local_runs_as_many_as_there_are_cores(project: Project) -> None:
    project.task("civil/a")
    result = project.pytester.runpytest("tasks", "-nauto")
    assert f"{cores()} worker" in result.stdout.str()
