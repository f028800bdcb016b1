"""Trials side by side in one process: fixtures, reports and options work as they do alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.host.slots import slot
from tests.costs import at_night, patience
from tests.project import SOLVE, Project
from tests.stopping import processes, wait_until

LANES = "--aec-concurrency=8"

# A local backend that notes how many of its sandboxes there are, and lets agents meet: none goes on
# before as many are there as MEET says.
COUNTING = """
import os, threading, time
from pathlib import Path

from pytest_aecbench.backends.local import LocalBackend

HERE = Path(__file__).parent


class Counting(LocalBackend):
    def __init__(self, *args):
        super().__init__(*args)
        self.at_once = self.most = self.launched = 0
        self.changed = threading.Condition()
        self.barrier = threading.Barrier(int(os.environ.get("MEET", "1")))

    def launch_trial(self, **kwargs):
        with self.changed:
            self.launched += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            (HERE / "most").write_text(f"{self.most} {self.launched}")
        return super().launch_trial(**kwargs)

    def execute_trial(self, *, handle, request):
        if "/solution" in request.uploads:
            self.barrier.wait(30)
        return super().execute_trial(handle=handle, request=request)

    def teardown(self, *, handle):
        with self.changed:
            self.at_once -= 1
        super().teardown(handle=handle)


def pytest_aecbench_make_backend(config, name):
    return Counting() if name == "counting" else None
