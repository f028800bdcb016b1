"""Rewards become outcomes; broken infrastructure is an error and never a zero."""

from __future__ import annotations

import fnmatch
import json
import xml.etree.ElementTree as ET

import pytest

from tests.plugin.conftest import in_every_mode, with_workers_too
from tests.project import HALF, Project

BY_DAY = ("lanes",)


def writes(reward: object) -> str:
    """Return a verifier that writes just this reward."""
    return f"cat > /logs/verifier/reward.json <<'EOF'\n{json.dumps(reward)}\nEOF\n"


def test_a_reward_at_the_threshold_passes(anyhow: Project) -> None:
    anyhow.task(test_sh=writes({"reward": 0.5}))
    result = anyhow.run("--aec-threshold=0.5", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*PASSED (0.5)*"])
    evaluation = anyhow.record()["evaluation"]
    assert (evaluation["reward"], evaluation["passed"], evaluation["validity"]) == (
        0.5,
        True,
        "scored",
    )


@in_every_mode
def test_a_reward_below_the_threshold_fails_and_says_what_was_needed(anyhow: Project) -> None:
    anyhow.task()
    result = anyhow.run(f"--aec-agent={HALF}", "-v")
    result.assert_outcomes(failed=1)
    assert "reward 0.35, needed 1 (current_a 0, power_w 1)" in result.stdout.str()
    assert "FAILED (0.35)" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    evaluation = anyhow.record()["evaluation"]
    assert (evaluation["reward"], evaluation["passed"]) == (0.35, False)
    assert evaluation["details"] == {"current_a": 0, "power_w": 1}


def test_the_tasks_own_threshold_counts_unless_one_is_given(project: Project) -> None:
    project.task(toml="[metadata]\npass_threshold = 0.3\n")
    project.run(f"--aec-agent={HALF}").assert_outcomes(passed=1)
    project.run(f"--aec-agent={HALF}", "--aec-threshold=0.4").assert_outcomes(failed=1)


def test_an_agent_that_exits_non_zero_is_verified_all_the_same(anyhow: Project) -> None:
    anyhow.task(solve='echo \'{"current_a": 2, "power_w": 24}\' > output.jsonl; exit 7')
    anyhow.run().assert_outcomes(passed=1)
    outcome = anyhow.record()["agent_result"]
    assert (outcome["status"], outcome["returncode"]) == ("failed", 7)
    assert outcome["error"] == "exit code 7"


def test_an_agent_that_times_out_is_verified_all_the_same(anyhow: Project) -> None:
    anyhow.task(
        toml="[agent]\ntimeout_sec = 0.5\n",
        solve='echo \'{"current_a": 2, "power_w": 24}\' > output.jsonl; sleep 60',
    )
    anyhow.run().assert_outcomes(passed=1)
    record = anyhow.record()
    assert record["agent_result"]["status"] == "timed_out"
    assert record["timing"]["agent"] < 10


def test_an_agent_that_writes_nothing_is_scored(anyhow: Project) -> None:
    anyhow.task()
    anyhow.run("--aec-agent=nop").assert_outcomes(failed=1)
    assert anyhow.record()["evaluation"]["reward"] == 0


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("true", "no reward.json or reward.txt"),
        (writes({"reward": 1.5}), "1.5"),
        (writes({"reward": "lots"}), "lots"),
        (writes({"reward": None}), "reward"),
        (writes([1]), "reward.json"),
        ("echo NaN > /logs/verifier/reward.txt", "reward.txt"),
        ("echo '{' > /logs/verifier/reward.json", "reward.json"),
        ("touch /logs/verifier/reward.json", "empty"),
        ("mkdir /logs/verifier/reward.json", "reward.json"),
    ],
)
def test_a_verifier_without_a_usable_reward_is_an_error_never_a_zero(
    project: Project, script: str, found: str
) -> None:
    project.task(test_sh=f"echo last words >&2\n{script}\nexit 3\n")
    result = project.run()
    result.assert_outcomes(errors=1)
    record = project.record()
    assert record["evaluation"]["validity"] == "error"
    assert record["evaluation"]["reward"] is None
    error = record["evaluation"]["error"]
    assert (error["cause"], error["type"]) == ("verifier", "VerifierError")
    for part in ("bash /tests/test.sh", "exit code 3", "last words", found):
        assert part in error["message"]
        assert part in result.stdout.str()


@pytest.mark.parametrize(
    ("content", "reward"),
    [("1", 1), ("0.25\n", 0.25), ("true", 1)],
)
def test_reward_txt_counts_where_there_is_no_reward_json(
    project: Project, content: str, reward: float
) -> None:
    project.task(test_sh=f"echo '{content}' > /logs/verifier/reward.txt")
    project.run("--aec-threshold=0").assert_outcomes(passed=1)
    assert project.record()["evaluation"]["reward"] == reward


def test_a_non_zero_verifier_with_a_valid_reward_is_a_warning(project: Project) -> None:
    project.task(test_sh=writes({"reward": 1}) + "exit 4\n")
    project.run().assert_outcomes(passed=1)
    record = project.record()
    assert record["evaluation"]["verifier_returncode"] == 4
    assert any("exit code 4" in warning for warning in record["warnings"])


def test_a_verifier_that_hangs_is_an_error(project: Project) -> None:
    project.task(toml="[verifier]\ntimeout_sec = 0.5\n", test_sh="echo started\nsleep 60\n")
    project.run().assert_outcomes(errors=1)
    message = project.record()["evaluation"]["error"]["message"]
    assert "timed out" in message
    assert "started" in message


