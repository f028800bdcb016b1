"""Checks of tasks are tests: selected, distributed, reported and kept like any, never as trials."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_aecbench.ledger.checks import STANDARD, CheckSummary, checked
from pytest_aecbench.tasks.task import Task
from tests.checking import SOUND, write_task
from tests.project import Project

QUICK = "--aec-check=instruction,solution,empty"


def write(project: Project, task_id: str = "civil/a", **changes: str) -> Path:
    """Write a sound task, with the named files changed (``task_toml`` is ``task.toml``)."""
    names = {"task_toml": "task.toml", "instruction": "instruction.md", "test_sh": "tests/test.sh"}
    names["solve"] = "solution/solve.sh"
    return write_task(
        project.path / "tasks" / task_id, {names[name]: text for name, text in changes.items()}
    )


def summary(project: Project, task_id: str = "civil/a") -> CheckSummary:
    digest = Task.load(project.path / "tasks" / task_id).digest
    found = checked(project.path / "artefacts/ledger", digest)
    assert found is not None
    return found


def test_every_check_is_an_item_and_none_is_a_trial(project: Project) -> None:
    write(project)
    result = project.run("--aec-check", "--collect-only", "-q")
    ids = [line for line in result.outlines if "::" in line]
    assert ids == [f"tasks/civil/a/task.toml::check[{check}]" for check in STANDARD]


def test_checks_pass_and_fail_with_a_hint(anyhow: Project) -> None:
    write(anyhow, "civil/good")
    write(anyhow, "civil/bad", instruction="Write `/workspace/output.jsonl`.\n")
    result = anyhow.run(QUICK)
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        [
            "instruction.md does not mention tolerances",
            "hint: say how near each answer must be*",
        ]
    )
    assert summary(anyhow, "civil/good").passed == ("empty", "instruction", "solution")
    assert summary(anyhow, "civil/bad").failed == ("instruction",)


def test_checks_are_selected_by_keyword_and_by_last_failure(anyhow: Project) -> None:
    bad = write(anyhow, instruction="Write `/workspace/output.jsonl`.\n")
    anyhow.run(QUICK).assert_outcomes(passed=2, failed=1)
    anyhow.run(QUICK, "--lf").assert_outcomes(failed=1)
    anyhow.run(QUICK, "-k", "solution").assert_outcomes(passed=1)
    (bad / "instruction.md").write_text(SOUND["instruction.md"])
    anyhow.run(QUICK, "--lf").assert_outcomes(passed=1)


def test_junit_tells_check_outcome_and_hint(anyhow: Project) -> None:
    write(anyhow, instruction="Write `/workspace/output.jsonl`.\n")
    anyhow.run(QUICK, "--junitxml=out.xml")
    cases = {}
    for case in ElementTree.parse(anyhow.path / "out.xml").iter("testcase"):
        about = {one.get("name", ""): one.get("value", "") for one in case.iter("property")}
        cases[about["aec.check"]] = (about["aec.outcome"], about.get("aec.hint", "")[:7])
    expected = {"solution": ("passed", ""), "empty": ("passed", "")}
    assert cases == {"instruction": ("failed", "say how"), **expected}


def test_check_records_are_no_trials(project: Project) -> None:
    write(project)
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    result = project.run(QUICK, "--aec-gate=mean>=0.5")
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*pass@1*")
    assert len(project.records()) == 1
    assert sorted(path.name for path in (project.path / "artefacts/ledger").iterdir()) == [
        "_checks",
        "mine",
    ]
    assert [path.name for path in (project.path / "jobs").iterdir()] == ["mine"]
    resumed = project.run("--aec-resume")
    resumed.stdout.fnmatch_lines(["aec: resuming: 1 trial settled already"])


def test_broken_infrastructure_is_an_error_and_no_word_on_the_task(anyhow: Project) -> None:
    write(anyhow)
    anyhow.pytester.makeconftest(
        """
        import pytest
        from pytest_aecbench import LaunchError

        @pytest.fixture
        def aec_sandbox():
            raise LaunchError("no sandbox today")
        """
    )
    result = anyhow.run(QUICK)
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*LaunchError: no sandbox today*"])
    found = summary(anyhow)
    assert (found.passed, found.errors) == (("instruction",), ("empty", "solution"))


def test_infrastructure_errors_are_retried_like_those_of_trials(project: Project) -> None:
    write(project)
    project.pytester.makeconftest(
        """
        import pytest
        from pytest_aecbench import LaunchError

        tries = []

        @pytest.fixture(scope="module")
        def aec_image(aec_image):
            tries.append(1)
            if len(tries) == 1:
                raise LaunchError("not yet")
            return aec_image
        """
    )
    options = ("--aec-check=solution", "--aec-retries=1", "--aec-retry-delay=0.01")
    result = project.run(*options)
    assert "1 passed, 1 retried" in result.stdout.str()
    assert summary(project).passed == ("solution",)


def test_a_task_that_cannot_be_read_fails_its_structure_and_no_more(anyhow: Project) -> None:
    write(anyhow, "civil/bad", task_toml='[agent]\ntimeout_sec = "soon"\n')
    write(anyhow, "civil/good")
    result = anyhow.run("--aec-check=structure,solution")
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*agent.timeout_sec: 'soon' is not valid", "hint: use a number*"])


def test_a_verifier_that_gives_no_reward_fails_the_check(project: Project) -> None:
    write(project, test_sh="echo went wrong; exit 3\n")
    result = project.run("--aec-check=solution")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the verifier gave no reward: bash /tests/test.sh (exit code 3)*"])


def test_a_solution_that_crashes_is_told(project: Project) -> None:
    write(project, solve="echo no such file >&2; exit 4\n")
    result = project.run("--aec-check=solution")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*it ended with exit code 4: no such file*"])


def test_what_a_task_allows_is_no_problem(project: Project) -> None:
    leak = SOUND["instruction.md"] + "A colleague found 1.8462 A and 22.154 W.\n"
    write(project, "civil/none", instruction=leak)
    one = '[metadata]\ncheck_allow = ["leaks:1.8462"]\n'
    write(project, "civil/one", instruction=leak, task_toml=one)
    both = '[metadata]\ncheck_allow = ["leaks:1.8462", "leaks:22.154"]\n'
    write(project, "civil/both", instruction=leak, task_toml=both)
    whole = '[metadata]\ncheck_allow = ["leaks"]\n'
    write(project, "civil/whole", instruction=leak, task_toml=whole)
    project.run("--aec-check=leaks").assert_outcomes(failed=2, passed=1, skipped=1)
    assert summary(project, "civil/both").passed == ("leaks",)


def test_a_path_may_be_allowed_with_all_below_it(project: Project) -> None:
    leaves = SOUND["tests/test.sh"] + "mkdir -p sub; echo x > sub/left.txt\n"
    allow = '[metadata]\ncheck_allow = ["writes:/workspace"]\n'
    write(project, "civil/bad", test_sh=leaves)
    write(project, "civil/allowed", test_sh=leaves, task_toml=allow)
    project.run("--aec-check=writes").assert_outcomes(failed=1, passed=1)


def test_allowing_what_is_no_check_is_a_problem(project: Project) -> None:
    write(project, task_toml='[metadata]\ncheck_allow = ["leak:50"]\n')
    result = project.run("--aec-check=structure")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["metadata.check_allow: 'leak:50' is not the name of a check"])


def test_exploits_that_would_change_the_host_are_left_out(project: Project) -> None:
    write(project)
    options = ("--aec-check=exploit:shadowed-python,exploit:written-reward", "-rs")
    result = project.run(*options, "--aec-local-mode=rewriting")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*it would change the host's own files on this backend"])


def test_a_bad_choice_of_checks_is_one_line(project: Project) -> None:
    write(project)
    result = project.run("--aec-check=solutoin")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert "--aec-check: 'solutoin' is not a check" in line


def test_a_fixture_may_skip_a_trial(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def aec_sandbox():
            pytest.skip("not today")
        """
    )
    anyhow.run().assert_outcomes(skipped=1)