"""


# One sandbox for each trial.
SHARED = '[verifier]\nenvironment_mode = "shared"\n'


def write_tasks(project: Project, count: int, **task: Any) -> None:
    for number in range(count):
        project.task(f"civil/t{number}", toml=SHARED, **task)


def add_conftest(project: Project, text: str, where: str = "") -> None:
    path = project.path / where / "conftest.py"
    before = path.read_text() if path.exists() else ""
    path.write_text(before + textwrap.dedent(text))


def most_at_once(project: Project) -> tuple[int, int]:
    """Return how many sandboxes there were at once, and in all."""
    most, launched = (project.path / "most").read_text().split()
    return int(most), int(launched)


def run(project: Project, *arguments: str) -> pytest.RunResult:
    return project.run(LANES, "--aec-backend=counting", *arguments)


@pytest.fixture
def counting(project: Project) -> Project:
    add_conftest(project, COUNTING)
    return project


def test_trials_run_side_by_side_and_the_header_says_so(
    counting: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEET", "6")
    write_tasks(counting, 6)
    result = run(counting)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["aec: up to 8 trials at once in this process"])
    assert most_at_once(counting) == (6, 6)


def test_no_more_than_asked_for_run_at_once(counting: Project) -> None:
    write_tasks(counting, 6)
    counting.run("--aec-concurrency=2", "--aec-backend=counting").assert_outcomes(passed=6)
    assert most_at_once(counting)[0] <= 2


def test_slots_are_those_of_the_machine(counting: Project) -> None:
    write_tasks(counting, 4)
    with slot("counting", 3), slot("counting", 3):
        counting.run("--aec-concurrency=3", "--aec-backend=counting").assert_outcomes(passed=4)
    assert most_at_once(counting)[0] == 1


@pytest.mark.parametrize("arguments", [("-n0",), ("-n2",)])
def test_with_n_nothing_changes(counting: Project, arguments: tuple[str, ...]) -> None:
    write_tasks(counting, 3)
    result = run(counting, *arguments)
    result.assert_outcomes(passed=3)
    assert "in this process" not in result.stdout.str()


def test_a_backend_that_is_not_thread_safe_runs_one_trial_at_a_time(counting: Project) -> None:
    write_tasks(counting, 3)
    add_conftest(counting, "Counting.thread_safe = False\n")
    result = run(counting)
    result.assert_outcomes(passed=3)
    line = "aec: one trial at a time; Counting is not thread_safe, use -n"
    result.stdout.fnmatch_lines([line])
    assert most_at_once(counting)[0] == 1


@pytest.mark.parametrize("option", ["--pdb", "--trace"])
def test_a_debugger_is_refused(counting: Project, option: str) -> None:
    write_tasks(counting, 1)
    result = run(counting, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = f"{option}: debugs one trial at a time; leave out --aec-concurrency"
    assert line in result.stderr.str()


def test_more_trials_than_files_can_be_open_are_refused(counting: Project) -> None:
    write_tasks(counting, 1)
    result = counting.run("--aec-concurrency=1000000000", "--aec-backend=counting")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--aec-concurrency: 1000000000 trials at once need" in result.stderr.str()


OVERRIDE = """
    import logging, pytest

    @pytest.fixture(scope="module", autouse=True)
    def shared(request):
        log("set up", request.node.path.parent.name)
        yield
        log("torn down", request.node.path.parent.name)

    @pytest.fixture
    def aec_sandbox(aec_sandbox, request):
        name = request.node.nodeid
        print("before", name)
        logging.getLogger("mine").warning("logged by %s", name)
        result = aec_sandbox.execute("echo from the sandbox")
        print("after", name, result.stdout)
        return aec_sandbox

    def log(what, name):
        with open(LOG, "a") as file:
            file.write(f"{what} {name}\\n")
    """


@pytest.mark.parametrize("capture", ["fd", "sys", at_night("tee-sys")])
def test_an_override_runs_for_all_at_once_and_its_output_is_with_its_trial(
    counting: Project, monkeypatch: pytest.MonkeyPatch, capture: str
) -> None:
    monkeypatch.setenv("MEET", "6")
    write_tasks(counting, 3)
    log = counting.path / "log"
    text = textwrap.dedent(OVERRIDE).replace("LOG", repr(str(log)))
    (counting.path / "tasks/conftest.py").write_text(text)
    result = run(counting, "--aec-repetitions=2", "-rP", f"--capture={capture}")
    result.assert_outcomes(passed=6)
    assert most_at_once(counting) == (6, 6)
    lines = log.read_text().splitlines()
    for name in ("t0", "t1", "t2"):
        assert [line for line in lines if line.endswith(name)] == [
            f"set up {name}",
            f"torn down {name}",
        ]
    shown = result.stdout.str()
    for number in range(3):
        for repetition in (1, 2):
            name = f"tasks/civil/t{number}/task.toml::trial[oracle-{repetition}]"
            task = name.partition("/task")[0].removeprefix("tasks/")
            section = shown.partition(f"{task}[oracle-{repetition}] __")[2].partition("\n___")[0]
            assert section.count("before ") == section.count("after ") == 1
            assert f"before {name}" in section
            assert f"after {name} from the sandbox" in section
            assert section.count("logged by") == 1
            assert f"logged by {name}" in section


def test_parametrised_fixtures_of_a_module_have_one_value_at_a_time(counting: Project) -> None:
    write_tasks(counting, 2)
    add_conftest(
        counting,
        """
        import pytest
        alive = set()

        @pytest.fixture(scope="module", params=["x", "y"], autouse=True)
        def flavour(request):
            key = request.node.path
            assert key not in alive
            alive.add(key)
            yield request.param
            alive.remove(key)

        @pytest.fixture
        def aec_sandbox(aec_sandbox, flavour, request):
            aec_sandbox.execute("sleep 0.1")
            assert flavour in request.node.name
            return aec_sandbox
        """,
        "tasks",
    )
    run(counting, "--aec-repetitions=2").assert_outcomes(passed=8)
    assert most_at_once(counting)[0] >= 2


FIXTURES = """
    import logging, os, warnings
    import pytest

    patched = []

    def pytest_sessionfinish():
        assert len(patched) == 6
        assert not any(hasattr(item, "patched") for item in patched)

    @pytest.fixture
    def aec_execution(
        aec_trial, aec_sandbox, aec_agent, capsys, caplog, request, recwarn, monkeypatch
    ):
        name = request.node.nodeid
        monkeypatch.setattr(request.node, "patched", name, raising=False)
        print("printed", name)
        logging.getLogger().warning("logged %s", name)
        warnings.warn(UserWarning(f"recorded {name}"))
        aec_sandbox.execute("sleep 0.2")
        assert capsys.readouterr().out == f"printed {name}\\n"
        assert [one.getMessage() for one in caplog.records] == [f"logged {name}"]
        assert [str(one.message) for one in recwarn] == [f"recorded {name}"]
        assert os.environ["PYTEST_CURRENT_TEST"] == f"{name} (setup)"
        assert request.node.patched == name
        patched.append(request.node)
        from pytest_aecbench.trials import stages
        return stages.attempt(aec_trial, aec_sandbox, aec_agent)
    """


def test_fixtures_of_pytest_are_those_of_the_trial(counting: Project) -> None:
    write_tasks(counting, 3)
    add_conftest(counting, FIXTURES, "tasks")
    run(counting, "--aec-repetitions=2").assert_outcomes(passed=6)
    assert most_at_once(counting)[0] >= 2


def test_warnings_and_threads_belong_to_their_trial(counting: Project) -> None:
    write_tasks(counting, 3)
    add_conftest(
        counting,
        """
        import logging, warnings
        from pytest_aecbench.agents import AgentResult

        class Loud:
            def __init__(self, spec): pass
            def run(self, task, sandbox, limits):
                name = task.path.name
                print("printed in", name)
                logging.getLogger("agent").warning("logged in %s", name)
                sandbox.execute("sleep 0.2")
                warnings.warn(UserWarning(f"warned in {name}"))
                return AgentResult("completed")

        def pytest_aecbench_make_agent(config, spec):
            return Loud(spec) if spec.harness == "loud" else None
        """,
    )
    result = run(counting, "--aec-agent=loud", "-Wdefault::UserWarning")
    result.assert_outcomes(failed=3, warnings=3)
    shown = result.stdout.str()
    for number in range(3):
        section = shown.partition(f"civil/t{number}[loud-1] __")[2].partition("\n___")[0]
        assert section.count("printed in") == 1
        assert f"printed in t{number}" in section
        assert section.count("logged in") == 1
        assert f"logged in t{number}" in section
        warned = shown.partition("warnings summary")[2]
        assert f"tasks/civil/t{number}/task.toml::trial[[]loud-1]".replace("[[]", "[") in warned
        assert warned.count(f"warned in t{number}") == 1


def test_ordinary_tests_run_beside_trials_and_share_session_fixtures(counting: Project) -> None:
    write_tasks(counting, 3)
    add_conftest(
        counting,
        """
        import pytest
        made = []

        @pytest.fixture(scope="session", autouse=True)
        def whole():
            made.append(1)
            assert made == [1]
            yield 4711
        """,
    )
    (counting.path / "tasks/test_ordinary.py").write_text(
        "def test_it(whole, tmp_path): assert whole == 4711\ndef test_other(): pass\n"
    )
    run(counting).assert_outcomes(passed=5)


def test_skips_and_failing_fixtures_launch_nothing(counting: Project) -> None:
    write_tasks(counting, 5)
    add_conftest(
        counting,
        """
        import pytest

        def pytest_runtest_setup(item):
            if "t0" in item.nodeid:
                pytest.skip("in a hook")

        def pytest_collection_modifyitems(items):
            for item in items:
                if "t1" in item.nodeid:
                    item.add_marker(pytest.mark.skip("marked"))
                if "t3" in item.nodeid:
                    item.add_marker(pytest.mark.xfail)

        @pytest.fixture(autouse=True)
        def fails(request):
            assert "t2" not in request.node.nodeid
        """,
    )
    result = run(counting)
    result.assert_outcomes(passed=1, xpassed=1, skipped=2, errors=1)
    assert most_at_once(counting)[1] == 2


@pytest.mark.parametrize("option", ["-x", "--maxfail=1", "--stepwise"])
def test_a_run_that_stops_at_a_failure_records_what_was_under_way(
    counting: Project, option: str
) -> None:
    counting.task("civil/bad", solve="true")
    write_tasks(counting, 3, solve=f"sleep 30; {SOLVE}")
    result = run(counting, option, "--aec-experiment-id=mine", "--aec-gate=mean>=0")
    assert result.ret != 0
    assert "aec gate" not in result.stdout.str()
    assert "interrupted 3" in result.stdout.str()
    validities = sorted(record["evaluation"]["validity"] for record in counting.records())
    assert validities == ["interrupted"] * 3 + ["scored"]
    assert list(counting.path.glob("artefacts/ledger/*/.*")) == []
    write_tasks(counting, 3)
    run(counting, "--aec-resume=mine").assert_outcomes(failed=1, passed=3)


def test_options_of_pytest_work_as_ever(counting: Project) -> None:
    counting.task("civil/bad", solve="true")
    write_tasks(counting, 3, solve=f"sleep 0.3; {SOLVE}")
    result = run(counting, "-v", "--durations=0", "--junitxml=out.xml", "--aec-gate=mean>=0.5")
    result.assert_outcomes(passed=3, failed=1)
    assert result.ret == 0
    for number in range(3):
        result.stdout.fnmatch_lines([f"tasks/civil/t{number}/task.toml::trial?oracle-1? PASSED*"])
    cases = list(ET.parse(counting.path / "out.xml").iter("testcase"))
    times = [float(case.get("time", 0)) for case in cases if "t0" in str(case.get("classname"))]
    assert times
    assert all(0.3 <= time < 10 for time in times)
    again = run(counting, "--lf")
    again.assert_outcomes(failed=1)
    quiet = run(counting, "-p", "no:logging", "-s", "-k", "not bad")
    quiet.assert_outcomes(passed=3)
    plan = run(counting, "--setup-plan")
    assert "SETUP" in plan.stdout.str()


def test_checks_run_side_by_side(counting: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEET", "3")
    write_tasks(counting, 3)
    result = run(counting, "--aec-check=solution,empty")
    result.assert_outcomes(passed=6)
    assert most_at_once(counting)[0] >= 3


SAYS = "for n in 1 2 3; do echo line $n of NAME; sleep 0.05; done; "


def test_with_s_the_name_of_its_trial_is_before_each_line(
    counting: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEET", "3")
    for name in ("a", "b", "c"):
        solve = SAYS.replace("NAME", name) + SOLVE
        counting.task(f"civil/{name}", toml=SHARED, solve=solve)
    result = run(counting, "-s")
    result.assert_outcomes(passed=3)
    said = [line for line in result.stdout.lines if " of " in line and "line" in line]
    wanted = [f"civil/{n}[oracle-1] | line {i} of {n}" for n in "abc" for i in (1, 2, 3)]
    assert sorted(said) == wanted


def test_with_s_a_trial_that_runs_alone_has_no_name_before_its_lines(counting: Project) -> None:
    counting.task("civil/a", toml=SHARED, solve=SAYS.replace("NAME", "a") + SOLVE)
    result = counting.run("-s", "--aec-backend=counting")
    assert "line 1 of a" in result.stdout.lines


@pytest.mark.parametrize("option", ["-Werror", "--aec-progress=0.1"])
def test_options_that_watch_a_run_see_nothing_odd(counting: Project, option: str) -> None:
    write_tasks(counting, 3, solve=f"sleep 0.3; {SOLVE}")
    result = run(counting, option)
    result.assert_outcomes(passed=3)
    if "progress" in option:
        result.stdout.fnmatch_lines(["aec: * of 3 trials done*3 running*"])


def test_the_time_of_pytest_timeout_is_that_of_each_trial(counting: Project, seconds: str) -> None:
    write_tasks(counting, 4, solve=f"sleep {seconds}")
    counting.task("civil/quick")
    result = run(counting, "--timeout=3")
    result.assert_outcomes(passed=1, errors=4)
    assert result.duration < 30
    assert "Timeout (>3.0s) from pytest-timeout." in result.stdout.str()
    validities = sorted(record["evaluation"]["validity"] for record in counting.records())
    assert validities == ["error"] * 4 + ["scored"]
    assert list(counting.path.glob("artefacts/ledger/*/.*")) == []


FLAKY = """
import itertools
numbers = itertools.count()
launch = Counting.launch_trial

