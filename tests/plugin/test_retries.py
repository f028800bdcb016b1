"""Infrastructure that failed is tried again; a reward never is."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import HALF, Project

FLAKY = """
    import os
    from pathlib import Path

    from pytest_aecbench import {error}
    from pytest_aecbench.backends.local import LocalBackend

    class Flaky(LocalBackend):
        def {method}(self, **kwargs):
            count = Path("calls.txt")
            with count.open("a") as file:
                file.write("x")
            if len(count.read_text()) <= {failures}:
                raise {error}("the lights went out")
            return super().{method}(**kwargs)

    def pytest_aecbench_make_backend(config, name):
        return Flaky()
    """

QUICK = "--aec-retry-delay=0.01"


@pytest.mark.parametrize(
    ("method", "error", "failures"),
    [
        ("launch_trial", "LaunchError", 2),
        ("execute_trial", "BackendLost", 2),
        ("collect_outputs", "BackendLost", 4),  # tried once more for evidence
        ("build_environment", "BackendError", 2),
    ],
)
def test_a_failure_of_the_infrastructure_is_tried_again(
    anyhow: Project, method: str, error: str, failures: int
) -> None:
    anyhow.task(toml='[verifier]\nenvironment_mode = "shared"\n')
    anyhow.pytester.makeconftest(FLAKY.format(method=method, error=error, failures=failures))
    result = anyhow.run("--aec-retries=2", QUICK, "-v", "--junitxml=out.xml")
    assert result.ret == 0
    assert result.stdout.str().count("RETRIED") == 2
    assert "3 attempts at 1 trials" in result.stdout.str()
    records = sorted(anyhow.records(), key=lambda record: record["attempt"])
    assert [record["attempt"] for record in records] == [1, 2, 3]
    assert [record["evaluation"]["validity"] for record in records] == ["error", "error", "scored"]
    assert len({record["trial_key"] for record in records}) == 1
    assert len({record["outputs"]["jobs_dir"] for record in records}) == 3
    xml = (anyhow.path / "out.xml").read_text()
    assert 'tests="1"' in xml
    assert 'errors="0"' in xml
    # Of earlier attempts, the testcase has nothing.
    properties = [*ElementTree.fromstring(xml).iter("property")]
    names = [one.get("name") for one in properties]
    assert len(names) == len(set(names))
    assert records[-1]["trial_id"] in [one.get("value") for one in properties]


@with_workers_too
def test_attempts_end_with_their_number(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        FLAKY.format(method="launch_trial", error="LaunchError", failures=99)
    )
    result = anyhow.run("--aec-retries=1", QUICK)
    assert result.ret == 1
    assert "1 error" in result.stdout.str()
    assert len(anyhow.records()) == 2


@pytest.mark.parametrize(
    ("agent", "test_sh", "outcome"),
    [
        (HALF, "python3 /tests/verify.py", {"failed": 1}),
        ("oracle", "exit 1", {"errors": 1}),
    ],
)
def test_neither_a_low_reward_nor_a_broken_verifier_is_tried_again(
    anyhow: Project, agent: str, test_sh: str, outcome: dict[str, int]
) -> None:
    anyhow.task(test_sh=test_sh)
    anyhow.run("--aec-retries=3", QUICK, f"--aec-agent={agent}").assert_outcomes(**outcome)
    assert len(anyhow.records()) == 1


def test_nothing_is_tried_again_unless_asked(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        FLAKY.format(method="launch_trial", error="LaunchError", failures=1)
    )
    anyhow.run().assert_outcomes(errors=1)


@with_workers_too
def test_a_trial_after_a_retried_one_runs_as_ever(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.task("civil/b")
    anyhow.task("ground/c")
    anyhow.pytester.makeconftest(
        FLAKY.format(method="launch_trial", error="LaunchError", failures=1)
    )
    result = anyhow.run("--aec-retries=1", QUICK)
    result.assert_outcomes(passed=3)
    assert len(anyhow.records()) == 4


@pytest.mark.parametrize("given", [("--reruns=2",), ("-o", "reruns=2")], ids=["option", "ini"])
def test_reruns_until_a_trial_passes_are_refused(anyhow: Project, given: tuple[str, ...]) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(  # the options of pytest-rerunfailures
        """
        def pytest_addoption(parser):
            parser.addoption("--reruns", type=int, dest="reruns")
            parser.addini("reruns", "how often", type="string")
        """
    )
    result = anyhow.run(*given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--reruns: a trial that is repeated until it passes *"])
    assert anyhow.records() == []
    anyhow.run().assert_outcomes(passed=1)
