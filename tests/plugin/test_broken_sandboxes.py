"""An agent that breaks its sandbox or its verifier is scored: no zero becomes an error."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from pytest_aecbench.testing.hostility import ATTACKS
from tests.project import SOLVE, Project

pytestmark = pytest.mark.slow  # about sandboxes, not versions

# Fails in the sandbox of the agent, or in all; "{when}" is an expression.
BACKEND = """
    from pytest_aecbench import {kind}
    from pytest_aecbench.backends.local import LocalBackend

    class Failing(LocalBackend):
        agents = []

        def launch_trial(self, **kwargs):
            handle = super().launch_trial(**kwargs)
            if kwargs["workspace_dir"].name == "workspace":
                Failing.agents.append(handle)
            return handle

        def execute_trial(self, *, handle, request):
            if {when}:
                raise {kind}("the lights went out")
            return super().execute_trial(handle=handle, request=request)

    def pytest_aecbench_make_backend(config, name):
        return Failing()
"""


def failing(project: Project, when: str, kind: str = "SandboxGone") -> None:
    project.task()
    project.pytester.makeconftest(BACKEND.format(when=when, kind=kind))


@pytest.mark.parametrize("mode", ["separate", "shared"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_agent_that_breaks_its_files_gets_what_its_work_earns(
    project: Project, attack: str, mode: str
) -> None:
    project.task(toml=f'[verifier]\nenvironment_mode = "{mode}"\n')
    agent = {"name": "a", "harness": "command", "parameters": {"command": ATTACKS[attack]}}
    project.path.joinpath("experiment.yaml").write_text(json.dumps({"agents": [agent]}))
    result = project.run("--aec-experiment=experiment.yaml")
    result.assert_outcomes(failed=1)
    assert project.record()["evaluation"]["reward"] == 0


def test_a_sandbox_that_is_lost_twice_is_scored_with_the_cause(anyhow: Project) -> None:
    failing(anyhow, "handle in self.agents")
    result = anyhow.run("--junitxml=out.xml", "-rf")
    result.assert_outcomes(failed=1)
    cause = "agent broke its sandbox: the lights went out"
    first, second = sorted(anyhow.records(), key=lambda record: record["attempt"])
    assert first["evaluation"]["error"]["cause"] == "sandbox_gone"
    assert (second["evaluation"]["reward"], second["evaluation"]["cause"]) == (0, cause)
    assert second["agent_result"]["end"] == "sandbox_broken"
    (failure,) = ElementTree.parse(anyhow.path / "out.xml").iter("failure")
    assert failure.get("message", "").startswith(f"{cause}; ")
    properties = ElementTree.parse(anyhow.path / "out.xml").iter("property")
    assert ("aec.cause", cause) in {(one.get("name"), one.get("value")) for one in properties}
    assert cause in result.stdout.str()


def test_a_sandbox_that_is_lost_once_costs_nothing(anyhow: Project) -> None:
    failing(anyhow, "handle in self.agents[:1]")
    anyhow.run().assert_outcomes(passed=1)
    assert sorted(record["evaluation"]["validity"] for record in anyhow.records()) == [
        "error",
        "scored",
    ]


def test_a_backend_that_is_lost_is_an_error(anyhow: Project) -> None:
    failing(anyhow, "handle in self.agents", kind="BackendLost")
    anyhow.run().assert_outcomes(errors=1)
    assert anyhow.record()["evaluation"]["error"]["cause"] == "backend_lost"


def test_sandboxes_that_are_lost_without_an_agent_too_are_an_error(anyhow: Project) -> None:
    failing(anyhow, "True")
    anyhow.run().assert_outcomes(errors=1)
    assert {record["evaluation"]["validity"] for record in anyhow.records()} == {"error"}


def test_a_sandbox_that_was_broken_from_within_is_scored_at_once(anyhow: Project) -> None:
    failing(anyhow, "handle in self.agents", kind="SandboxBroken")
    anyhow.run().assert_outcomes(failed=1)
    assert anyhow.record()["evaluation"]["cause"].startswith("agent broke its sandbox: ")


def test_work_that_was_done_before_the_sandbox_broke_counts(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(
        """
        from pytest_aecbench import SandboxBroken
        from pytest_aecbench.backends.local import LocalBackend

        class Broken(LocalBackend):
            def stop(self, handle):
                raise SandboxBroken("nothing can be stopped")

        def pytest_aecbench_make_backend(config, name):
            return Broken()
        """
    )
    project.run().assert_outcomes(passed=1)
    evaluation = project.record()["evaluation"]
    cause = "agent broke its sandbox: nothing can be stopped"
    assert (evaluation["reward"], evaluation["cause"]) == (1, cause)


CRASHES = """
    if grep -q crash /workspace/output.jsonl; then exit 3; fi
    if grep -q slow /workspace/output.jsonl; then sleep 1000; fi
    python3 /tests/verify.py
