"""What agents left is verified again, without them."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import HALF, VERIFY, Project

pytestmark = pytest.mark.slow  # about records, not versions

LENIENT = VERIFY.replace("0.65 * current + 0.35 * power", "max(current, power)")


def records_of(project: Project, experiment: str) -> list[dict[str, Any]]:
    return [record for record in project.records() if record["experiment_id"] == experiment]


def stored_workspace(project: Project, experiment: str = "mine") -> Path:
    (record,) = records_of(project, experiment)
    return project.path / str(record["outputs"]["jobs_dir"]) / "workspace"


@with_workers_too
def test_todays_verifier_scores_what_agents_left(anyhow: Project) -> None:
    anyhow.task()
    agents = ("--aec-agent=oracle", f"--aec-agent=half={HALF}")
    anyhow.run(*agents, "--aec-experiment-id=mine").assert_outcomes(passed=1, failed=1)
    before = {path: path.read_bytes() for path in anyhow.path.glob("artefacts/ledger/mine/*.json")}
    anyhow.task(verify=LENIENT, solve="exit 1")
    result = anyhow.run("--aec-evaluate=mine", "--aec-experiment-id=again", "--junitxml=out.xml")
    result.assert_outcomes(passed=2)
    assert "aec: evaluating mine, which has 2 trials" in result.stdout.str()
    after = {path: path.read_bytes() for path in anyhow.path.glob("artefacts/ledger/mine/*.json")}
    assert after == before
    old = {record["agent"]["name"]: record for record in records_of(anyhow, "mine")}
    for record in records_of(anyhow, "again"):
        original = old[record["agent"]["name"]]
        assert record["agent"] == original["agent"]
        assert record["evaluates"] == {
            "experiment_id": "mine",
            "trial_id": original["trial_id"],
        }
        assert record["evaluation"]["reward"] == 1
        assert record["agent_result"] == original["agent_result"]
        assert record["timing"]["agent"] is None
        assert record["outputs"]["output_excerpt"] == original["outputs"]["output_excerpt"]
    properties = [
        (one.get("name"), one.get("value"))
        for one in ET.parse(anyhow.path / "out.xml").getroot().iter("property")
    ]
    assert {("aec.evaluates", record["trial_id"]) for record in old.values()} < set(properties)


SPENDER = """
from pytest_aecbench import AgentResult, Usage

class Spender:
    def __init__(self, spec):
        with open("used.txt", "a") as used:
            print("made", file=used)

    def run(self, task, sandbox, limits):
        sandbox.execute("echo '{}' > output.jsonl; mkdir -p /logs/agent; echo hi > /logs/agent/log")
        return AgentResult(
            "limit_reached", usage=Usage(tokens_in=7, tokens_out=5), cost_usd=0.5, error="enough"
        )

def pytest_aecbench_make_agent(config, spec):
    return Spender(spec) if spec.harness == "spender" else None
"""


def test_agents_neither_run_nor_cost_anything_again(anyhow: Project) -> None:
    shared = '[verifier]\nenvironment_mode = "shared"\n'
    anyhow.task(toml=shared, test_sh="cat /logs/agent/log; python3 /tests/verify.py\n")
    (anyhow.path / "conftest.py").write_text(SPENDER)
    anyhow.run("--aec-agent=spender:x", "--aec-experiment-id=mine").assert_outcomes(failed=1)
    used = anyhow.path / "used.txt"
    made = used.read_text()
    anyhow.run("--aec-evaluate=mine", "--aec-experiment-id=again").assert_outcomes(failed=1)
    assert used.read_text() == made
    (first,), (second,) = records_of(anyhow, "mine"), records_of(anyhow, "again")
    assert first["cost"]["usd"] == 0.5
    assert set(second["cost"].values()) == {None}
    assert second["agent_result"]["status"] == "limit_reached"
    printed = anyhow.path / second["outputs"]["jobs_dir"] / "logs/verifier/test-stdout.txt"
    assert printed.read_text() == "hi\n"


def test_the_workspace_is_as_the_agent_left_it(anyhow: Project) -> None:
    tree = "find . | sort > /logs/verifier/tree; cat given.txt >> /logs/verifier/tree"
    anyhow.task(
        solve="rm removed.txt; echo mine > given.txt; mkdir -p a/b; ln -s ../given.txt a/link",
        test_sh=f"{tree}; echo 1 > /logs/verifier/reward.txt",
        files={
            "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\nCOPY *.txt ./\n",
            "environment/given.txt": "theirs",
            "environment/removed.txt": "x",
        },
    )
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    anyhow.run("--aec-evaluate=mine", "--aec-experiment-id=again").assert_outcomes(passed=1)
    (first,), (second,) = records_of(anyhow, "mine"), records_of(anyhow, "again")
    trees = [
        (anyhow.path / record["outputs"]["jobs_dir"] / "logs/verifier/tree").read_text()
        for record in (first, second)
    ]
    assert trees == [".\n./a\n./a/b\n./a/link\n./given.txt\nmine\n"] * 2


CARELESS = """
from pytest_aecbench.backends.local import LocalBackend

