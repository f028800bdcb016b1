"""The gcp backend: whole runs through Google's clients, against stand-ins that run the tasks."""

from __future__ import annotations

import re
import signal
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench import evaluate, run
from pytest_aecbench.backends.gcp import job, scripts
from pytest_aecbench.backends.gcp.cloud import Cloud as Clients
from pytest_aecbench.backends.gcp.images import Registry
from pytest_aecbench.backends.remote import calls
from pytest_aecbench.backends.remote.environment import Environment
from tests.conformance.gcp import BUCKET, ENDS, Cloud
from tests.costs import at_night
from tests.e2e.shipped import AGENTS, ROOT, expected, some_or_all
from tests.project import HALF, SOLVE
from tests.standins.batch import GoogleFault, Mishap
from tests.standins.batch_boxes import LOST_REPORTS, PREEMPTED
from tests.standins.registry import RegistryServer
from tests.stopping import wait_until

pytestmark = pytest.mark.needs("namespaces")

NEVER_ENDS = "command:sleep 4321"


def rewards(cloud: Cloud) -> dict[tuple[str, str], float | None]:
    """Return the reward of each task and agent, where there is one record of each."""
    return {
        (one["task"]["task_id"], one["agent"]["name"]): one["evaluation"]["reward"]
        for one in cloud.project.records()
    }


# One job for all trials


def test_all_trials_of_an_image_are_one_job(cloud: Cloud) -> None:
    cloud.task("electrical/a")
    cloud.task("electrical/b")
    result = cloud.run("--aec-agent=oracle", "--aec-agent=nop", f"--aec-agent=half={HALF}")
    result.assert_outcomes(passed=2, failed=4)
    assert rewards(cloud) == {
        (f"electrical/{task}", agent): reward
        for task in "ab"
        for agent, reward in {"oracle": 1.0, "nop": 0.0, "half": 0.35}.items()
    }
    assert cloud.created() == 1
    assert cloud.left() == ([], [])
    record = cloud.project.records()[0]
    assert record["environment"]["backend"] == "gcp"
    assert record["timing"]["verify"] > 0
    (call,) = cloud.server.called(cloud.server.CREATE)
    labels = call.body["labels"]
    assert labels["aecbench"] == "1"
    assert labels["aecbench-experiment"] == job.label(record["experiment_id"])
    assert call.body["allocationPolicy"]["labels"] == labels  # the machines', for the bill
    # Nothing polls for itself: tasks are listed when some have ended, and never asked one by one.
    assert len(cloud.server.called(cloud.server.TASKS)) <= 6
    assert cloud.server.called(r"GET .*/tasks/\d") == []


def test_images_and_limits_that_differ_are_jobs_of_their_own(cloud: Cloud) -> None:
    cloud.task("electrical/a")
    cloud.task("electrical/b", toml="memory_mb = 512\n")
    cloud.run().assert_outcomes(passed=2)
    assert cloud.created() == 2
    assert cloud.left() == ([], [])


def test_parallelism_is_the_jobs(cloud: Cloud) -> None:
    cloud.task()
    options = ("--aec-gcp-parallelism=2", "--aec-concurrency=3")
    cloud.run("--aec-repetitions=3", *options).assert_outcomes(passed=3)
    (call,) = cloud.server.called(cloud.server.CREATE)
    assert int(call.body["taskGroups"][0]["parallelism"]) == 2
    assert int(call.body["taskGroups"][0]["taskCount"]) == 3


