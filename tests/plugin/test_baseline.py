"""A run is compared with an earlier experiment, and may fail for being worse."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import HALF, Project

pytestmark = pytest.mark.slow  # about figures, not versions


@pytest.fixture
def baseline(anyhow: Project) -> Project:
    """A project with an experiment in which the agent named "it" solved six tasks of six."""
    for name in "abcdef":
        anyhow.task(f"civil/{name}")
    anyhow.run("--aec-experiment-id=first", "--aec-agent=it=oracle").assert_outcomes(passed=6)
    return anyhow


def test_a_run_is_compared_with_its_baseline(baseline: Project) -> None:
    result = baseline.run(
        "--aec-baseline=first", f"--aec-agent=it={HALF}", "--aec-summary-md=out.md"
    )
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(
        [
            "*= aec: compared with first =*",
            "agent *pairs before  after change  95 % interval     p",
            "it *6   1.00   0.35  -0.65 -0.81 to +0.11 0.031",
            "  6 tasks: differences from 0.96 on are likely to be found",
            "  worse: civil/a 1.00 to 0.35",
            "  worse: civil/b 1.00 to 0.35",
            "paired: 6 (same task files, repetition and agent's name, other settings)",
        ]
    )
    assert all(len(line) <= 80 for line in result.outlines if "paired" in line)
    written = (baseline.path / "out.md").read_text()
    assert "### Compared with `first`" in written
    assert "| `it` | 6 | 1.00 | 0.35 | -0.65 | -0.81 to +0.11 | 0.00 | 0.031 |" in written


@with_workers_too
def test_a_regression_fails_the_run_with_a_line(baseline: Project) -> None:
    result = baseline.run(
        "--aec-baseline=first",
        "--aec-fail-on-regression",
        f"--aec-agent=it={HALF}",
        "--junitxml=out.xml",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*= aec gate failed =*",
            "it regressed against first: -0.65 (-0.81 to +0.11, p 0.031)",
        ]
    )
    cases = ET.parse(baseline.path / "out.xml").getroot().iter("testcase")
    (gate,) = [case for case in cases if case.get("name") == "gate"]
    assert len(list(gate.iter("failure"))) == 1


def test_trials_may_fail_as_long_as_nothing_got_worse(baseline: Project) -> None:
    baseline.task("civil/b", solve="true")
    baseline.run("--aec-experiment-id=second").assert_outcomes(passed=5, failed=1)
    result = baseline.run("--aec-baseline=second", "--aec-fail-on-regression")
    result.assert_outcomes(passed=5, failed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["oracle did not regress against second: +0.00 *"])
    assert "paired: 6 (same task files, agent and repetition)" in result.stdout.str()


def test_a_changed_task_is_not_compared_and_is_named(baseline: Project) -> None:
    baseline.task("civil/b", solve="true")
    result = baseline.run("--aec-baseline=first", "--aec-agent=it=oracle")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        [
            "paired: 5 (same task files, agent and repetition)",
            "not compared: 2 of a task that was changed",
            "  changed: civil/b",
        ]
    )


def test_where_nothing_can_be_compared_a_regression_is_not_ruled_out(project: Project) -> None:
    project.task("civil/a")
    project.run("--aec-experiment-id=first")
    project.task("civil/a", instruction="Otherwise, write to /workspace/output.jsonl.")
    result = project.run("--aec-baseline=first", "--aec-fail-on-regression")
    assert result.ret == 1
    assert "nothing to compare with first: no trial is in both" in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--aec-baseline=nope"], "--aec-baseline: experiment 'nope' not found in "),
        (["--aec-baseline=nope"], "; use one of first"),
        (["--aec-fail-on-regression"], "--aec-fail-on-regression: there is nothing to compare"),
        (
            ["--aec-baseline=first", "--aec-resume=first"],
            "--aec-baseline: 'first' is this run itself; name an earlier experiment",
        ),
    ],
)
def test_a_bad_baseline_is_one_line(project: Project, arguments: list[str], message: str) -> None:
    project.task()
    project.run("--aec-experiment-id=first")
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert message in line


def test_a_broken_file_of_the_baseline_changes_nothing_else(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=first")
    Path(project.path, "artefacts/ledger/first/broken.json").write_text("{")
    result = project.run("--aec-baseline=first", "--aec-fail-on-regression")
    assert "paired: 1 " in result.stdout.str()
    # One task says nothing about chance, and the run does not pass in silence.
    assert result.ret == 1
    said = "oracle: unknown against first: 1 task: too few tasks to tell, at least 6 are needed"
    assert said in result.stdout.str()


def test_errors_do_not_hide_a_regression(baseline: Project) -> None:
    baseline.task("civil/f", test_sh="exit 1")
    baseline.run("--aec-experiment-id=second", "--aec-agent=it=oracle")
    result = baseline.run(
        "--aec-baseline=second", "--aec-fail-on-regression", "--aec-agent=it=oracle"
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["it: unknown against second: 16.67 % of scores are missing, at most 5 % may be; *"]
    )
