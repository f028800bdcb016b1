"""A verifier finds ``aec_verify`` beside itself: the copy of its task, or that of the package."""

from __future__ import annotations

import pytest

from tests.project import Project

GRADE = """
from aec_verify import Number, verify
verify(
    {"current_a": Number(2.0, rel=0.01), "power_w": Number(24.0, rel=0.01)},
    output="/workspace/output.jsonl",
)
"""
OWN = """
def verify():
    open("/logs/verifier/reward.txt", "w").write("0.25")
"""
PAY = "open('/logs/verifier/reward.json', 'w').write('1'); raise SystemExit"
MODES = ["--aec-local-mode=namespaces", "--aec-local-mode=rewriting"]


@pytest.fixture(params=MODES)
def local_mode(request: pytest.FixtureRequest) -> str:
    mode: str = request.param
    return mode


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("verifier", ["shared", "separate"])
def test_the_module_is_there_for_a_task_without_a_copy(
    project: Project, local_mode: str, verifier: str
) -> None:
    task = project.task(verify=GRADE, toml=f'[verifier]\nenvironment_mode = "{verifier}"\n')
    before = sorted(task.rglob("*"))
    agents = ("--aec-agent=oracle", "--aec-agent=nop")
    project.run(*agents, local_mode).assert_outcomes(passed=1, failed=1)
    assert sorted(task.rglob("*")) == before


@pytest.mark.needs("namespaces")
def test_a_task_with_a_copy_is_graded_by_it(project: Project, local_mode: str) -> None:
    grade = "from aec_verify import verify\nverify()\n"
    project.task(verify=grade, files={"tests/aec_verify.py": OWN})
    project.run(local_mode).assert_outcomes(failed=1)
    assert project.record()["evaluation"]["reward"] == 0.25


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("place", ["/workspace", "/tests"])
def test_a_module_that_an_agent_plants_is_not_imported(
    project: Project, local_mode: str, place: str
) -> None:
    project.task(verify=GRADE)
    plant = f'mkdir -p {place}; echo "{PAY}" > {place}/aec_verify.py; chmod 444 {place}/*.py'
    project.run(f"--aec-agent=a=command:{plant}", local_mode).assert_outcomes(failed=1)
    assert project.record()["evaluation"]["reward"] == 0


@pytest.mark.needs("namespaces")
def test_the_supplied_file_is_not_taken_for_the_verifiers_own(project: Project) -> None:
    project.task(verify=GRADE)
    project.run("--aec-check", "-k", "writes").assert_outcomes(passed=1)