def test_a_check_whose_process_dies_is_an_error(
    pytester: pytest.Pytester, own_machine: Path
) -> None:
    project = Project(pytester, ("-n2",))
    write(project)
    project.pytester.makeconftest(
        """
        import os, pytest

        @pytest.fixture
        def aec_reward():
            os.kill(os.getpid(), 9)
        """
    )
    result = project.run("--aec-check=instruction,solution")
    assert "1 passed, 1 error" in result.stdout.str()
    assert list((own_machine / "homes").iterdir()) == []  # removed by the run itself


def test_the_plan_of_a_check_is_shown_without_running_it(project: Project) -> None:
    write(project, task_toml="[verifier]\ntimeout_sec = 60\n")
    result = project.run("--aec-check=solution", "--setup-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*SETUP    F aec_finding*"])
    assert not (project.path / "artefacts").exists()


def test_many_checks_suggest_to_run_several_at_once(project: Project) -> None:
    hint = "aec: checks run one at a time; -n auto runs several at once"
    for number in range(21):
        project.task(f"civil/task-{number}")
    result = project.run("--aec-check=structure")
    assert hint in result.outlines
    result.stdout.fnmatch_lines(["*task.toml .*  4%[]]", "*task.toml .*100%[]]"])  # also in a pipe
    assert hint not in project.run("--aec-check=structure", "-k", "task-2").outlines