def test_keys_that_are_not_the_jobs_are_read(cloud: Cloud) -> None:
    """Those of the definition are tried in tests/unit/test_gcp_job.py."""
    disk = "/mnt/disks/scratch"
    cloud.configure(
        bucket="another-1", project="project-9", parallelism=2, disks=[f"pd-ssd:10:{disk}"]
    )
    cloud.task(verify=None, test_sh=f"[ -e {disk} ] || echo 1 > /logs/verifier/reward.txt")
    agent = f"--aec-agent=slow=command:touch {disk}/left && sleep 1 && touch done"
    cloud.run("--aec-repetitions=3", agent).assert_outcomes(passed=3)
    assert len([*(cloud.project.path / "jobs").glob("*/*/workspace/done")]) == 3
    (call,) = cloud.server.called(cloud.server.CREATE)
    assert call.path.startswith("/v1/projects/project-9/locations/us-central1/")
    (group,) = call.body["taskGroups"]
    assert int(group["parallelism"]) == 2
    volume, _ = group["taskSpec"]["volumes"]
    assert volume["gcs"]["remotePath"].startswith("another-1/aecbench/")
    assert len(cloud.server.called(cloud.server.GET)) > 4  # poll_sec is 0.2, and by default 5
    made = cloud.buckets.resource("another-1")
    assert made["location"] == "us-central1"
    (rule,) = made["lifecycle"]["rule"]
    assert rule == {"action": {"type": "Delete"}, "condition": {"age": 14}}
    assert made["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True


def test_more_tasks_than_a_job_may_have_are_several_jobs(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_MOST_TASKS", 2)
    cloud.task()
    cloud.run("--aec-repetitions=5").assert_outcomes(passed=5)
    sizes = [
        call.body["taskGroups"][0]["taskCount"] for call in cloud.server.called(cloud.server.CREATE)
    ]
    assert [*map(int, sizes)] == [2, 2, 1]
    assert cloud.left() == ([], [])


def test_resume_and_k_shrink_the_job(cloud: Cloud) -> None:
    cloud.task("electrical/a")
    cloud.task("electrical/other", instruction="Write another `/workspace/output.jsonl`.")
    cloud.run("-k", "not other").assert_outcomes(passed=1, deselected=1)
    result = cloud.run("--aec-resume")
    result.assert_outcomes(passed=2)
    sizes = [
        call.body["taskGroups"][0]["taskCount"] for call in cloud.server.called(cloud.server.CREATE)
    ]
    assert [*map(int, sizes)] == [1, 1]


# What happens in a task


def test_a_verifier_apart_gets_the_workspace_and_nothing_else(cloud: Cloud) -> None:
    cloud.task(
        verify=None,
        test_sh="""
        [ ! -e /logs/agent/trace ] && [ ! -e output.jsonl ] && [ "$(cat kept)" = "é" ] || exit 1
        [ "$(readlink inner)" = kept ] && [ ! -e fifo ] || exit 2
        [ ! -e /logs/verifier/reward.txt ] || exit 3
        echo 1 > /logs/verifier/reward.txt
        """,
    )
    agent = """command:
        [ -z "$(ls -A /tests)" ] || exit 9
        echo 0.5 > /logs/verifier/reward.txt; touch /logs/agent/trace; printf é > kept
        ln -s kept inner; ln -s /tests/test.sh output.jsonl; mkfifo fifo
        (setsid sleep 4321 &)
    """
    result = cloud.run(f"--aec-agent=sly={agent}")
    result.assert_outcomes(passed=1)
    record = cloud.project.record()
    assert record["evaluation"]["reward"] == 1
    assert record["agent_result"]["status"] == "completed"
    (workspace,) = (cloud.project.path / "jobs").glob("*/*/workspace")
    assert (workspace / "kept").read_text() == "é"
    assert (workspace.parent / "logs/agent/trace").exists()
    assert any("output.jsonl" in warning for warning in record["warnings"])


def test_a_shared_verifier_runs_where_the_agent_did(cloud: Cloud) -> None:
    cloud.task(
        toml='[verifier]\nenvironment_mode = "shared"\n',
        verify=None,
        test_sh="""
        [ -e /tmp/left ] && [ ! -e /tests/planted ] || exit 1
        [ -z "$(ls -A /logs/verifier)" ] || exit 2
        ! grep -lzx 4321 /proc/[0-9]*/cmdline || exit 3
        echo 1 > /logs/verifier/reward.txt
        """,
    )
    agent = """command:
        touch /tmp/left; ! ls /tests/test.sh || exit 9
        mkdir -p /tests /logs/verifier; touch /tests/planted
        echo 0.5 > /logs/verifier/reward.txt
        (setsid sleep 4321 &)
    """
    cloud.run(f"--aec-agent=sly={agent}").assert_outcomes(passed=1)


def test_an_agent_that_times_out_is_verified(cloud: Cloud) -> None:
    cloud.task(toml="[agent]\ntimeout_sec = 1\n")
    half = HALF.removeprefix("command:")
    cloud.run(f"--aec-agent=slow=command:{half}; sleep 60").assert_outcomes(failed=1)
    record = cloud.project.record()
    assert record["evaluation"]["reward"] == 0.35
    assert record["agent_result"]["status"] == "timed_out"


def test_nothing_is_verified_if_that_is_not_wanted(cloud: Cloud) -> None:
    cloud.task()
    assert cloud.run("--aec-no-verify").ret == 0
    record = cloud.project.record()
    assert record["evaluation"]["reward"] is None
    assert record["completeness"] == "complete"


def test_files_of_an_agent_go_in_and_stay_out_of_its_results(cloud: Cloud) -> None:
    cloud.task()
    script = cloud.project.path / "solve.sh"
    script.write_text("""echo '{"current_a": 2, "power_w": 24}' > output.jsonl""")
    options = ("--aec-agent-files=solve.sh", "--aec-agent=own=command:bash solve.sh")
    cloud.run(*options).assert_outcomes(passed=1)
    (trial,) = (cloud.project.path / "jobs").glob("*/*/workspace")
    assert [path.name for path in trial.iterdir()] == ["output.jsonl"]
    assert not (trial.parent / "logs/agent/files").exists()
    assert sorted(path.name for path in trial.parent.iterdir()) == ["logs", "workspace"]


def test_work_that_breaks_the_verifier_earns_nothing(cloud: Cloud) -> None:
    cloud.task(verify=None, test_sh="[ -e bomb ] || echo 1 > /logs/verifier/reward.txt")
    result = cloud.run("--aec-agent=bomber=command:touch bomb")
    result.assert_outcomes(failed=1)
    evaluation = cloud.project.record()["evaluation"]
    assert (evaluation["reward"], evaluation["validity"]) == (0, "scored")
    assert cloud.left() == ([], [])


def test_a_verifier_that_is_broken_itself_is_an_error(cloud: Cloud) -> None:
    cloud.task("electrical/a", verify=None, test_sh="exit 3")
    slow = '[verifier]\nenvironment_mode = "separate"\ntimeout_sec = 1\n'
    cloud.task("electrical/b", toml=slow, verify=None, test_sh="sleep 4321")
    result = cloud.run()
    result.assert_outcomes(errors=2)
    lines = ["*VerifierError*exit code 3*", "*VerifierError*(timed out): stopped*"]
    result.stdout.fnmatch_lines_random(lines)
    assert max(one["timing"]["verify"] for one in cloud.project.records()) < 8


def test_stored_outputs_are_evaluated_as_one_job(cloud: Cloud) -> None:
    cloud.task("electrical/a")
    cloud.task("electrical/b")
    cloud.run(f"--aec-agent=half={HALF}", "--aec-experiment-id=one").assert_outcomes(failed=2)
    before = cloud.created()
    cloud.run("--aec-evaluate=one", "--aec-concurrency=1").assert_outcomes(failed=2)
    assert cloud.created() == before + 1
    group = cloud.server.called(cloud.server.CREATE)[-1].body["taskGroups"][0]
    assert (int(group["taskCount"]), int(group["parallelism"])) == (2, 1)
    assert {one["evaluation"]["reward"] for one in cloud.project.records()} == {0.35}


@pytest.mark.slow
def test_evaluate_is_one_job_for_everything(cloud: Cloud) -> None:
    """The call of the documentation, for which nothing but the project is configured."""
    cloud.task("electrical/a")
    cloud.task("electrical/b")
    with cloud.environment():
        run(run_name="large_experiment", backend="gcp", directory=cloud.project.path)
        before = cloud.created()
        found = evaluate(
            run_name="large_experiment",
            backend="gcp",
            concurrency=200,
            directory=cloud.project.path,
        )
    assert [record.evaluation.reward for record in found.records] == [1, 1]
    assert (before, cloud.created()) == (1, 2)
    group = cloud.server.called(cloud.server.CREATE)[-1].body["taskGroups"][0]
    assert (int(group["taskCount"]), int(group["parallelism"])) == (2, 2)
    assert cloud.left() == ([], [])


# Failures


def test_one_lost_machine_costs_no_sibling_its_result_and_leaves_a_log(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "_LOG_SEC", 1)
    cloud.task()
    cloud.server.mishaps.append(Mishap(PREEMPTED, index=1, after_sec=4))
    agent = f"--aec-agent=slow=command:echo first words; {SOLVE}; sleep 5"
    result = cloud.run(agent, "--aec-repetitions=3")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*BackendLost: gcp: job *, task 1: exit code 50001: *preempted*"])
    causes = [one["evaluation"]["error"] for one in cloud.project.records()]
    assert [cause["cause"] for cause in causes if cause] == ["backend_lost"]
    (log,) = (cloud.project.path / "jobs").glob("*/*/gcp.log")
    assert "agent: out: first words\n" in log.read_text()
    assert cloud.left() == ([], [])


def test_a_trial_whose_inputs_cannot_be_staged_costs_no_sibling_its_result(cloud: Cloud) -> None:
    """The others keep their places in the job, by which their files are named."""
    cloud.task()
    refused = cloud.buckets.refuse_writes(r"/in-1\.tar$")
    cloud.run("--aec-agent=nop", f"--aec-agent=half={HALF}", "--aec-agent=oracle")
    refused.clear()
    found = {agent: reward for (_, agent), reward in rewards(cloud).items()}
    (lost,) = (agent for agent, reward in found.items() if reward is None)
    assert found == {"nop": 0.0, "half": 0.35, "oracle": 1.0, lost: None}
    errors = [one["evaluation"]["error"] for one in cloud.project.records()]
    (said,) = [error["message"] for error in errors if error]
    assert said.startswith("gcp: an upload: ")
    assert cloud.left() == ([], [])


@pytest.mark.nightly
def test_every_end_of_a_machine_is_told_apart_with_what_to_do_and_its_log(cloud: Cloud) -> None:
    cloud.task()
    for index, code in enumerate(ENDS):
        cloud.server.mishaps.append(Mishap(code, index=index, after_sec=20))
    agent = "--aec-agent=slow=command:echo said; sleep 60"
    cloud.run(f"--aec-repetitions={len(ENDS)}", "--aec-retries=0", agent)
    records = [one for one in cloud.project.records() if one["attempt"] == 1]
    found = {one["repetition"]: one["evaluation"]["error"] for one in records}
    (job_id,) = {call.path.partition("jobId=")[2][:25] for call in _first(cloud)}
    for number, (code, (cause, words)) in enumerate(ENDS.items()):
        error = next(one for one in found.values() if f"task {number}: " in one["message"])
        assert error["cause"] == cause, (code, error)
        message = f"gcp: job {job_id}, task {number}: *{words}*; its log is in *; all that its "
        message += "machine said is at https://console.cloud.google.com/logs/query;query=labels."
        assert fnmatchcase(error["message"], f"{message}job_uid*project=project-1"), error
        log = Path(error["message"].partition("its log is in ")[2].partition(";")[0]).read_text()
        assert "Batch: Task state is updated from ASSIGNED to RUNNING" in log
        assert "agent: the command starts; it has" in log
        assert f"exit code {code}" in log


def _first(cloud: Cloud) -> list[Any]:
    return cloud.server.called(cloud.server.CREATE)[:1]


def test_lost_machines_are_retried_and_every_attempt_is_recorded(cloud: Cloud) -> None:
    cloud.task()
    cloud.server.mishaps += [Mishap(PREEMPTED, index=0), Mishap(LOST_REPORTS, index=2)]
    result = cloud.run("--aec-repetitions=3", "--aec-retries=2", "--aec-retry-delay=0.01")
    result.assert_outcomes(passed=3)
    attempts = sorted((one["repetition"], one["attempt"]) for one in cloud.project.records())
    assert len(attempts) == 5
    assert cloud.created() in (2, 3)  # those that were retried share a job, if they come in time
    assert cloud.left() == ([], [])


def test_batch_itself_retries_if_it_is_asked_to(cloud: Cloud) -> None:
    cloud.configure(max_retry_count=2)
    cloud.task()
    cloud.server.mishaps.append(Mishap(PREEMPTED))
    cloud.run().assert_outcomes(passed=1)
    assert cloud.created() == 1
    assert "1 machine lost" in cloud.project.record()["warnings"][0]


def test_a_missing_output_is_an_error_of_its_trial_alone(cloud: Cloud) -> None:
    cloud.task()
    cloud.server.vanishing[1] = "*/verify-1.tar"
    result = cloud.run("--aec-repetitions=2")
    result.assert_outcomes(passed=2)  # it is tried once more, as task 0 of another job
    first = [one["evaluation"]["error"] for one in cloud.project.records()]
    (told,) = [error["message"] for error in first if error]
    assert re.match(
        r"gcp: job \S+, task 1: .* without the verifier's result; its log is in /", told
    )


def test_an_image_that_cannot_be_pulled_is_told(cloud: Cloud) -> None:
    cloud.task()
    cloud.server.machines.missing_images.add("python:3.11-slim")
    result = cloud.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*LaunchError: gcp: *exit code 125: *image may be missing*"])


def test_a_job_that_someone_deletes_is_an_error_of_its_trials(cloud: Cloud) -> None:
    cloud.task()
    cloud.server.exhaust_quota()
    run = cloud.start()
    wait_until(lambda: cloud.server.jobs)
    cloud.server.jobs.clear()
    assert run.wait(60) == 1
    assert "was deleted by someone else" in run.output()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "permission": (
        {"status": 403, "message": "Permission 'batch.jobs.list' denied"},
        "gcp: listing jobs: not allowed; *'batch.jobs.list' denied; give your account the roles *",
    ),
    "api": (
        {"status": 403, "message": "Batch API is off", "reason": "SERVICE_DISABLED"},
        "gcp: listing jobs: an API is not enabled; run 'gcloud services enable batch.*'",
    ),
    "credentials": (
        {"status": 401, "message": "Request had invalid authentication credentials."},
        "gcp: listing jobs: the credentials are refused; *; run 'gcloud auth application-default *",
    ),
}


def test_a_run_without_credentials_says_how_to_get_them(cloud: Cloud) -> None:
    cloud.task()
    del cloud.env["GOOGLE_APPLICATION_CREDENTIALS"]
    cloud.env |= {"HOME": str(cloud.project.path), "CLOUDSDK_CONFIG": str(cloud.project.path)}
    result = cloud.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: gcp: no credentials; run 'gcloud auth application-default login', or set *"]
    )


