"""Where a run stands is seen on a terminal all the time, and elsewhere in a line now and then."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.costs import at_night
from tests.plugin.conftest import with_workers_too
from tests.project import SOLVE, Project
from tests.screen import Terminal

# Ends when the file is there; the host sees a trial's workspace, the trial sees nothing else.
WAIT = "touch started; until [ -e go ]; do sleep 0.05; done\n"
ESCAPE = re.compile(rb"\x1b[\[78D]")


@with_workers_too
def test_a_line_says_where_the_run_stands(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.task("civil/b", solve="sleep 1.5")
    anyhow.task("civil/c", test_sh="exit 1")
    text = anyhow.run("--aec-progress=0.2", "-p", "no:randomly").stdout.str()
    lines = re.findall(r"^aec: \d of 3 trials done.*$", text, re.MULTILINE)
    assert lines
    assert any(re.search(r"\d running, longest [abc] for \d s", line) for line in lines)
    assert any("mean reward 1.00" in line and " s left" in line for line in lines)


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
def test_captured_output_stays_apart_from_the_lines(
    project: Project, mode: tuple[str, ...]
) -> None:
    project.task(solve="sleep 1")
    project.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def aec_execution(aec_execution):
            print("printed by a fixture")
            return aec_execution
        """
    )
    # In a process of its own, for what pytester captures itself is not captured again.
    arguments = ["tasks", "--aec-progress=0.1", "-rA", *mode]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=project.path,
        capture_output=True,
        text=True,
    )
    before, _, section = result.stdout.partition("Captured stdout setup")
    assert re.search(r"^aec: 0 of 1 trial done, 1 running", before, re.MULTILINE), result.stdout
    assert "printed by a fixture" in section
    assert "trial done" not in section
    assert "\n\naec: " not in before.partition("trial done")[2]


def test_nothing_is_said_when_not_wanted(project: Project) -> None:
    project.task(solve="sleep 0.5")
    assert "trial done" not in project.run("--aec-progress=0").stdout.str()


def terminal(
    project: Project, *arguments: str, columns: int = 80, env: dict[str, str] | None = None
) -> Terminal:
    argv = [sys.executable, "-m", "pytest", "tasks", *arguments]
    return Terminal(argv, cwd=project.path, columns=columns, lines=20, env=env)


def workspaces(project: Project) -> list[Path]:
    return [path.parent for path in project.path.glob("jobs/*/*/workspace/started")]


def let_go(project: Project) -> None:
    for workspace in workspaces(project):
        (workspace / "go").touch()


def write_tasks(project: Project) -> None:
    """Write tasks of which one has no reward and one waits in its agent."""
    project.task("civil/a-beam")
    project.task("civil/b-slab", test_sh="exit 1")
    project.task("civil/c-column", solve=WAIT + SOLVE)
    project.task("civil/d-wall")


@pytest.mark.parametrize("columns", [80, at_night(40)])
@pytest.mark.parametrize("mode", [("-p", "no:randomly"), ("-n2",)], ids=["plain", "n2"])
def test_the_bottom_of_a_terminal_shows_what_runs(
    project: Project, mode: tuple[str, ...], columns: int
) -> None:
    write_tasks(project)
    screen = terminal(project, *mode, "--tb=no", columns=columns)
    done = "3" if "-n2" in mode else "2"
    head = f"aec: {done} of 4 trials done" if columns == 80 else f"{done}/4"
    display = screen.wait_for(
        lambda lines: (
            any(line.startswith(head) for line in lines)
            and any("column[oracle-1]" in line and " agent " in line for line in lines)
        )
    )
    height = 3 if "-n2" in mode else 2
    region = display[-height:]
    assert region[0].startswith(head)
    assert re.search(r"mean (reward )?1\.00", region[0]), region
    assert re.search(r"column\[oracle-1\] +agent +\d:\d\d$", region[1]), region
    assert "1 error" in region[0]
    assert not any("trials done" in line for line in display[:-height])
    # Seconds go by on the screen while the trial runs in this process or another.
    screen.wait_for(lambda lines: re.search(r" 0:(0[2-9]|\d\d)$", lines[1 - height]))
    let_go(project)
    assert screen.end() == pytest.ExitCode.TESTS_FAILED
    left = "\n".join(screen.scrolled)
    assert "trials done" not in left
    assert f"{done}/4" not in left
    joined = "".join(screen.scrolled)
    assert "3 passed, 1 error" in joined
    assert "records in artefacts/ledger/" in joined
    screen_lines = [line for line in screen.scrolled if line.strip()]
    assert screen_lines[0].startswith("=")
    assert "test session starts" in screen_lines[0]


