"""Infrastructure that failed is tried again; a reward never is."""

from __future__ import annotations

import textwrap
import xml.etree.ElementTree as ElementTree

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import HALF, Project

BY_DAY = ("lanes",)

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
    assert "3 attempts at 1 trial\n" in result.stdout.str()
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


def test_delays_double_up_to_a_minute_and_are_not_the_same_for_all(project: Project) -> None:
    project.task()
    waits = """
    import random
    import time

    def pytest_configure():
        random.seed(1)
        sleep = time.sleep
        time.sleep = lambda seconds: sleep(seconds) if seconds < 1 else note(seconds)

    def note(seconds):
        print(seconds, file=open("waits.txt", "a"))
    """
    lost = FLAKY.format(method="launch_trial", error="LaunchError", failures=99)
    project.pytester.makeconftest(f"{textwrap.dedent(lost)}\n{textwrap.dedent(waits)}")
    project.pytester.runpytest_subprocess("tasks", "--aec-retries=30", "--aec-retry-delay=10")
    waited = [float(line) for line in (project.path / "waits.txt").read_text().splitlines()]
    shares = [wait / full for wait, full in zip(waited, [10, 20, 40] + [60] * 27, strict=True)]
    assert all(0.5 <= share <= 1.5 for share in shares)
    assert min(shares) < 0.6
    assert max(shares) > 1.4


def test_a_trial_starts_and_finishes_once_however_often_it_is_tried(project: Project) -> None:
    project.task()
    lost = FLAKY.format(method="launch_trial", error="LaunchError", failures=1)
    watched = """
    def pytest_runtest_logstart(nodeid):
        print("start", nodeid, file=open("seen.txt", "a"))

    def pytest_runtest_logfinish(nodeid):
        print("finish", nodeid, file=open("seen.txt", "a"))
    """
    project.pytester.makeconftest(f"{textwrap.dedent(lost)}\n{textwrap.dedent(watched)}")
    project.run("--aec-retries=1", QUICK).assert_outcomes(passed=1)
    seen = (project.path / "seen.txt").read_text().split()
    assert seen[::2] == ["start", "finish"]
    assert seen[1] == seen[3]


DYING = """
    import os
    from pathlib import Path

    import pytest

    def die(item, name, times):
        if name in item.nodeid:
            with Path(f"{name}.txt").open("a+") as file:
                file.write("x")
                file.seek(0)
                if len(file.read()) <= times:
                    os._exit(1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(item):
        yield
        records = Path("artefacts/ledger/e").glob("*.json")
        if "once" in item.nodeid:
            known = sum("civil/once" in record.read_text() for record in records)
            Path("known.txt").write_text(str(known))
        die(item, "once", 1)
        die(item, "twice", 2)
        die(item, "plain", 1)

    def pytest_runtest_teardown(item):
        die(item, "late", 1)
    """


@pytest.mark.slow
def test_a_trial_whose_worker_dies_is_tried_as_often_as_any_other(project: Project) -> None:
    for name in ("once", "twice", "very-late"):
        project.task(f"civil/{name}")
    project.pytester.makepyfile(test_plain="def test_plain(): pass")
    project.pytester.makeconftest(DYING)
    options = ("-n1", "--max-worker-restart=9", "--aec-retries=1")
    result = project.run("tasks", "test_plain.py", "--aec-experiment-id=e", *options)
    # The late one has its reward, and what is not a trial is left to xdist.
    result.assert_outcomes(passed=1, errors=2, failed=1)
    result.stdout.fnmatch_lines(["*2 retried*"])
    validities = sorted(record["evaluation"]["validity"] for record in project.records())
    assert validities == ["crashed"] * 3 + ["scored"] * 2
    assert (project.path / "known.txt").read_text() == "1", "recorded before it is tried again"
    # A reward of an earlier run is not this run's.
    (project.path / "once.txt").unlink()
    again = ("--aec-resume=e", "--aec-rerun=all")
    project.run("tasks/civil/once", *again, *options).assert_outcomes(passed=1)
    assert len(project.records()) == 7


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
