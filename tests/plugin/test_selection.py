"""Trials are selected, named and listed as any test is."""

from __future__ import annotations

import os
import shutil
import textwrap

import pytest

from tests.plugin.conftest import in_every_mode
from tests.project import HALF, Project

ID = "tasks/electrical/ohms-law/task.toml::trial[oracle-1]"


@in_every_mode
def test_every_task_agent_and_repetition_is_an_item(anyhow: Project) -> None:
    anyhow.task("electrical/ohms-law")
    anyhow.task("civil/grade")
    result = anyhow.run("--aec-agent=oracle", "--aec-agent=nop", "--aec-repetitions=2")
    result.assert_outcomes(passed=4, failed=4)
    names = {(r["task"]["task_id"], r["agent"]["name"], r["repetition"]) for r in anyhow.records()}
    assert names == {
        (task, agent, repetition)
        for task in ("electrical/ohms-law", "civil/grade")
        for agent in ("oracle", "nop")
        for repetition in (1, 2)
    }


def test_the_domain_directory_is_a_keyword(anyhow: Project) -> None:
    anyhow.task("electrical/ohms-law")
    anyhow.task("civil/grade")
    result = anyhow.run("-k", "electrical")
    result.assert_outcomes(passed=1, deselected=0 if "-n2" in anyhow.mode else 1)


@pytest.mark.parametrize(
    ("expression", "passed"),
    [
        ("easy", 1),
        ("hard", 1),
        ("holdout", 1),
        ("easy and not holdout", 1),
        ("public and AS-NZS-3008", 1),
        ("electrical", 1),
        ("reasoning", 1),
        ("not public and not holdout", 0),
    ],
)
def test_metadata_are_markers_even_when_markers_are_strict(
    project: Project, expression: str, passed: int
) -> None:
    project.task(
        "electrical/ohms-law",
        toml='[metadata]\ndifficulty = "easy"\ncategory = "reasoning"\ntags = ["AS-NZS-3008"]\n',
    )
    project.task("civil/grade", toml='[metadata]\ndifficulty = "hard"\nvisibility = "holdout"\n')
    result = project.run("-m", expression, "--strict-markers")
    result.assert_outcomes(passed=passed, deselected=2 - passed)


def test_metadata_domain_replaces_the_directory_as_domain(project: Project) -> None:
    project.task("misc/ohms-law", toml='[metadata]\ndomain = "electrical"\n')
    project.run("-m", "electrical").assert_outcomes(passed=1)


def test_a_tag_that_is_somebody_elses_marker_does_not_act_as_one(project: Project) -> None:
    project.task(toml='[metadata]\ntags = ["skip", "xfail"]\n')
    project.run("-k", "skip").assert_outcomes(passed=1)


@pytest.mark.parametrize("chosen", [ID, "tasks/electrical/ohms-law", "tasks/electrical"])
def test_ids_and_directories_as_printed_can_be_pasted_back(anyhow: Project, chosen: str) -> None:
    anyhow.task("electrical/ohms-law")
    anyhow.task("civil/grade")
    result = anyhow.run(chosen, "-v")
    result.assert_outcomes(passed=1)
    assert ID in result.stdout.str()


def test_ids_of_commands_can_be_pasted_back(project: Project) -> None:
    project.task()
    listed = project.run("--collect-only", "-q", f"--aec-agent={HALF}").outlines
    (node_id,) = [line for line in listed if "::" in line]
    result = project.run(node_id, f"--aec-agent={HALF}")
    result.assert_outcomes(failed=1)


def test_several_trials_of_one_task_can_be_chosen_by_id(project: Project) -> None:
    directory = "tasks/electrical/ohms-law/task.toml"
    project.task()
    project.task("electrical/other")
    agents = ("--aec-agent=oracle", "--aec-agent=nop", "--aec-repetitions=2")
    chosen = (f"{directory}::trial[oracle-2]", f"{directory}::trial[nop-1]")
    project.run(*chosen, *agents).assert_outcomes(passed=1, failed=1)


def test_last_failed_runs_only_what_failed(anyhow: Project) -> None:
    anyhow.task("electrical/ohms-law")
    anyhow.task("civil/grade", solve="true")
    anyhow.task("civil/slope")
    anyhow.run().assert_outcomes(passed=2, failed=1)
    result = anyhow.run("--lf", "-v")
    result.assert_outcomes(failed=1)
    assert "civil/grade/task.toml::trial[oracle-1]" in result.stdout.str()


def test_exitfirst_stops_after_the_first_failure(project: Project) -> None:
    for number in range(3):
        project.task(f"civil/grade-{number}", solve="true")
    project.run("-x").assert_outcomes(failed=1)
    assert len(project.records()) == 1


def test_collect_only_lists_trials_and_runs_none(anyhow: Project) -> None:
    anyhow.task()
    result = anyhow.run("--collect-only", "-q")
    result.stdout.fnmatch_lines([ID.replace("[", "[[]")])
    assert not (anyhow.path / "jobs").exists()
    assert anyhow.records() == []


def test_setup_plan_prints_the_architecture(project: Project) -> None:
    project.task()
    result = project.run("--setup-plan")
    result.stdout.fnmatch_lines(
        [
            "SETUP    S aec_backend*",
            "*SETUP    M aec_task",
            "*SETUP    M aec_image*",
            "*SETUP    F aec_sandbox*",
            "*SETUP    F aec_execution*",
            "*SETUP    F aec_reward*",
        ]
    )
    assert project.records() == []