class Careless(LocalBackend):
    def execute_trial(self, *, handle, request):
        import dataclasses
        elsewhere = dataclasses.replace(request, cwd="/logs")
        return super().execute_trial(handle=handle, request=elsewhere)

def pytest_aecbench_make_backend(config, name):
    return Careless() if name == "careless" else None
"""


def test_nothing_is_removed_but_in_the_sandboxs_working_directory(project: Project) -> None:
    project.task(test_sh="ls /logs/agent; echo 1 > /logs/verifier/reward.txt")
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    (project.path / "conftest.py").write_text(CARELESS)
    result = project.run("--aec-evaluate=mine", "--aec-backend=careless")
    result.assert_outcomes(errors=1)
    assert "cannot be restored in the sandbox; not in the sandbox's working directory" in (
        result.stdout.str()
    )


def test_what_was_never_verified_can_be(project: Project) -> None:
    project.task()
    project.run("--aec-no-verify", "--aec-experiment-id=mine")
    project.run("--aec-evaluate=mine", "--aec-experiment-id=again").assert_outcomes(passed=1)


def test_what_a_broken_verifier_left_unscored_can_be_scored(project: Project) -> None:
    project.task(test_sh="exit 1")
    project.run("--aec-experiment-id=mine").assert_outcomes(errors=1)
    project.task()
    project.run("--aec-evaluate=mine", "--aec-experiment-id=again").assert_outcomes(passed=1)


def test_only_trials_that_are_stored_are_run(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.task("electrical/b")
    anyhow.run("--aec-repetitions=2", "--aec-experiment-id=mine", "tasks/civil")
    anyhow.run("--aec-agent=nop", "--aec-resume=mine", "tasks/electrical")
    anyhow.task("water/c")
    anyhow.run("--aec-evaluate=mine").assert_outcomes(passed=2, failed=1)
    anyhow.run("--aec-evaluate=mine", "--aec-agent=nop").assert_outcomes(failed=1)
    anyhow.run("--aec-evaluate=mine", "tasks/civil").assert_outcomes(passed=2)
    anyhow.run("--aec-evaluate=mine", "-k", "nop").assert_outcomes(failed=1)


def test_agents_of_one_name_are_told_apart(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine", "--aec-agent=me=oracle").assert_outcomes(passed=1)
    project.run("--aec-resume=mine", "--aec-agent=me=nop").assert_outcomes(failed=1)
    project.run("--aec-evaluate=mine").assert_outcomes(passed=1, failed=1)


def remove_workspace(workspace: Path) -> None:
    shutil.rmtree(workspace)


def remove_output(workspace: Path) -> None:
    (workspace / "output.jsonl").unlink()


def truncate_output(workspace: Path) -> None:
    (workspace / "output.jsonl").write_text("{")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (remove_workspace, "workspace: is not there any more; bring it back or run the trial"),
        (remove_output, "1 of its files are gone or changed, such as 'workspace/output.jsonl'"),
        (truncate_output, "1 of its files are gone or changed, such as 'workspace/output.jsonl'"),
    ],
)
def test_a_workspace_that_is_not_whole_is_an_error_and_no_zero(
    project: Project, harm: Any, message: str
) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    harm(stored_workspace(project))
    result = project.run("--aec-evaluate=mine", "--aec-experiment-id=again", "--aec-retries=1")
    result.assert_outcomes(errors=1)
    assert message in result.stdout.str()
    (record,) = records_of(project, "again")
    assert record["evaluation"]["validity"] == "error"
    assert record["evaluation"]["error"]["cause"] == "ledger"
    assert record["evaluates"]["experiment_id"] == "mine"


def test_a_workspace_that_was_not_collected_whole_is_an_error(project: Project) -> None:
    project.task(solve="ln -s /etc/passwd output.jsonl; mkfifo pipe", test_sh=ONE)
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    (record,) = records_of(project, "mine")
    assert record["completeness"] == "partial"
    result = project.run("--aec-evaluate=mine")
    result.assert_outcomes(errors=1)
    assert "was not collected whole (not collected: workspace/output.jsonl (absolute link)" in (
        result.stdout.str()
    )


def test_trials_that_cannot_be_evaluated_do_not_keep_others_from_it(anyhow: Project) -> None:
    for name in "abcd":
        anyhow.task(f"civil/{name}")
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=4)
    for record in records_of(anyhow, "mine")[:2]:
        shutil.rmtree(anyhow.path / record["outputs"]["jobs_dir"] / "workspace")
    result = anyhow.run("--aec-evaluate=mine", "--aec-experiment-id=again", "-v")
    result.assert_outcomes(passed=2, errors=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    shown = result.stdout.str()
    assert shown.count("workspace: is not there any more") >= 2
    assert "not recorded either" not in shown
    assert len(records_of(anyhow, "again")) == 4


def test_an_evaluation_that_is_stopped_does_not_advise_to_resume_it(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    stop = "def pytest_runtest_teardown(item):\n    item.session.shouldstop = 'enough'\n"
    (project.path / "conftest.py").write_text(stop)
    result = project.run("--aec-evaluate=mine", "--aec-experiment-id=again")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "aec: again" in result.stdout.str()
    assert "--aec-resume" not in result.stdout.str()


ONE = "echo 1 > /logs/verifier/reward.txt"


OUTAGE = """
from pytest_aecbench import ProviderError

