"""What somebody wrote before, put in place of an agent's work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import Project

RIGHT = '{"current_a": 2.0, "power_w": 24.0}'
HALF = '{"power_w": 24.0}'


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rewards(project: Project) -> dict[str, float]:
    return {
        record["task"]["task_id"]: record["evaluation"]["reward"] for record in project.records()
    }


@pytest.mark.parametrize("mode", ["auto", "rewriting"])
def test_a_file_becomes_the_output(anyhow: Project, mode: str) -> None:
    anyhow.task()
    write(anyhow.path / "given.json", HALF)
    anyhow.run("--aec-agent=replay:given.json", f"--aec-local-mode={mode}").assert_outcomes(
        failed=1
    )
    record = anyhow.record()
    assert record["evaluation"]["reward"] == 0.35
    assert record["outputs"]["output_excerpt"] == HALF
    assert record["agent"]["parameters"]["path"] == "given.json"


def test_the_file_goes_where_the_prompt_says(project: Project) -> None:
    project.task(
        instruction="Write to `/workspace/out/answer.json`.",
        test_sh="cp /workspace/out/answer.json /logs/verifier/reward.json",
    )
    write(project.path / "given.json", '{"reward": 0.25}')
    project.run("--aec-agent=replay:given.json")
    assert project.record()["evaluation"]["reward"] == 0.25


@pytest.mark.parametrize("mode", ["auto", "rewriting"])
def test_a_directory_becomes_the_workspace(project: Project, mode: str) -> None:
    project.task(
        test_sh="test ! -e given.txt && cat a/b.txt > /logs/verifier/reward.txt",
        files={"environment/given.txt": "", "environment/Dockerfile": "FROM x\nCOPY given.txt .\n"},
    )
    write(project.path / "before/a/b.txt", "0.75")
    project.run("--aec-agent=replay:before", f"--aec-local-mode={mode}")
    assert project.record()["evaluation"]["reward"] == 0.75


def test_what_a_trial_left_can_be_verified_again(project: Project) -> None:
    task = project.task()
    project.run("--aec-agent=oracle", "--aec-experiment-id=first")
    (before,) = (project.path / "jobs/first").glob("*/workspace")
    write(task / "tests/test.sh", "echo 0.5 > /logs/verifier/reward.txt")
    path = before.relative_to(project.path)
    project.run(f"--aec-agent=replay:{path}", "--aec-experiment-id=second")
    assert sorted(record["evaluation"]["reward"] for record in project.records()) == [0.5, 1.0]


def test_each_task_has_its_own(anyhow: Project) -> None:
    for name in ("civil/one", "civil/two", "civil/three"):
        anyhow.task(name)
    write(anyhow.path / "tasks/civil/one/tests/fixtures/golden_pass.md", RIGHT)
    write(anyhow.path / "tests/fixtures/golden_pass.md", HALF)  # for those without one
    anyhow.run("--aec-agent=replay:tests/fixtures/golden_pass.md")
    assert rewards(anyhow) == {"civil/one": 1, "civil/two": 0.35, "civil/three": 0.35}


def test_the_path_may_name_the_task(project: Project) -> None:
    for name, answer in (("civil/one", RIGHT), ("civil/two", HALF)):
        project.task(name)
        write(project.path / f"answers/{name}.json", answer)
    project.run("--aec-agent=replay:answers/{task_id}.json")
    assert rewards(project) == {"civil/one": 1, "civil/two": 0.35}


def test_nothing_to_replay_is_an_error_of_the_trial(anyhow: Project) -> None:
    anyhow.task()
    result = anyhow.run("--aec-agent=replay:nowhere.json")
    result.assert_outcomes(errors=1)
    message = (
        "SettingsError: --aec-agent: replay: 'nowhere.json' is neither in electrical/ohms-law nor "
        "in the project; use the path of a file or directory"
    )
    assert message in result.stdout.str()
    assert anyhow.record()["evaluation"]["error"]["cause"] == "settings"


def test_no_path_is_refused_at_once(project: Project) -> None:
    result = project.run("--aec-agent=replay:")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = "--aec-agent: 'replay:' has no path; use replay:<file or directory>"
    assert line in result.stderr.str()


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_another_content_is_another_trial_and_another_place_is_not(
    project: Project, kind: str
) -> None:
    project.task()
    given = project.path / "given"
    answer = given / "output.jsonl" if kind == "directory" else given
    write(answer, RIGHT)
    project.run("--aec-agent=replay:given", "--aec-experiment-id=x")
    given.rename(project.path / "moved")
    given.symlink_to("moved")
    resumed = ("--aec-agent=replay:given", "--aec-resume=x", "-v")
    assert "PASSED (1, reused)" in project.run(*resumed).stdout.str()
    write(answer, HALF)
    assert "FAILED (0.35)" in project.run(*resumed).stdout.str()
    assert len(project.records()) == 2