@pytest.mark.parametrize("kind", REFUSED)
def test_an_account_that_cannot_create_jobs_is_refused_in_one_line(cloud: Cloud, kind: str) -> None:
    fault, line = REFUSED[kind]
    cloud.task()
    cloud.server.faults.append(GoogleFault(cloud.server.LIST, times=9, **fault))
    result = cloud.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {line}"])
    assert cloud.project.records() == []


def test_a_job_that_is_refused_is_an_error_of_its_trials_alone(cloud: Cloud) -> None:
    cloud.task("electrical/a")
    cloud.task("electrical/b", toml="memory_mb = 512\n")
    fault = GoogleFault(cloud.server.CREATE, status=400, message="machine type x is not known")
    cloud.server.faults.append(fault)
    result = cloud.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*gcp: creating a job: refused; machine type x is not known*"])
    assert cloud.left() == ([], [])


def test_services_that_are_busy_are_asked_again(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "FIRST_WAIT_SEC", 0.05)
    cloud.task()
    for pattern in (cloud.server.CREATE, cloud.server.GET, cloud.server.TASKS):
        cloud.server.faults.append(GoogleFault(pattern, times=2, status=503))
    cloud.run().assert_outcomes(passed=1)
    assert cloud.left() == ([], [])


# Progress


def test_progress_says_what_a_job_waits_for(cloud: Cloud) -> None:
    cloud.task()
    cloud.server.exhaust_quota()
    run = cloud.start("--aec-progress=0.2")
    wait_until(lambda: "a quota is exhausted" in run.output())
    cloud.server.grant_quota()
    assert run.wait(60) == 0
    line = next(line for line in run.output().splitlines() if "quota" in line)
    assert "Batch: 1 queued; a quota is exhausted; ask for more at https://" in line
    assert "(Quota 'CPUS' exceeded. Limit: 24.0 in region us-central1)" in line
    (call,) = cloud.server.called(cloud.server.CREATE)
    page = "https://console.cloud.google.com/batch/jobsDetail/regions/us-central1/jobs/"
    job_id = re.findall("jobId=([^&]*)", call.path)[0]
    assert line.endswith(f"{page}{job_id}/details?project=project-1")