"""


@pytest.mark.parametrize("mode", ["separate", "shared"])
@pytest.mark.parametrize(
    ("output", "why"), [("crash", "exit code 3"), ("slow", "timed out")], ids=["crash", "slow"]
)
def test_work_that_breaks_the_verifier_earns_nothing(
    anyhow: Project, mode: str, output: str, why: str
) -> None:
    toml = f'[verifier]\nenvironment_mode = "{mode}"\ntimeout_sec = 3\n'
    anyhow.task(toml=toml, solve=f"echo {output} > output.jsonl", test_sh=CRASHES)
    anyhow.run().assert_outcomes(failed=1)
    evaluation = anyhow.record()["evaluation"]
    assert evaluation["reward"] == 0
    assert evaluation["cause"].startswith("agent's work broke the verifier: ")
    assert why in evaluation["cause"]


@pytest.mark.parametrize("mode", ["separate", "shared"])
def test_a_verifier_that_is_broken_itself_is_an_error(anyhow: Project, mode: str) -> None:
    anyhow.task(toml=f'[verifier]\nenvironment_mode = "{mode}"\n', test_sh="exit 3\n")
    anyhow.run().assert_outcomes(errors=1)
    assert anyhow.record()["evaluation"]["error"]["cause"] == "verifier"


def test_nothing_is_left_of_the_second_look(project: Project) -> None:
    project.task(solve="echo crash > output.jsonl", test_sh=CRASHES)
    project.run().assert_outcomes(failed=1)
    jobs = project.path / project.record()["outputs"]["jobs_dir"]
    directories = {path.name for path in jobs.parent.iterdir() if path.is_dir()}
    assert directories == {"instructions", jobs.name}
    assert {path.name for path in jobs.iterdir()} == {"logs", "workspace"}


def test_the_verifier_has_its_own_sandbox_unless_the_task_says_otherwise(
    anyhow: Project,
) -> None:
    verify = "if [ -e /tmp/mark ]; then r=1; else r=0; fi; echo $r > /logs/verifier/reward.txt\n"
    shared = '[verifier]\nenvironment_mode = "shared"\n'
    harbor = 'schema_version = "1.1"\n'
    app = {"environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n"}
    solve = f"{SOLVE}\ntouch /tmp/mark"
    for name, toml, files in (
        ("civil/own", "", {}),
        ("civil/shared", shared, {}),
        ("civil/harbor", harbor, {}),
        ("civil/elsewhere", "", app),
    ):
        anyhow.task(name, toml=toml, solve=solve, test_sh=verify, files=files)
    anyhow.run("--aec-local-mode=namespaces")
    rewards = {
        record["task"]["task_id"]: record["evaluation"]["reward"] for record in anyhow.records()
    }
    assert rewards == {
        "civil/elsewhere": 1,
        "civil/harbor": 1,
        "civil/own": 0,
        "civil/shared": 1,
    }


AHEAD = """
    import threading
    from pytest_aecbench.backends.local import LocalBackend

    class Counting(LocalBackend):
        launched = threading.Semaphore(0)

        def launch_trial(self, **kwargs):
            handle = super().launch_trial(**kwargs)
            Counting.launched.release()
            return handle

        def execute_trial(self, *, handle, request):
            if "the agent works" in request.command:
                both = [Counting.launched.acquire(timeout=30) for _ in range(2)]
                assert all(both), "the verifier has no sandbox yet"
            return super().execute_trial(handle=handle, request=request)

    def pytest_aecbench_make_backend(config, name):
        return Counting()
"""


@pytest.mark.needs("namespaces")
def test_the_verifiers_sandbox_starts_while_the_agent_works(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(AHEAD)
    result = project.run(f"--aec-agent=command:: the agent works; {SOLVE}")
    result.assert_outcomes(passed=1)