def test_verify_py_alone_is_enough_of_a_verifier(project: Project) -> None:
    project.task(test_sh=None)
    project.run().assert_outcomes(passed=1)


def test_a_solution_may_be_a_python_script(project: Project) -> None:
    project.task(
        solve=None,
        files={
            "solution/solve.py": "import json\n"
            "answer = {'current_a': 2, 'power_w': 24}\n"
            "open('/workspace/output.jsonl', 'w').write(json.dumps(answer))\n"
        },
    )
    project.run().assert_outcomes(passed=1)


def test_the_oracle_without_a_solution_is_an_error(anyhow: Project) -> None:
    anyhow.task(solve=None)
    result = anyhow.run()
    result.assert_outcomes(errors=1)
    assert "solution: no solve.sh or solve.py" in result.stdout.str()
    assert anyhow.record()["evaluation"]["error"]["cause"] == "task"


def test_without_verification_outputs_are_kept_and_nothing_is_scored(anyhow: Project) -> None:
    anyhow.task(test_sh="exit 1")
    result = anyhow.run("--aec-no-verify", "-v")
    assert result.ret == 0
    assert "UNVERIFIED" in result.stdout.str()
    record = anyhow.record()
    assert record["evaluation"]["validity"] == "unverified"
    jobs = anyhow.path / record["outputs"]["jobs_dir"]
    assert json.loads((jobs / "workspace/output.jsonl").read_text())["power_w"] == 24


@pytest.mark.parametrize("stage", ["build_environment", "launch_trial", "execute_trial"])
def test_a_backend_that_breaks_is_an_error_with_its_cause(anyhow: Project, stage: str) -> None:
    causes = {
        "build_environment": ("BuildError", "build"),
        "launch_trial": ("LaunchError", "launch"),
        "execute_trial": ("SandboxGone", "sandbox_gone"),
    }
    kind, cause = causes[stage]
    anyhow.task()
    anyhow.pytester.makeconftest(
        f"""
        from pytest_aecbench import {kind}
        from pytest_aecbench.backends.local import LocalBackend

        class Broken(LocalBackend):
            def {stage}(self, **kwargs):
                raise {kind}("the lights went out")

        def pytest_aecbench_make_backend(config, name):
            return Broken()
        """
    )
    result = anyhow.run()
    result.assert_outcomes(errors=1)
    assert f"{kind}: the lights went out" in result.stdout.str()
    error = anyhow.records()[-1]["evaluation"]["error"]
    assert (error["cause"], error["type"]) == (cause, kind)


def test_a_backend_that_refuses_before_the_run_is_one_line(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        """
        from pytest_aecbench import LaunchError
        from pytest_aecbench.backends.local import LocalBackend

        class Refusing(LocalBackend):
            def preflight(self):
                raise LaunchError("nobody is at home; come back later")
            def reap(self):
                raise LaunchError("nobody is at home; come back later")

        def pytest_aecbench_make_backend(config, name):
            return Refusing()
        """
    )
    result = anyhow.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = result.stdout.str() + result.stderr.str()
    assert shown.count("nobody is at home") == 1
    assert anyhow.records() == []


@with_workers_too
def test_a_provider_that_fails_is_an_error(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        """
        from pytest_aecbench import ProviderError

        class Unlucky:
            def run(self, task, sandbox, limits):
                raise ProviderError("401 from the provider; check ANTHROPIC_API_KEY")

        def pytest_aecbench_make_agent(config, spec):
            return Unlucky()
        """
    )
    result = anyhow.run()
    result.assert_outcomes(errors=1)
    error = anyhow.record()["evaluation"]["error"]
    assert (error["cause"], error["phase"]) == ("provider", "agent")


@with_workers_too
def test_an_unexpected_exception_is_an_internal_error_shown_in_full(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        """
        class Buggy:
            def run(self, task, sandbox, limits):
                return 1 / 0

        def pytest_aecbench_make_agent(config, spec):
            return Buggy()
        """
    )
    result = anyhow.run()
    result.assert_outcomes(errors=1)
    assert "ZeroDivisionError" in result.stdout.str()
    assert "return 1 / 0" in result.stdout.str()
    assert anyhow.record()["evaluation"]["error"]["cause"] == "internal"


NOTHING = "no /workspace/output.jsonl written"


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        ("python3 my_agent.py", f"agent exited with 2: *: can't open file * directory; {NOTHING}"),
        ("no-such-agent", f"agent exited with 127: *: no-such-agent: command not found; {NOTHING}"),
        ("exit 3", f"agent exited with 3; {NOTHING}"),
        ("sleep 100", f"agent timed out after 1 s; {NOTHING}"),
        ("true", NOTHING),
        ("echo '{}' > output.jsonl; exit 4", "agent exited with 4"),
    ],
)
def test_a_trial_that_fails_says_first_what_the_agent_did(
    anyhow: Project, command: str, cause: str
) -> None:
    anyhow.task(toml="[agent]\ntimeout_sec = 1\n")
    result = anyhow.run(f"--aec-agent=command:{command}", "--junitxml=out.xml")
    result.assert_outcomes(failed=1)
    files = anyhow.record()["outputs"]["jobs_dir"]
    sentence = f"{cause}; reward 0, needed 1 (current_a 0, power_w 0); files in {files}"
    result.stdout.fnmatch_lines([sentence])
    (failure,) = ET.parse(anyhow.path / "out.xml").iter("failure")
    assert fnmatch.fnmatch(failure.get("message") or "", sentence)
