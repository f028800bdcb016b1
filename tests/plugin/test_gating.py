"""Gates decide the exit code; CI gets a testcase and a summary."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests.project import HALF, Project

pytestmark = pytest.mark.slow  # about figures, not versions


@pytest.fixture
def mixed(anyhow: Project) -> Project:
    anyhow.task("civil/good")
    anyhow.task("civil/low", solve=HALF.partition(":")[2])
    return anyhow


@pytest.mark.parametrize(
    ("gate", "exit_code"),
    [
        ("mean>=0.6", 0),
        ("mean>=0.7", 1),
        ("pass@1>=0.5 and errors<=0.05", 0),
        ("mean[task=civil/low]>=0.5", 1),
        ("mean[domain=nosuch]>=0", 1),
    ],
)
def test_the_gate_decides_the_exit_code(mixed: Project, gate: str, exit_code: int) -> None:
    result = mixed.run(f"--aec-gate={gate}", "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == exit_code
    word = "failed" if exit_code else "passed"
    result.stdout.fnmatch_lines([f"*= aec gate {word} =*", "*needs*"])
    suite = ET.parse(mixed.path / "out.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.get("tests") == "3"
    (case,) = [case for case in suite.iter("testcase") if case.get("name") == "gate"]
    assert len(list(case.iter("failure"))) == exit_code
    (figure,) = [p.get("value") or "" for p in case.iter("property")]
    assert "needs" in figure


@pytest.mark.parametrize("option", ["-x", "--maxfail=1", "--stepwise"])
def test_a_gate_does_not_excuse_a_run_that_was_stopped(anyhow: Project, option: str) -> None:
    for name in "abc":
        anyhow.task(f"civil/{name}", solve=HALF.partition(":")[2])
    result = anyhow.run("--aec-gate=mean>=0.3", option)
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert "aec gate" not in result.stdout.str()


def test_errors_above_the_rate_fail_whatever_the_gate_says(anyhow: Project) -> None:
    anyhow.task("civil/good")
    anyhow.task("civil/broken", test_sh="exit 1")
    assert anyhow.run("--aec-gate=mean>=1", "--aec-max-error-rate=0.4").ret == 1
    assert anyhow.run("--aec-gate=mean>=1", "--aec-max-error-rate=0.5").ret == 0
    assert anyhow.run("--aec-max-error-rate=0.5").ret == 0


def test_a_mean_is_unknown_to_the_gate_when_scores_are_missing(anyhow: Project) -> None:
    anyhow.task("civil/good")
    anyhow.task("civil/broken", test_sh="exit 1")
    result = anyhow.run("--aec-gate=mean>=0.9")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "  with errors as zeros: 0.50, scored 1 of 2 tasks",
            "*= aec gate failed =*",
            "mean = unknown (50 % of scores are missing, at most 5 % may be; without them 1.00, *",
        ]
    )


def test_a_gate_does_not_excuse_other_tests(anyhow: Project) -> None:
    anyhow.task()
    (anyhow.path / "tasks/test_other.py").write_text("def test_it(): assert False\n")
    assert anyhow.run("--aec-gate=mean>=0.5").ret == 1


def test_a_gate_does_not_excuse_a_bad_task(anyhow: Project) -> None:
    anyhow.task("civil/good")
    anyhow.task("civil/bad", toml="[metadata]\ndifficulty = 3\n")
    assert anyhow.run("--aec-gate=mean>=0.5", "--continue-on-collection-errors").ret == 1


def test_a_bad_gate_is_refused_before_the_run(project: Project) -> None:
    project.task()
    result = project.run("--aec-gate=meen>=0.5")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert "--aec-gate: " in line
    assert "did you mean 'mean'?" in line
    assert project.records() == []


def test_the_summary_is_written_as_markdown(
    mixed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = mixed.path / "steps.md"
    steps.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(steps))
    mixed.run("--aec-summary-md=out.md", "--aec-gate=mean>=0.6")
    written = (mixed.path / "out.md").read_text()
    assert "| oracle |" in written.replace("`", "")
    assert "civil/low" in written
    assert steps.read_text() == "before\n" + written


def test_a_summary_that_cannot_be_written_is_said_and_loses_nothing(project: Project) -> None:
    project.task()
    result = project.run("--aec-summary-md=no/such/place.md")
    result.assert_outcomes(passed=1)
    assert "aec: no/such/place.md: cannot be written; " in result.stdout.str()