def launch_trial(self, **kwargs):
    if next(numbers) % 5 < 2:
        from pytest_aecbench.errors import LaunchError
        raise LaunchError("no room")
    return launch(self, **kwargs)

Counting.launch_trial = launch_trial
"""


def test_trials_are_tried_again_and_reused(counting: Project) -> None:
    write_tasks(counting, 4)
    add_conftest(counting, FLAKY)
    arguments = ("--aec-repetitions=3", "--aec-retries=30", "--aec-retry-delay=0.01")
    result = run(counting, *arguments, "--aec-experiment-id=mine")
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] == 12
    records = counting.records()
    assert len(records) == 12 + outcomes["retried"]
    assert sum(record["evaluation"]["validity"] == "scored" for record in records) == 12
    again = run(counting, *arguments, "--aec-resume=mine")
    again.assert_outcomes(passed=12)
    assert len(counting.records()) == len(records)


BUILD_FAILS_ONCE = """
failed = set()
build = Counting.build_environment

def build_environment(self, *, task_dir):
    if task_dir not in failed:
        failed.add(task_dir)
        from pytest_aecbench.errors import BackendError
        raise BackendError("registry is down")
    with (HERE / f"built-{task_dir.name}").open("a") as file:
        file.write("x")
    return build(self, task_dir=task_dir)

