"""An agent sees neither tests nor solution, and cannot grade itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import VERIFY, Project

PRETEND = '{"reward": 1}'
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'


@pytest.fixture(params=["auto", "rewriting"])
def local_mode(request: pytest.FixtureRequest) -> str:
    return f"--aec-local-mode={request.param}"


def earns_nothing(project: Project, command: str, *options: str) -> None:
    project.run(f"--aec-agent=a=command:{command}", *options).assert_outcomes(failed=1)
    assert project.record()["evaluation"]["reward"] == 0


def test_the_agent_sees_neither_tests_nor_solution(project: Project, local_mode: str) -> None:
    project.task()
    looked = "command:ls -A /tests /solution > seen.txt 2>&1; cat /tests/* /solution/* >> seen.txt"
    project.run(f"--aec-agent={looked}", local_mode).assert_outcomes(failed=1)
    jobs = project.path / project.record()["outputs"]["jobs_dir"]
    seen = (jobs / "workspace/seen.txt").read_text()
    assert "test.sh" not in seen
    assert "solve.sh" not in seen
    assert "reward" not in seen


@pytest.mark.needs("namespaces")
def test_the_task_cannot_be_read_from_the_host_either(project: Project) -> None:
    directory = project.task()
    for path in (directory, directory / "tests/verify.py", directory / "solution/solve.sh"):
        assert path.exists()
    looked = f"command:cat {directory}/tests/* {directory}/solution/* > seen.txt; ls {directory}"
    project.run(f"--aec-agent={looked}", "--aec-local-mode=namespaces").assert_outcomes(failed=1)
    jobs = project.path / project.record()["outputs"]["jobs_dir"]
    assert (jobs / "workspace/seen.txt").read_text() == ""


@pytest.mark.needs("namespaces")
def test_other_trials_and_the_ledger_cannot_be_read_from_the_host(project: Project) -> None:
    project.task()
    project.run().assert_outcomes(passed=1)
    looked = f"command:ls -A {project.path}/jobs {project.path}/artefacts/ledger > seen.txt"
    project.run(f"--aec-agent={looked}", "--aec-local-mode=namespaces").assert_outcomes(failed=1)
    (seen,) = project.path.glob("jobs/*/*/workspace/seen.txt")
    assert "exp-" not in seen.read_text()


def test_the_oracle_alone_gets_the_solution(project: Project, local_mode: str) -> None:
    project.task(solve="ls /solution > /workspace/seen.txt")
    project.run(local_mode).assert_outcomes(failed=1)
    (seen,) = project.path.glob("jobs/*/*/workspace/seen.txt")
    assert seen.read_text() == "solve.sh\n"


def test_a_reward_written_beforehand_counts_for_nothing(project: Project, local_mode: str) -> None:
    project.task()
    command = f"mkdir -p /logs/verifier; echo '{PRETEND}' > /logs/verifier/reward.json"
    earns_nothing(project, command, local_mode)


def test_a_reward_written_beforehand_does_not_stand_in_for_a_missing_one(
    project: Project, local_mode: str
) -> None:
    project.task(test_sh="true")
    command = f"command:echo '{PRETEND}' | tee /logs/verifier/reward.json /logs/verifier/reward.txt"
    project.run(f"--aec-agent=a={command}", local_mode).assert_outcomes(errors=1)


def test_a_background_process_cannot_rewrite_the_reward(project: Project, local_mode: str) -> None:
    project.task()
    loop = f"while :; do echo '{PRETEND}' > /logs/verifier/reward.json; done"
    command = f'setsid nohup bash -c "trap true TERM HUP; {loop}" >/dev/null 2>&1 & sleep 0.2'
    earns_nothing(project, command.replace('"reward"', '\\"reward\\"'), local_mode)


def test_a_planted_test_script_is_not_the_one_that_runs(project: Project, local_mode: str) -> None:
    project.task()
    script = f"echo '{PRETEND}' > /logs/verifier/reward.json"
    command = f'mkdir -p /tests; echo "{script}" > /tests/test.sh; chmod 555 /tests/test.sh /tests'
    earns_nothing(project, command.replace('"reward"', '\\"reward\\"'), local_mode)


def test_a_link_in_place_of_tests_leads_nowhere(project: Project, tmp_path: Path) -> None:
    project.task()
    target = tmp_path / "elsewhere"
    target.mkdir()
    for mode in ("namespaces", "rewriting"):
        command = "command:for dir in /tests /logs/verifier; do "
        command += f"rm -rf $dir; ln -s {target} $dir; done"
        project.run(f"--aec-agent=a={command}", f"--aec-local-mode={mode}").assert_outcomes(
            failed=1
        )
    assert list(target.iterdir()) == []


SHADOW_PYTHON = (
    "for dir in /usr/local/bin /usr/bin $(dirname $(command -v python3)); do "
    'printf "#!/bin/bash\\necho 1 > /logs/verifier/reward.txt\\n" > $dir/python3; '
    "done 2>/dev/null; true"
)
SHADOW_JSON = (
    "for dir in /workspace $(python3 -c 'import site; print(*site.getsitepackages())') "
    "$(python3 -c 'import json, os; print(os.path.dirname(os.path.dirname(json.__file__)))'); do "
    "echo \"open('/logs/verifier/reward.txt', 'w').write('1'); raise SystemExit\" > $dir/json.py; "
    "rm -rf $dir/json; done 2>/dev/null; true"
)


@pytest.mark.parametrize("command", [SHADOW_PYTHON, SHADOW_JSON], ids=["python3", "json"])
@pytest.mark.needs("namespaces")
def test_shadowing_the_interpreter_or_a_module_earns_nothing_in_separate_mode(
    project: Project, command: str
) -> None:
    project.task(toml=SEPARATE)
    earns_nothing(project, command, "--aec-local-mode=namespaces")


@pytest.mark.needs("namespaces")
def test_separate_verification_sees_the_workspace_and_nothing_else(project: Project) -> None:
    project.task(
        toml=SEPARATE,
        verify=VERIFY
        + """
import os
assert not os.path.exists("/opt/planted"), "the agent's file system leaked"
assert not os.listdir("/logs/agent"), "the agent's logs leaked"
""",
    )
    answer = '{\\"current_a\\": 2, \\"power_w\\": 24}'
    command = f'command:echo "{answer}" > output.jsonl; touch /opt/planted /logs/agent/note'
    result = project.run(f"--aec-agent=a={command}", "--aec-local-mode=namespaces")
    result.assert_outcomes(passed=1)
    record = project.record()
    assert record["evaluation"]["verifier_returncode"] == 0
    jobs = project.path / record["outputs"]["jobs_dir"]
    assert (jobs / "logs/agent/note").exists()
    assert not (jobs / "verifier-workspace").exists()


def test_the_hosts_environment_does_not_reach_the_sandbox(
    project: Project, local_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret-0123456789")
    monkeypatch.setenv("SOME_SETTING", "of the host")
    project.task()
    project.run("--aec-agent=command:env > seen.txt", local_mode).assert_outcomes(failed=1)
    (seen,) = project.path.glob("jobs/*/*/workspace/seen.txt")
    assert "ANTHROPIC" not in seen.read_text()
    assert "SOME_SETTING" not in seen.read_text()
