"""Bad input gets one line and exit code 4, before anything is collected."""

from __future__ import annotations

import pytest

from tests.project import Project


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--aec-repetitions=0"], "--aec-repetitions: '0' is not valid; use a whole number from 1"),
        (["--aec-repetitions=x"], "--aec-repetitions: 'x' is not a number; use a whole number"),
        (["--aec-threshold=2"], "--aec-threshold: '2' is not valid; use a number from 0 to 1"),
        (["--aec-threshold=nan"], "--aec-threshold: 'nan' is not a number; use"),
        (["--aec-timeout-multiplier=0"], "--aec-timeout-multiplier: '0' is not valid; use a"),
        (["--aec-local-mode=magic"], "--aec-local-mode: 'magic' is not valid; use one of 'auto'"),
        (["--aec-experiment-id=../x"], "--aec-experiment-id: '../x' cannot name an experiment"),
        (["--aec-backend=lcal"], "--aec-backend: 'lcal' is not known; did you mean 'local'?"),
        (["--aec-backend=no.such.Thing"], "--aec-backend: 'no.such.Thing' cannot be imported;"),
        (["--aec-backend=os.path"], "--aec-backend: 'os.path' "),
        (["--aec-agents=x"], "--aec-agents: there is no such option; did you mean --aec-agent?"),
        (["--aec-xyzzy", "1"], "--aec-xyzzy: there is no such option; see pytest --help"),
        (["--aec-agent=orcle"], "--aec-agent: 'orcle' is not known; did you mean 'oracle'?"),
        (["--aec-agent=command:"], "--aec-agent: 'command:' has no command; use command:"),
        (["--aec-agent=!"], "--aec-agent: '!' does not name an agent; use HARNESS"),
        (["--aec-agent=nop", "--aec-agent=nop"], "--aec-agent: two agents are named 'nop';"),
        (["--aec-agent=nop", "--aec-agent=a=nop"], "'nop' and 'a' are the same agent;"),
    ],
)
def test_a_bad_option_is_one_line(project: Project, arguments: list[str], message: str) -> None:
    project.task()
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.errlines if line.strip()]
    assert len(lines) == 1, lines
    assert lines[0].startswith("ERROR: ")
    assert message in lines[0]
    assert project.records() == []


def test_an_option_of_a_conftest_may_look_like_ours(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(
        'def pytest_addoption(parser):\n    parser.addoption("--aec-agents")\n'
    )
    project.run("--aec-agents=x").assert_outcomes(passed=1)


def test_ini_keys_stand_in_for_options_and_options_win(project: Project) -> None:
    project.task()
    project.pytester.makeini(
        "[pytest]\naec_agent =\n    nop\n    oracle\naec_repetitions = 2\naec_threshold = 0\n"
    )
    project.run().assert_outcomes(passed=4)
    project.run("--aec-agent=nop", "--aec-threshold=1").assert_outcomes(failed=2)


def test_native_toml_configuration_works(project: Project) -> None:
    project.task()
    project.pytester.makepyprojecttoml(
        '[tool.pytest]\naec_agent = ["nop"]\naec_repetitions = 3\naec_threshold = 0.0\n'
        'aec_ledger_root = "artefacts/ledger"\naec_no_verify = false\n'
    )
    project.run().assert_outcomes(passed=3)


def test_an_ini_value_of_the_wrong_type_is_one_line(project: Project) -> None:
    project.task()
    project.pytester.makeini("[pytest]\naec_repetitions = many\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert "'many'" in line


def test_help_explains_every_option_in_one_group(project: Project) -> None:
    text = project.pytester.runpytest("--help").stdout.str()
    start = text.index("benchmark trials of AI agents (pytest-aecbench):")
    group = text[start:].split("\n\n")[0]
    for option in (
        "agent",
        "backend",
        "experiment-id",
        "local-mode",
        "no-verify",
        "repetitions",
        "threshold",
        "timeout-multiplier",
    ):
        assert f"--aec-{option}" in group


def test_records_carry_the_experiment_id_given(anyhow: Project) -> None:
    anyhow.task()
    anyhow.run("--aec-experiment-id=mine-1").assert_outcomes(passed=1)
    assert anyhow.record()["experiment_id"] == "mine-1"
    assert (anyhow.path / "artefacts/ledger/mine-1").is_dir()


def test_the_timeout_multiplier_stretches_deadlines(project: Project) -> None:
    project.task(toml="[agent]\ntimeout_sec = 20.0\n[verifier]\ntimeout_sec = 30.0\n")
    project.run("--aec-timeout-multiplier=2.5").assert_outcomes(passed=1)
    inputs = project.record()["inputs"]
    assert (inputs["agent_timeout_sec"], inputs["verifier_timeout_sec"]) == (50.0, 75.0)


@pytest.mark.parametrize("name", ["daytona", "docker", "e2b", "modal"])
def test_a_backend_whose_sdk_is_missing_says_how_to_install_it(project: Project, name: str) -> None:
    project.task()
    project.pytester.makeconftest(f"import sys\nsys.modules[{name!r}] = None\n")
    result = project.pytester.runpytest_subprocess("tasks", f"--aec-backend={name}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert line.endswith(f"{name} is not installed; pip install 'pytest-aecbench[{name}]'")
    assert project.records() == []