def test_without_the_plugin_tasks_are_nothing_to_pytest(project: Project) -> None:
    project.task(test_sh=None)
    result = project.run("-p", "no:aecbench")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_tasks_own_tests_are_never_collected(anyhow: Project) -> None:
    directory = anyhow.task()
    for name in ("tests/test_answer.py", "environment/test_tool.py", "test_here.py"):
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("def test_leaked(): assert False\n")
    anyhow.run().assert_outcomes(passed=1)


def test_ordinary_tests_beside_tasks_still_run(anyhow: Project) -> None:
    anyhow.task()
    (anyhow.path / "tasks/electrical/test_beside.py").write_text("def test_it(): pass\n")
    (anyhow.path / "tasks/test_above.py").write_text("def test_it(): pass\n")
    anyhow.run().assert_outcomes(passed=3)


def test_some_other_tools_task_toml_is_left_alone(project: Project) -> None:
    directory = project.path / "tasks/other"
    directory.mkdir(parents=True)
    (directory / "task.toml").write_text('[build]\ncommand = "make"\n')
    (directory / "test_mine.py").write_text("def test_it(): pass\n")
    project.run().assert_outcomes(passed=1)


def test_a_bad_task_is_one_error_and_the_rest_still_run(anyhow: Project) -> None:
    anyhow.task("civil/good")
    anyhow.task("civil/bad", toml='[metadata]\ndifficulty = "eazy"\n')
    result = anyhow.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["*civil/bad/task.toml: metadata.difficulty: 'eazy' is not valid; use one of*"]
    )
    assert "Traceback" not in result.stdout.str()


def test_an_unknown_key_warns_and_names_the_nearest(anyhow: Project) -> None:
    anyhow.task(toml='[metadata]\ndificulty = "easy"\n')
    result = anyhow.run("-W", "default")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "tasks/electrical/ohms-law/task.toml:1",
            "*metadata.dificulty: unknown key; did you mean 'difficulty'?*",
        ]
    )
    result = anyhow.run("-W", "error")
    result.assert_outcomes(errors=1)
    assert "Traceback" not in result.stdout.str()


def test_ignored_directories_stay_ignored(project: Project) -> None:
    project.task("civil/good")
    project.task("civil/other")
    project.run("--ignore=tasks/civil/other").assert_outcomes(passed=1)


def test_a_fixture_in_a_tasks_own_conftest_applies_to_it_alone(anyhow: Project) -> None:
    override = """
        import pytest
        from pytest_aecbench import AgentResult

        @pytest.fixture
        def aec_execution(aec_sandbox):
            return AgentResult()
        """
    anyhow.task("civil/mine", files={"conftest.py": override})
    anyhow.task("civil/other")
    anyhow.run().assert_outcomes(passed=1, failed=1)


def test_hooks_in_a_conftest_are_those_of_the_trials_below_it(anyhow: Project) -> None:
    hooks = (
        "def pytest_runtest_setup(item):\n    (item.path.parent / 'seen.txt').write_text('seen')\n"
    )
    for name in ("civil/a", "civil/b", "ground/c", "ground/d"):
        anyhow.task(name, instruction=f"Write {name} to `/workspace/output.jsonl`.")
    anyhow.task("ground/alone", instruction="Alone.", files={"conftest.py": hooks})
    (anyhow.path / "tasks/civil/conftest.py").write_text(textwrap.dedent(hooks))
    anyhow.run().assert_outcomes(passed=5)
    seen = sorted(path.parent.name for path in anyhow.path.glob("tasks/*/*/seen.txt"))
    assert seen == ["a", "alone", "b"]


def test_a_parametrised_fixture_in_a_conftest_multiplies_trials(anyhow: Project) -> None:
    anyhow.task("civil/one")
    anyhow.task("civil/two")
    (anyhow.path / "tasks/civil/conftest.py").write_text(
        "import pytest\n\n@pytest.fixture(params=['a', 'b'], autouse=True)\ndef variant(request):\n"
        "    return request.param\n"
    )
    anyhow.run().assert_outcomes(passed=4)


def test_parameters_that_depend_on_the_task_are_worked_out_for_each(anyhow: Project) -> None:
    anyhow.task("civil/one")
    anyhow.task("civil/two")
    (anyhow.path / "tasks/civil/conftest.py").write_text(
        "def pytest_generate_tests(metafunc):\n"
        "    times = 2 if 'two' in metafunc.definition.nodeid else 1\n"
        "    metafunc.fixturenames.append('extra')\n"
        "    metafunc.parametrize('extra', range(times))\n"
    )
    anyhow.run().assert_outcomes(passed=3)


def test_names_that_are_not_utf_8_are_refused_in_one_line_each(project: Project) -> None:
    project.task("civil/good")
    good = project.path / "tasks/civil/good"
    for name in (b"civil/\xff\xfe", b"civil/\xfe\xff", b"\xfe/good"):
        shutil.copytree(good, project.path / "tasks" / os.fsdecode(name))
    result = project.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=3)
    assert result.stdout.str().count("the name is not UTF-8; rename the directory") >= 3
    assert "Traceback" not in result.stdout.str()


def test_last_failures_of_other_agents_do_not_run_everything(project: Project) -> None:
    project.task("civil/a")
    project.task("civil/b", solve="true")
    project.run("--aec-agent=nop").assert_outcomes(failed=2)
    result = project.run("--lf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert "--lf: none of 2 trials that failed before is selected (by nop), " in line
    assert len(project.records()) == 2
    project.run("--lf", "--aec-agent=nop", "--aec-agent=oracle").assert_outcomes(failed=2)
    project.run("--aec-agent=oracle").assert_outcomes(passed=1, failed=1)
    project.run("--lf").assert_outcomes(failed=1)