class Unlucky:
    def run(self, task, sandbox, limits):
        sandbox.execute("echo '{}' > output.jsonl")
        raise ProviderError("model: 503 after 5 tries")

def pytest_aecbench_make_agent(config, spec):
    return Unlucky() if spec.harness == "unlucky" else None
"""


def test_an_outage_does_not_become_a_zero(project: Project) -> None:
    project.task()
    (project.path / "conftest.py").write_text(OUTAGE)
    project.run("--aec-agent=unlucky", "--aec-experiment-id=mine").assert_outcomes(errors=1)
    assert (stored_workspace(project) / "output.jsonl").is_file()
    result = project.run("--aec-evaluate=mine")
    result.assert_outcomes(errors=1)
    assert "its agent never finished (provider); run the trial again" in result.stdout.str()


def test_ini_keys_for_runs_of_agents_do_not_matter(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    project.pytester.makeini(
        "[pytest]\naec_agent = nop\naec_repetitions = 3\naec_no_verify = true\n"
    )
    project.run("--aec-evaluate=mine").assert_outcomes(passed=1)


def test_a_trial_that_died_before_it_had_files_is_an_error(project: Project) -> None:
    project.task(solve=None)
    project.run("--aec-experiment-id=mine").assert_outcomes(errors=1)
    shutil.rmtree(project.path / "jobs")
    project.run("--aec-evaluate=mine").assert_outcomes(errors=1)


def test_a_changed_instruction_is_noted_and_the_old_one_kept(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    project.task(instruction="Write to /workspace/output.jsonl what you will.")
    project.run("--aec-evaluate=mine", "--aec-experiment-id=again").assert_outcomes(passed=1)
    (first,), (second,) = records_of(project, "mine"), records_of(project, "again")
    assert first["inputs"]["instruction_sha256"] == second["inputs"]["instruction_sha256"]
    assert second["warnings"] == ["the task's instruction has changed since the agent followed it"]
    assert first["trial_key"] != second["trial_key"]


def test_tasks_that_are_gone_are_named(project: Project) -> None:
    project.task("civil/a")
    gone = project.task("civil/b")
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=2)
    shutil.rmtree(gone)
    result = project.run("--aec-evaluate=mine")
    result.assert_outcomes(passed=1)
    assert "which has 2 trials, 1 of them at tasks that are gone: civil/b" in result.stdout.str()


def test_an_evaluation_can_be_gated_and_evaluated_again(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine", "--aec-agent=nop").assert_outcomes(failed=1)
    first = project.run("--aec-evaluate=mine", "--aec-experiment-id=again", "--aec-gate=mean>=0")
    assert first.ret == 0
    project.run("--aec-evaluate=again", "--aec-experiment-id=third").assert_outcomes(failed=1)
    (record,) = records_of(project, "third")
    assert record["evaluates"]["experiment_id"] == "again"
    assert len(list((project.path / "artefacts/ledger").glob("*/*.json"))) == 3


def test_the_scored_attempt_is_evaluated(project: Project) -> None:
    project.task(test_sh="exit 1")
    project.run("--aec-experiment-id=mine").assert_outcomes(errors=1)
    project.task()
    project.run("--aec-resume=mine").assert_outcomes(passed=1)
    (scored,) = [one for one in project.records() if one["evaluation"]["reward"] == 1]
    project.run("--aec-evaluate=mine", "--aec-experiment-id=again").assert_outcomes(passed=1)
    (record,) = records_of(project, "again")
    assert record["evaluates"]["trial_id"] == scored["trial_id"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--aec-evaluate=nosuch"], "--aec-evaluate: experiment 'nosuch' not found in "),
        (["--aec-evaluate=empty"], "--aec-evaluate: 'empty' has no records"),
        (
            ["--aec-evaluate=mine", "--aec-resume=mine"],
            "so --aec-resume has no meaning; leave it out",
        ),
        (
            ["--aec-evaluate=mine", "--aec-no-verify"],
            "so --aec-no-verify has no meaning; leave it out",
        ),
        (
            ["--aec-evaluate=mine", "--aec-repetitions=2"],
            "so --aec-repetitions has no meaning; leave it out",
        ),
        (["--aec-evaluate=mine", "--aec-experiment-id=mine"], "'mine' keeps its records as they"),
        (["--aec-evaluate=mine", "--aec-agent=nop"], "'nop' has no trials in mine; use one of ora"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(
    project: Project, arguments: list[str], message: str
) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    (project.path / "artefacts/ledger/empty").mkdir()
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert message in line


def test_records_that_vanish_meanwhile_are_errors_of_their_trials(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    (path,) = (project.path / "artefacts/ledger/mine").glob("*.json")
    vanish = f"import os\ndef pytest_collection_finish():\n    os.unlink({json.dumps(str(path))})\n"
    (project.path / "conftest.py").write_text(vanish)
    result = project.run("--aec-evaluate=mine")
    result.assert_outcomes(errors=1)
    assert "cannot be read; No such file" in result.stdout.str()


TWO_CLIENTS = """
agents:
- name: here
  harness: command
  model: m
  parameters: {command: 'echo "{}" > output.jsonl'}
  client: {kind: openai, settings: {base_url: 'http://here'}}
