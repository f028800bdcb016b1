"""What a run is going to do is settled once, written down, and the same for every worker."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import Project
from tests.stopping import start, wait_until, worker_of

TELL = """
    import json

    def pytest_configure(config):
        handed = getattr(config, "workerinput", None)
        if handed is not None:
            told = {"aecbench": handed["aecbench"]}
            (config.rootpath / f"told-{handed['workerid']}.json").write_text(json.dumps(told))
    """


@with_workers_too
def test_the_plan_names_the_run_and_its_trials_in_order(anyhow: Project) -> None:
    anyhow.task("civil/a", toml="[agent]\ntimeout_sec = 10.0\n")
    anyhow.task("civil/b", toml="[agent]\ntimeout_sec = 30.0\n")
    anyhow.task("civil/c", toml="[agent]\ntimeout_sec = 20.0\n")
    anyhow.run("-k", "not civil/nosuch", "--aec-agent=nop", "--aec-experiment-id=mine")
    (path,) = (anyhow.path / "jobs/mine").glob("*.plan.json")
    plan = json.loads(path.read_text())
    (run_id,) = {record["run_id"] for record in anyhow.records()}
    assert (path.name, plan["run_id"]) == (f"{run_id}.plan.json", run_id)
    assert (plan["schema_version"], plan["experiment_id"]) == (1, "mine")
    assert (plan["backend"], plan["agents"], plan["repetitions"]) == ("local", ["nop"], 1)
    one_by_one = anyhow.mode in ((), ("-n0",))
    order = "abc" if one_by_one else "bca"  # the long ones go first
    assert plan["trials"] == [f"tasks/civil/{name}/task.toml::trial[nop-1]" for name in order]
    assert plan["reused"] == {}


@pytest.mark.parametrize("arguments", [("--collect-only",), ("--collect-only", "-n2")])
def test_nothing_is_written_where_nothing_runs(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.task()
    project.run(*arguments)
    project.run("--setup-plan")
    assert not (project.path / "jobs").exists()


def test_a_worker_that_replaces_another_is_told_the_same(project: Project, seconds: str) -> None:
    project.task("civil/a", instruction="One.")
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    (known,) = project.records()
    project.task("civil/b", instruction="Two.", solve=f"touch started; sleep {seconds}")
    project.task("civil/c", instruction="Three.")
    project.pytester.makeconftest(TELL)
    process = start(project, "-n2", "--aec-resume=mine")
    wait_until(lambda: len(project.records()) == 2)  # which is more to reuse, if one asked
    os.kill(worker_of(project), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert "1 error" in output
    told = {path.name: json.loads(path.read_text()) for path in project.path.glob("told-*")}
    assert len(told) == 3, output
    first = told["told-gw0.json"]
    assert all(each == first for each in told.values())
    assert first["aecbench"]["reusable"] == {
        "trial_ids": {known["trial_key"]: [known["trial_id"]]},
        "settled": {known["trial_key"]: known["trial_id"]},
    }
    plan_file = project.path / f"jobs/mine/{first['aecbench']['settings']['run_id']}.plan.json"
    plan = json.loads(plan_file.read_text())
    assert plan["reused"] == first["aecbench"]["reusable"]["settled"]
    assert plan["experiment_id"] == first["aecbench"]["settings"]["experiment_id"]
    assert {record["run_id"] for record in project.records()} == {known["run_id"], plan["run_id"]}