Counting.build_environment = build_environment
"""


@pytest.mark.parametrize("lanes", [LANES, "--aec-concurrency=1"])
def test_a_failed_build_is_made_again_once_for_all_trials_of_a_task(
    counting: Project, lanes: str
) -> None:
    write_tasks(counting, 2)
    add_conftest(counting, BUILD_FAILS_ONCE)
    arguments = ("--aec-repetitions=3", "--aec-retries=1", "--aec-retry-delay=0.01")
    counting.run(lanes, "--aec-backend=counting", *arguments).assert_outcomes(passed=6)
    for number in range(2):
        assert (counting.path / f"built-t{number}").read_text() == "x"


def start(project: Project, count: int, *arguments: str) -> subprocess.Popen[str]:
    """Start a run of trials that do not end, and wait until all are under way."""
    argv = [sys.executable, "-m", "pytest", "tasks", "--aec-backend=counting"]
    process = subprocess.Popen(
        [*argv, f"--aec-concurrency={count}", *arguments],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: len(list(project.path.glob("jobs/*/*/workspace/started"))) == count)
    return process


def interrupted(project: Project, own_machine: Path) -> int:
    """Return how many trials were recorded as interrupted; nothing else is left of them."""
    records = project.records()
    assert {record["evaluation"]["validity"] for record in records} == {"interrupted"}
    assert {record["evaluation"]["error"]["phase"] for record in records} == {"agent"}
    assert list(project.path.glob("artefacts/ledger/*/.*")) == []
    assert list((own_machine / "homes").iterdir()) == []
    return len(records)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, at_night(signal.SIGTERM)])
def test_all_trials_in_flight_are_recorded_and_removed_when_a_run_is_stopped(
    counting: Project, own_machine: Path, seconds: str, number: signal.Signals
) -> None:
    write_tasks(counting, 20, solve=f"touch started; sleep {seconds}")
    process = start(counting, 20)
    os.kill(process.pid, number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert interrupted(counting, own_machine) == 20
    assert re.search(r"=== 20 interrupted in [\d.]+s ", output), output


@pytest.mark.slow
@pytest.mark.nightly
def test_two_hundred_trials_in_flight_are_stopped_within_ten_seconds(
    counting: Project, own_machine: Path, seconds: str
) -> None:
    write_tasks(counting, 200, solve=f"touch started; sleep {seconds}")
    process = start(counting, 200)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    took_sec = time.monotonic() - began
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert interrupted(counting, own_machine) == 200
    assert list(processes("cmdline", f"sleep\0{seconds}\0")) == []
    assert took_sec < 10 * patience()


@pytest.mark.slow
def test_a_second_ctrl_c_ends_the_run_at_once_and_loses_nothing(
    counting: Project, seconds: str
) -> None:
    add_conftest(counting, NEVER_ENDS)
    write_tasks(counting, 5, solve=f"touch started; sleep {seconds}")
    process = start(counting, 5)
    os.kill(process.pid, signal.SIGINT)
    wait_until((counting.path / "ending").exists, "teardown")
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "wall time" not in output
    assert interrupted_or_noted(counting) == 5


NEVER_ENDS = """
def teardown(self, *, handle):
    (HERE / "ending").touch()
    time.sleep(600)