def without_times(lines: list[str]) -> list[str]:
    text = "\n".join(line.rstrip() for line in lines if line.strip())
    text = re.sub(r"\d+(\.\d+)? ?s\b", "TIME", text)
    text = re.sub(r"exp-[\w-]+", "EXP", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", text)
    return [re.sub(r"=+", "=", line) for line in text.splitlines()]


PRINTING = """
import sys, time, pytest

@pytest.fixture
def aec_execution(aec_execution):
    for number in range(15):
        print(f"printed {number}", flush=True)
        print(f"complained {number}", file=sys.stderr, flush=True)
        time.sleep(0.1)
    return aec_execution
"""


@pytest.mark.parametrize(
    "arguments",
    [("-s",), at_night(("-rA",)), at_night(("-v",)), at_night(("-q",)), at_night(("-x",))],
)
def test_all_that_pytest_prints_is_as_if_there_were_no_such_lines(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.task("civil/beam", test_sh="exit 1")
    project.task("civil/column")
    project.pytester.makeconftest(PRINTING)
    always = (*arguments, "--tb=short", "-p", "no:randomly", "-p", "no:cacheprovider", "--color=no")
    screen = terminal(project, *always)
    screen.end()
    assert b"trials done" in screen.seen
    other = terminal(project, *always, "--aec-progress=0")
    other.end()
    assert without_times(screen.scrolled) == without_times(other.scrolled)


def test_a_resized_terminal_has_the_lines_at_its_new_bottom(project: Project) -> None:
    write_tasks(project)
    screen = terminal(project, "-n2", "--tb=no")
    screen.wait_for(lambda lines: lines[-3].startswith("aec: 3 of 4") and "column" in lines[-2])
    for columns, lines in ((50, 12), (100, 30), (80, 5), (80, 24)):
        screen.resize(columns, lines)
        if lines > 5:
            screen.wait_for(
                lambda shown: len(shown) > 5 and "3" in shown[-3][:9] and " agent " in shown[-2]
            )
    let_go(project)
    screen.end()
    assert "3 passed, 1 error" in "".join(screen.display)
    assert not any("trials done" in line for line in screen.display)


@pytest.mark.parametrize(
    ("arguments", "env"),
    [(("-q", "-q"), {}), ((), {"TERM": "dumb"}), (("--aec-progress=0",), {})],
    ids=["qq", "dumb", "0"],
)
def test_a_terminal_is_left_alone_where_that_is_wanted(
    project: Project, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    project.task(solve="sleep 1.5\n" + SOLVE)
    screen = terminal(project, *arguments, "--color=no", env=env)
    assert screen.end() == 0
    assert not ESCAPE.search(screen.seen), screen.seen


def test_a_dumb_terminal_gets_the_line(project: Project) -> None:
    project.task(solve="sleep 1.5\n" + SOLVE)
    screen = terminal(project, "--aec-progress=0.2", env={"TERM": "dumb"})
    assert screen.end() == 0
    assert any(line.startswith("aec: 0 of 1 trial done") for line in screen.scrolled)


def test_the_lines_have_no_colour_of_their_own(project: Project) -> None:
    project.task(solve=WAIT + SOLVE)
    screen = terminal(project, env={"NO_COLOR": "1"})
    screen.wait_for(lambda lines: " agent " in lines[-1])
    let_go(project)
    assert screen.end() == 0
    assert not re.search(rb"\x1b\[[0-9;]*m", screen.seen)


def test_the_time_left_is_told_from_past_runs(project: Project) -> None:
    project.task("civil/column")
    project.run("--aec-progress=0").assert_outcomes(passed=1)
    project.task("civil/column", solve=WAIT + SOLVE)
    screen = terminal(project)
    screen.wait_for(lambda lines: re.search(r"0 of 1 trial done, about \d+ s left", lines[-2]))
    screen.wait_for(lambda lines: workspaces(project))
    let_go(project)
    assert screen.end() == 0


def test_an_interrupted_run_leaves_the_terminal_as_it_was(project: Project) -> None:
    project.task("civil/column", solve=WAIT + SOLVE)
    screen = terminal(project)
    screen.wait_for(lambda lines: "column" in lines[-1] and " agent " in lines[-1])
    screen.type("\x03")
    assert screen.end() == pytest.ExitCode.INTERRUPTED
    assert not any("trial done" in line for line in screen.scrolled)
    assert "errors, not scored: interrupted 1" in "\n".join(screen.scrolled)
    assert screen.scrolls_whole