- name: there
  harness: command
  model: m
  parameters: {command: 'echo "{}" > output.jsonl'}
  client: {kind: openai, settings: {base_url: 'http://there'}}
"""


def test_agents_that_differ_only_in_their_client_are_two(project: Project) -> None:
    from pytest_aecbench.ledger.store import Ledger
    from pytest_aecbench.reports.leaderboard import leaderboard

    project.task()
    (project.path / "experiment.yaml").write_text(TWO_CLIENTS)
    experiment = "--aec-experiment=experiment.yaml"
    project.run(experiment, "--aec-experiment-id=mine").assert_outcomes(failed=2)
    digests = {record["agent"]["client_sha256"] for record in records_of(project, "mine")}
    assert len(digests) == 2
    assert None not in digests
    project.run("--aec-evaluate=mine", "--aec-experiment-id=again").assert_outcomes(failed=2)
    names = {record["agent"]["name"] for record in records_of(project, "again")}
    assert names == {"here", "there"}
    records = Ledger(project.path / "artefacts/ledger").records("mine")
    rows = leaderboard(records).rows
    assert {(row.agent, row.summary.overall.trials) for row in rows} == {("here", 1), ("there", 1)}
    resumed = project.run(experiment, "--aec-resume=mine")
    resumed.assert_outcomes(failed=2)
    assert "2 trials settled already" in resumed.stdout.str()