Counting.teardown = teardown
"""


def interrupted_or_noted(project: Project) -> int:
    """Return how many trials have a record, or a note from which the next run makes one."""
    notes = list(project.path.glob("artefacts/ledger/*/.*.running"))
    return len({record["trial_id"] for record in project.records()} | {n.name for n in notes})


@pytest.mark.slow
def test_trials_of_a_killed_run_are_recorded_by_the_next(counting: Project, seconds: str) -> None:
    write_tasks(counting, 20, solve=f"touch started; sleep {seconds}")
    process = start(counting, 20)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    write_tasks(counting, 20)
    result = run(counting, "-k", "t0 or t1")
    result.stdout.fnmatch_lines(["aec: recorded 20 trials that died with a run"])


TURNS = """
import time, statistics
from pytest_aecbench.host.hub import Hub

switch, turns = Hub._switch, []

def timed(self, *args):
    began = time.thread_time()
    switch(self, *args)
    turns.append(time.thread_time() - began)

Hub._switch = timed

def pytest_unconfigure(config):
    if turns:
        (HERE / "turns").write_text(f"{statistics.median(turns)} {len(turns)}")
"""


def test_a_turn_on_the_floor_is_short(counting: Project) -> None:
    write_tasks(counting, 5)
    add_conftest(counting, TURNS)
    counting.pytester.runpytest_subprocess(
        "tasks", LANES, "--aec-backend=counting", "--aec-repetitions=4"
    ).assert_outcomes(passed=20)
    median, count = (counting.path / "turns").read_text().split()
    assert int(count) >= 20 * 5
    assert float(median) < 0.005
