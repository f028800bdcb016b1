"""A run that is stopped or killed loses no record and leaves nothing running."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.costs import at_night
from tests.project import Project
from tests.stopping import PHASES, BlockedRun, TerminalRun, wait_until

pytestmark = pytest.mark.slow

# Both are taken alike: by day each is tried in some of the ways.
SIGNALS = [signal.SIGINT, at_night(signal.SIGTERM), at_night(signal.SIGHUP)]
SOME_PHASES = [phase if phase in ("agent", "teardown") else at_night(phase) for phase in PHASES]
LANES = "--aec-concurrency=4"


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("whom", "arguments", "mode"),
    [
        ("controller", (), "auto"),
        at_night("controller", ("-n2",), "auto"),
        at_night("worker", ("-n2",), "auto"),
        ("group", ("-n2",), "auto"),
        at_night("group", (), "rewriting"),
        ("controller", (LANES,), "auto"),
    ],
    ids=["plain", "controller", "worker", "group", "rewriting", "lanes"],
)
def test_a_stopped_run_leaves_a_record_and_nothing_else(
    project: Project, whom: str, arguments: tuple[str, ...], mode: str, number: signal.Signals
) -> None:
    run = BlockedRun(project, "agent", *arguments, mode=mode)
    run.signal(whom, number, "agent")
    returncode, output = run.end()
    assert returncode == pytest.ExitCode.INTERRUPTED, output
    stopped = [r for r in run.records() if r["evaluation"]["validity"] == "interrupted"]
    assert stopped, output
    assert all(r["evaluation"]["error"]["cause"] == "interrupted" for r in stopped)
    assert set(run.validities()) <= {"interrupted", "scored"}
    assert "= aec: exp-" in output
    assert f"errors, not scored: interrupted {len(stopped)}" in output
    assert f"--aec-resume={stopped[0]['experiment_id']} runs what is left" in output
    run.wait_until_nothing_is_left()


@pytest.mark.parametrize(
    "arguments", [(), at_night(("-n2",)), at_night((LANES,))], ids=["plain", "n2", "lanes"]
)
def test_a_terminal_that_is_closed_stops_the_run_in_good_order(
    project: Project, arguments: tuple[str, ...]
) -> None:
    run = TerminalRun(project, "agent", *arguments)
    run.process_at("agent")
    run.close_terminal()
    run.wait_until_nothing_is_left()
    assert "interrupted" in run.validities()
    assert set(run.validities()) <= {"interrupted", "scored"}, run.records()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("whom", "arguments"),
    [
        ("controller", ()),
        at_night("controller", ("-n2",)),
        at_night("worker", ("-n2",)),
        ("group", ("-n2",)),
        at_night("controller", (LANES,)),
    ],
    ids=["plain", "controller", "worker", "group", "lanes"],
)
def test_a_second_signal_ends_the_run_at_once(
    project: Project, whom: str, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    run = BlockedRun(project, "agent teardown", *arguments)
    run.signal(whom, number, "agent")
    run.signal(whom, number, "teardown")
    if whom == "worker":
        run.let_go()  # one that is alone ends in good order
    returncode, output = run.end()
    assert returncode == pytest.ExitCode.INTERRUPTED, output
    assert ("aec: stopped at once" in output) == (whom != "worker")
    wait_until(lambda: not run.running())
    run.run_again()
    run.wait_until_nothing_is_left()
    validities = run.validities()
    assert validities.count("scored") < 3
    assert set(validities) - {"scored"} <= {"interrupted", "crashed"}


@pytest.mark.parametrize("number", [signal.SIGTERM, at_night(signal.SIGINT)])
@pytest.mark.parametrize(
    "arguments", [(), at_night(("-n2",)), at_night((LANES,))], ids=["plain", "n2", "lanes"]
)
def test_a_first_signal_lets_a_teardown_end(
    project: Project, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    run = BlockedRun(project, "teardown", *arguments)
    run.signal("group", number, "teardown")
    run.let_go()
    returncode, output = run.end()
    assert returncode == pytest.ExitCode.INTERRUPTED, output
    assert "scored" in run.validities()
    assert "crashed" not in run.validities()
    run.wait_until_nothing_is_left()


@pytest.mark.parametrize("phase", SOME_PHASES)
def test_a_worker_killed_in_any_phase_makes_an_error_with_a_record(
    project: Project, phase: str
) -> None:
    run = BlockedRun(project, phase, "-n2", "--junitxml=out.xml")
    run.signal("worker", signal.SIGKILL, phase)
    returncode, output = run.end()
    assert returncode == pytest.ExitCode.TESTS_FAILED, output
    assert 'errors="1" failures="0"' in (project.path / "out.xml").read_text()
    if phase == "teardown":  # what it earned stands
        assert run.validities() == ["scored"] * 3
    else:
        assert run.validities() == ["crashed", "scored", "scored"], output
        (error,) = [r["evaluation"]["error"] for r in run.records() if r["evaluation"]["error"]]
        assert error["phase"] == phase
        assert "errors, not scored: crashed 1" in output
        assert "2 passed, 1 error" in output
    run.run_again()
    run.wait_until_nothing_is_left()
    assert len(run.records()) == 3


@pytest.mark.parametrize("phase", SOME_PHASES)
def test_lanes_stop_in_any_phase(project: Project, phase: str) -> None:
    run = BlockedRun(project, phase, LANES)
    run.signal("controller", signal.SIGINT, phase)
    run.let_go()
    returncode, output = run.end()
    assert returncode == pytest.ExitCode.INTERRUPTED, output
    # One that was stopped before its build has a record, and no files yet.
    files = {path.name for path in project.path.glob("jobs/*/*-*-*-*-*/")}
    assert files <= {record["trial_id"] for record in run.records()}
    assert set(run.validities()) <= {"interrupted", "scored"}
    run.wait_until_nothing_is_left()


@pytest.mark.parametrize(
    "arguments",
    [pytest.param((), id="plain"), at_night(("-n2",), id="n2"), at_night((LANES,), id="lanes")],
)
@pytest.mark.parametrize("phase", SOME_PHASES)
def test_a_run_killed_in_any_phase_is_recorded_by_the_next(
    project: Project, phase: str, arguments: tuple[str, ...]
) -> None:
    run = BlockedRun(project, phase, *arguments)
    run.signal("controller", signal.SIGKILL, phase)
    run.let_go()  # for a worker that has lost its controller
    run.end()
    wait_until(lambda: not run.running())
    begun = len(list(project.path.glob("jobs/*/*-*-*-*-*/")))
    output = run.run_again()
    run.wait_until_nothing_is_left()
    validities = run.validities()
    # In lanes another trial may be noted that has no directory yet.
    assert begun <= len(validities) <= (3 if arguments == (LANES,) else begun), output
    assert set(validities) <= {"scored", "crashed", "interrupted"}
    if phase == "teardown":
        assert "scored" in validities
    elif not arguments:
        assert "crashed" in validities
        assert "aec: recorded 1 trial that died with a run" in output
    elif arguments == (LANES,):
        assert re.search(r"aec: recorded \d trials? that died with a run", output)


def test_a_worker_replaced_twice_loses_nothing(project: Project) -> None:
    run = BlockedRun(project, "agent.1 agent.2", "-n1", "--aec-retries=2")
    for block in ("agent.1", "agent.2"):
        os.kill(run.process_at(block), signal.SIGKILL)
    returncode, output = run.end()
    assert returncode == 0, output
    assert "3 passed, 2 retried" in output
    assert "5 attempts at 3 trials" in output
    validities = sorted(record["evaluation"]["validity"] for record in run.records())
    assert validities == ["crashed", "crashed", "scored", "scored", "scored"]
    run.run_again()
    run.wait_until_nothing_is_left()


def test_a_trial_killed_in_its_teardown_is_not_tried_again(project: Project) -> None:
    run = BlockedRun(project, "teardown", "-n2", "--aec-retries=2")
    run.signal("worker", signal.SIGKILL, "teardown")
    returncode, output = run.end()
    assert returncode == pytest.ExitCode.TESTS_FAILED, output
    assert run.validities() == ["scored"] * 3


def test_a_note_that_is_a_pipe_does_not_block_a_run(project: Project) -> None:
    project.task()
    experiment = project.path / "artefacts/ledger/mine"
    experiment.mkdir(parents=True)
    os.mkfifo(experiment / ".x.running")
    project.run().assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", [(), ("-s",), ("-n2",)], ids=["plain", "s", "n2"])
def test_a_run_whose_output_is_not_read_any_more_goes_on(
    project: Project, arguments: tuple[str, ...]
) -> None:
    run = BlockedRun(project, "launch", "-v", "--aec-progress=0.01", *arguments)
    run.process_at("launch")
    run.stop_reading()
    run.let_go()
    assert run.wait() == pytest.ExitCode.OK
    assert run.validities() == ["scored"] * 3
    assert not run.left()