@pytest.mark.nightly
@pytest.mark.parametrize("batch_capacity", [1])
def test_progress_counts_tasks_by_their_state(cloud: Cloud) -> None:
    cloud.task()
    cloud.server.mishaps.append(Mishap(PREEMPTED, index=0, after_sec=0))
    run = cloud.start(
        "--aec-progress=0.2",
        "--aec-repetitions=3",
        "--aec-gcp-parallelism=2",
        "--aec-agent=slow=command:sleep 3",
        "--aec-retries=0",
    )
    run.wait(120)
    states = r"Batch: [^;]*1 scheduled, 1 running, 1 failed"
    assert re.search(states, run.output()), run.output()
    assert re.search(r"Batch: 1 running, 1 succeeded, 1 failed", run.output()), run.output()


# The end of a run


@pytest.mark.parametrize("number", [signal.SIGINT, at_night(signal.SIGTERM)], ids=["int", "term"])
def test_a_signal_deletes_the_job_and_its_objects(cloud: Cloud, number: signal.Signals) -> None:
    cloud.task()
    run = cloud.start("--aec-repetitions=3", f"--aec-agent={NEVER_ENDS}")
    wait_until(lambda: cloud.is_running(3))
    run.process.send_signal(number)
    assert run.wait(60) not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    wait_until(lambda: cloud.left() == ([], []))
    causes = [one["evaluation"]["error"]["cause"] for one in cloud.project.records()]
    assert causes == ["interrupted"] * 3
    assert len(cloud.server.called(cloud.server.DELETE)) == 1


def test_x_deletes_the_job(cloud: Cloud) -> None:
    cloud.task()
    result = cloud.run("-x", "--aec-agent=nop", f"--aec-agent={NEVER_ENDS}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])
    wait_until(lambda: cloud.left() == ([], []))


@pytest.mark.slow
def test_kill_9_leaves_what_reap_removes(cloud: Cloud) -> None:
    cloud.task()
    run = cloud.start("--aec-repetitions=2", f"--aec-agent={NEVER_ENDS}")
    wait_until(lambda: cloud.is_running(2))
    assert "nothing was left" in cloud.reap()  # the run is alive
    run.process.kill()
    run.wait(60)
    jobs, objects = cloud.left()
    assert len(jobs) == 1
    assert len(objects) >= 3
    told = cloud.reap("--dry-run")
    assert f"would remove {jobs[0].rpartition('/')[2]}, gs://{BUCKET}/aecbench/" in told
    assert cloud.left() == (jobs, objects)
    told = cloud.reap()
    assert told.count("recorded electrical/ohms-law") == 2
    wait_until(lambda: cloud.left() == ([], []))


@pytest.mark.nightly
def test_a_service_that_never_answers_is_not_waited_for_without_end(cloud: Cloud) -> None:
    cloud.task()
    run = cloud.start("--aec-repetitions=2", f"--aec-agent={NEVER_ENDS}")
    wait_until(lambda: cloud.is_running(2))
    cloud.server.faults.append(GoogleFault(".", times=10**6, hang=True))
    run.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert run.wait(240) == pytest.ExitCode.INTERRUPTED
    assert time.monotonic() - began < 150
    (job,) = cloud.server.jobs
    told = [line for line in run.output().splitlines() if "may be left" in line]
    assert len(told) == 1, run.output()
    assert re.fullmatch(
        rf"aec: gcp: .*job {job.rpartition('/')[2]} and its files in the bucket may be left; "
        r"'aec-bench reap --backend gcp' removes them after the run( \(and 1 more like this\))?",
        told[0],
    ), told
    assert "Traceback" not in run.output()
    cloud.server.faults.clear()
    cloud.reap()
    wait_until(lambda: cloud.left() == ([], []))


# Usage


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["-n2"], "-n: gcp runs all trials of a run as one job, *; leave -n out, *"),
        (["--aec-check"], "--aec-check: gcp runs whole trials, *--aec-backend=docker or local"),
        (["--aec-keep=all"], "--aec-keep: gcp cannot keep sandboxes; *"),
        (
            ["--aec-agent=tool_loop:openai:gpt-5"],
            "--aec-agent: *: 'tool_loop' sends its commands one by one, and gcp runs whole trials*",
        ),
    ],
    ids=["n", "check", "keep", "host"],
)
def test_what_cannot_be_is_a_usage_error(cloud: Cloud, options: list[str], line: str) -> None:
    cloud.task()
    cloud.env["OPENAI_API_KEY"] = "a-key-for-the-test"
    result = cloud.run(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [said for said in result.errlines + result.outlines if _fits(said, f"ERROR: {line}")]
    assert cloud.created() == 0


def _fits(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def test_an_override_that_wants_a_command_fails_with_a_sentence(cloud: Cloud) -> None:
    cloud.task()
    cloud.project.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def aec_sandbox(aec_sandbox):
            aec_sandbox.execute("true")
            return aec_sandbox
        """
    )
    result = cloud.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*BackendError: gcp runs whole trials and no single commands; *"])


# Single commands

HOST_AGENT = """
    from pytest_aecbench.agents import AgentResult

    class HostAgent:
        def __init__(self, spec):
            pass

        def run(self, task, sandbox, limits):
            first = sandbox.execute("echo '{}' > output.jsonl; echo $HOME")
            again = sandbox.execute("cat output.jsonl")
            assert again.stdout == "{}\\n", again
            uploads = {"/solution": task.path / "solution"}
            sandbox.execute("bash /solution/solve.sh", uploads=uploads)
            return AgentResult(status="completed")

    def pytest_aecbench_make_agent(config, spec):
        return HostAgent(spec) if spec.harness == "host" else None
"""


def test_an_agent_on_the_host_works_by_single_commands(cloud: Cloud) -> None:
    cloud.configure(single=True)
    cloud.task()
    cloud.project.pytester.makeconftest(HOST_AGENT)
    result = cloud.run("--aec-agent=host")
    result.assert_outcomes(passed=1)
    lines = ["*aec: warning: compute.gcp.single: every command is a job of its own, which takes *"]
    result.stdout.fnmatch_lines(lines)
    assert cloud.created() >= 4
    assert cloud.left() == ([], [])


@pytest.mark.slow
def test_tasks_are_checked_by_single_commands(cloud: Cloud) -> None:
    cloud.configure(single=True)
    cloud.task()
    result = cloud.run("--aec-check=solution,empty", "--aec-concurrency=4")
    assert result.ret == 0, result.outlines
    assert cloud.created() >= 4
    assert cloud.left() == ([], [])


# Shipped tasks


@some_or_all
@pytest.mark.slow
def test_shipped_tasks_earn_what_they_earn_elsewhere(cloud: Cloud, names: tuple[str, ...]) -> None:
    """Images are in the registry already, so the stand-in is told what is in them."""
    images = RegistryServer()
    repository = images.reference("project-1/aecbench")
    cloud.configure(repository=repository)
    (cloud.project.path / "tasks").symlink_to(ROOT / "tasks")
    registry = Registry(Clients({}), {"repository": repository})
    for name in names:
        reference = registry.reference(Environment.read(ROOT / "tasks" / name))
        cloud.server.machines.images[reference] = ROOT / "tasks" / name
        path, _, tag = reference.partition("/")[2].rpartition(":")
        images.manifests[path, tag] = ("application/json", b"{}")
    agents = [f"--aec-agent={agent}" for agent in AGENTS]
    cloud.run(*(f"tasks/{name}" for name in names), *agents)
    images.close()
    assert rewards(cloud) == expected(names)
    assert cloud.created() == len(names)
    assert cloud.left() == ([], [])
