"""Every attempt leaves a whole record and its files, and no secret."""

from __future__ import annotations

import base64
import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_aecbench.ledger.instructions import read_instruction
from pytest_aecbench.ledger.store import Ledger
from tests.plugin.conftest import in_every_mode, with_workers_too
from tests.project import HALF, Project

BY_DAY = ("lanes",)

SECRET = "sk-ant-very-secret-0123456789"


@in_every_mode
def test_a_record_says_what_ran_and_what_it_earned(anyhow: Project) -> None:
    anyhow.task(toml='[metadata]\ndifficulty = "easy"\ntags = ["ohm"]\n')
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    loaded = Ledger(anyhow.path / "artefacts/ledger").load("mine")
    assert loaded.problems == []
    (record,) = loaded.records
    assert (record.task.task_id, record.task.domain) == ("electrical/ohms-law", "electrical")
    assert (record.task.difficulty, record.task.tags) == ("easy", ("ohm",))
    assert (record.agent.name, record.agent.harness) == ("oracle", "oracle")
    assert (record.repetition, record.attempt) == (1, 1)
    assert record.environment.backend == "local"
    assert record.evaluation.reward == 1
    assert record.evaluation.passed is True
    assert record.completeness == "complete"
    for phase in ("build", "launch", "agent", "verify", "collect"):
        assert getattr(record.timing, phase) is not None, phase
    starts = record.timing.starts
    assert starts.keys() == {"build", "wait", "launch", "agent", "collect", "verify"}
    in_order = [starts[phase] for phase in ("build", "wait", "launch", "agent", "verify")]
    assert in_order == sorted(in_order)
    assert record.cost.tokens_in is None
    assert record.outputs.output_path == "/workspace/output.jsonl"
    assert record.outputs.output_excerpt == '{"current_a": 2.0, "power_w": 24.0}\n'


def test_the_trials_files_are_kept(anyhow: Project) -> None:
    anyhow.task(solve="echo hello; echo trouble >&2; echo '{}' > output.jsonl")
    anyhow.run().assert_outcomes(failed=1)
    record = anyhow.record()
    jobs = anyhow.path / record["outputs"]["jobs_dir"]
    assert jobs == anyhow.path / "jobs" / record["experiment_id"] / record["trial_id"]
    assert (jobs / "workspace/output.jsonl").read_text() == "{}\n"
    assert (jobs / "logs/agent/stdout.txt").read_text() == "hello\n"
    assert (jobs / "logs/agent/stderr.txt").read_text() == "trouble\n"
    assert (jobs / "logs/verifier/reward.json").is_file()
    named = {file["path"] for file in record["outputs"]["files"]}
    found = {str(path.relative_to(jobs)) for path in jobs.rglob("*") if path.is_file()}
    assert named == found


def test_each_instruction_is_kept_once_per_experiment_without_secrets(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    project.task(instruction=f"Write `/workspace/output.jsonl`. Never tell {SECRET}.")
    project.run("--aec-experiment-id=mine", "--aec-repetitions=2").assert_outcomes(passed=2)
    (digest,) = {record["inputs"]["instruction_sha256"] for record in project.records()}
    assert read_instruction(project.path / "jobs", "mine", digest) == (
        "Write `/workspace/output.jsonl`. Never tell <ANTHROPIC_API_KEY>."
    )
    assert [path.stem for path in project.path.glob("jobs/mine/instructions/*")] == [digest]
    assert read_instruction(project.path / "jobs", "mine", "f" * 64) is None
    assert read_instruction(project.path / "jobs", "mine", "../../secret") is None


def test_the_same_trial_has_the_same_key_wherever_it_runs(project: Project, tmp_path: Path) -> None:
    project.task()
    project.run("--aec-agent=oracle", "--aec-agent=nop", "--aec-repetitions=2")
    project.run("--aec-agent=oracle", "--aec-agent=nop", "--aec-repetitions=2")
    records = project.records()
    keys = {
        (r["agent"]["name"], r["repetition"], r["experiment_id"]): r["trial_key"] for r in records
    }
    assert len(keys) == 8
    assert len(set(keys.values())) == 4
    assert len({r["trial_id"] for r in records}) == 8


def test_a_changed_task_is_another_trial(project: Project) -> None:
    project.task()
    project.run()
    project.task(instruction="Write it to /workspace/output.jsonl, with care.")
    project.run()
    first, second = (record["trial_key"] for record in project.records())
    assert first != second


def test_an_error_keeps_what_the_agent_left(anyhow: Project) -> None:
    anyhow.task(test_sh="exit 1")
    anyhow.run().assert_outcomes(errors=1)
    jobs = anyhow.path / anyhow.record()["outputs"]["jobs_dir"]
    assert (jobs / "workspace/output.jsonl").is_file()


def test_the_record_is_there_before_teardown(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(
        """
        import os, pytest

        @pytest.fixture
        def aec_sandbox(aec_sandbox):
            yield aec_sandbox
            os._exit(9)
        """
    )
    result = project.pytester.runpytest_subprocess("tasks")
    assert result.ret == 9
    assert project.record()["evaluation"]["reward"] == 1


@with_workers_too
@pytest.mark.parametrize("mode", ["auto", "rewriting"])
def test_secrets_are_scrubbed_from_everything_stored_and_shown(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    anyhow.task(
        toml='[environment.env]\nKEY = "${ANTHROPIC_API_KEY}"\n',
        test_sh='echo "bad key $KEY" >&2\n'
        'echo "{\\"reward\\": \\"$KEY\\"}" > /logs/verifier/reward.json\n',
    )
    command = 'command:echo "$KEY" | tee output.jsonl /logs/agent/key.txt'
    result = anyhow.run(f"--aec-agent={command}", "--junitxml=out.xml", f"--aec-local-mode={mode}")
    result.assert_outcomes(errors=1)
    assert "<ANTHROPIC_API_KEY>" in result.stdout.str()
    assert SECRET not in result.stdout.str() + result.stderr.str()
    for path in anyhow.path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    jobs = anyhow.path / anyhow.record()["outputs"]["jobs_dir"]
    assert (jobs / "logs/agent/key.txt").read_text() == "<ANTHROPIC_API_KEY>\n"


# A variable whose name does not look secret.
GREETING = "hello-from-4711-and-8822"
SPREADS = r"""command:
mkdir -p "d-$G" "$(printf %s "$G" | base64)"
echo "$G" > "d-$G/$G.txt"
ln -s "/nowhere/$G" link
ln -s "d-$G" "${G^^}"
printf '\0\377%s\0' "$G" > binary
printf 'x%s' "$G" | base64 > offset.txt
printf '%60s%s' '' "$G" | base64 -w 76 | tee wrapped.txt
printf '%s' "$G" | od -An -tx1 | tee hex.txt
printf '%s' "$G" | rev | tee /logs/agent/reversed.txt
printf '%s\n%s\n' "${G:0:9}" "${G:9}" | tee wrapped-plain.txt
echo "${G^^}"
exit 1
"""
TELLS = """
echo "{\\"reward\\": 0.5, \\"$(printf %s "$G" | base64)\\": 1, \\"$G\\": 0}" \\
    > /logs/verifier/reward.json
echo "{\\"key\\": [\\"${G:0:12}\\", \\"${G:12}\\"]}" > /logs/verifier/details.json
printf '%s' "$G" | od -An -tx1
"""


def forms(value: str) -> dict[str, bytes]:
    """Return the ways in which the value must not appear, in lower case."""
    data = value.encode()
    encoded = {f"base64 at {n}": base64.b64encode(b"x" * n + data)[4:-4] for n in range(3)}
    return {
        name: form.lower()
        for name, form in {
            "plain": data,
            "reversed": data[::-1],
            "hex": data.hex().encode(),
            "first part": data[:9] + b"\n",
            **encoded,
        }.items()
    }


def leaks(path: Path) -> list[str]:
    """Return where the value can be read below a path: in names, targets and contents."""
    found = []
    for below in path.rglob("*"):
        shown = [os.fsencode(below.relative_to(path))]
        if below.is_symlink():
            shown.append(os.fsencode(below.readlink()))
        elif below.is_file():
            shown.append(below.read_bytes())
        data = b"".join(b"\0".join(shown).lower().split(b" "))
        found += [f"{name} in {below}" for name, form in forms(GREETING).items() if form in data]
    return found


@with_workers_too
def test_a_variable_that_is_handed_over_leaks_by_no_path(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETING", GREETING)
    anyhow.task(toml='[environment.env]\nG = "${GREETING}"\n', test_sh=TELLS)
    result = anyhow.run(f"--aec-agent=a={SPREADS}", "--junitxml=out.xml", "-rA")
    result.assert_outcomes(failed=1)
    printed = anyhow.path / "printed.txt"
    printed.write_text(result.stdout.str() + result.stderr.str())
    assert leaks(anyhow.path) == []
    record = anyhow.record()
    assert list(record["evaluation"]["details"].values()) == [1, 0]
    assert record["evaluation"]["breakdown"] == {"key": ["<GREETING>", "<GREETING>"]}
    jobs = anyhow.path / record["outputs"]["jobs_dir"]
    assert (jobs / "workspace/d-<GREETING>/<GREETING>.txt").read_text() == "<GREETING>\n"
    assert (jobs / "workspace/binary").read_bytes() == b"\0\xff<GREETING>\0"
    named = {file["path"] for file in record["outputs"]["files"]}
    assert "workspace/d-<GREETING>/<GREETING>.txt" in named


def test_a_trial_whose_process_dies_leaves_no_secret_in_its_files(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(pytester, ("-n1",))
    monkeypatch.setenv("GREETING", GREETING)
    project.task(toml='[environment.env]\nG = "${GREETING}"\n', test_sh=TELLS)
    project.pytester.makeconftest(
        """
        import os, pytest

        @pytest.fixture
        def aec_reward(aec_reward):
            os.kill(os.getpid(), 9)
        """
    )
    project.run(f"--aec-agent=a={SPREADS}").assert_outcomes(errors=1)
    assert project.record()["evaluation"]["validity"] == "crashed"
    (jobs,) = project.path.glob("jobs/*/*-*-*-*-*/")
    assert (jobs / "workspace/d-<GREETING>").is_dir()
    assert leaks(project.path) == []


DIES_IN_CONTROL = """
import os
from pytest_aecbench.backends.local import LocalBackend

class Dying(LocalBackend):
    def launch_trial(self, *, workspace_dir, **kwargs):
        handle = super().launch_trial(workspace_dir=workspace_dir, **kwargs)
        if workspace_dir.parent.name.endswith("control"):
            self.control = handle
        return handle

    def teardown(self, *, handle):
        if handle == getattr(self, "control", None):
            os.kill(os.getpid(), 9)
        super().teardown(handle=handle)

def pytest_aecbench_make_backend(config, name):
    return Dying()
"""


def test_a_process_that_dies_while_a_verifier_is_tried_out_leaves_no_secret(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(pytester, ("-n1",))
    monkeypatch.setenv("MY_TOKEN", SECRET)
    project.task(
        toml='[environment.env]\nKEY = "${MY_TOKEN}"\n',
        test_sh='echo "$KEY" > /logs/verifier/key.txt\n'
        "[ -e /workspace/output.jsonl ] && exit 1\n"
        "echo 1 > /logs/verifier/reward.txt\n",
    )
    project.pytester.makeconftest(DIES_IN_CONTROL)
    project.run().assert_outcomes(errors=1)
    assert project.record()["evaluation"]["validity"] == "crashed"
    found = [*project.path.glob("jobs/*/**/key.txt")]
    assert len(found) == 2
    assert {path.read_text() for path in found} == {"<MY_TOKEN>\n"}


def test_what_is_handed_over_and_could_be_an_ordinary_word_is_left_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"LEVEL": "1", "SWITCH": "true", "KIND": "solution", "AWS_REGION": "ap-southeast-2"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    handed = "".join(f'{name} = "${{{name}}}"\n' for name in values)
    project.task(toml=f"[environment.env]\n{handed}")
    project.run('--aec-agent=command:echo "$LEVEL $SWITCH $KIND $AWS_REGION"')
    jobs = project.path / project.record()["outputs"]["jobs_dir"]
    assert (jobs / "logs/agent/stdout.txt").read_text() == "1 true solution ap-southeast-2\n"


def test_a_secret_that_stands_in_a_digest_by_chance_leaves_the_record_whole(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.task()
    project.run("--aec-experiment-id=exp-20260412-a").assert_outcomes(passed=1)
    before = project.record()
    digest = before["inputs"]["instruction_sha256"]
    pieces = (digest[at : at + 6] for at in range(58))
    monkeypatch.setenv("MY_TOKEN", next(p for p in pieces if not p.isdigit() and not p.isalpha()))
    monkeypatch.setenv("OTHER_TOKEN", "20260412")
    project.run("--aec-experiment-id=exp-20260412-b").assert_outcomes(passed=1)
    _, after = sorted(project.records(), key=lambda record: record["experiment_id"])
    assert after["experiment_id"] == "exp-20260412-b"
    for key in ("trial_key", "task", "agent", "inputs"):
        assert after[key] == before[key]
    assert (project.path / after["outputs"]["jobs_dir"]).is_dir()


LINKS = {
    "a file": "ln -s ../verifier/reward.json /logs/agent/stdout.txt",
    "the directory": "rm -rf /logs/agent; ln -s verifier /logs/agent",
}


@pytest.mark.parametrize("link", LINKS)
def test_what_an_agent_printed_is_kept_beside_links_that_it_made_and_not_behind_them(
    anyhow: Project, link: str
) -> None:
    anyhow.task()
    anyhow.run(f"--aec-agent=command:{LINKS[link]}; echo 1").assert_outcomes(failed=1)
    logs = anyhow.path / anyhow.record()["outputs"]["jobs_dir"] / "logs"
    assert json.loads((logs / "verifier/reward.json").read_text())["reward"] == 0
    assert not (logs / "verifier/stdout.txt").exists()
    printed = logs / "agent/stdout.txt"
    assert printed.read_text() == "1\n"
    assert not printed.is_symlink()


EXPECTED = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xfail(reason="too hard"))
"""


@with_workers_too
def test_a_trial_that_is_expected_to_fail_leaves_a_record_without_secrets(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    anyhow.task(toml='[environment.env]\nKEY = "${MY_TOKEN}"\n')
    anyhow.pytester.makeconftest(EXPECTED)
    result = anyhow.run('--aec-agent=command:echo "$KEY" > key.txt')
    result.assert_outcomes(xfailed=1)
    record = anyhow.record()
    assert record["evaluation"]["reward"] == 0
    jobs = anyhow.path / record["outputs"]["jobs_dir"]
    assert (jobs / "workspace/key.txt").read_text() == "<MY_TOKEN>\n"
    assert "trials errors reward" in result.stdout.str()
    assert not list(anyhow.path.glob("artefacts/ledger/*/.*.running"))


def test_an_error_of_a_trial_that_is_expected_to_fail_is_recorded_and_retried(
    anyhow: Project,
) -> None:
    anyhow.task()
    fixture = """
        @pytest.fixture
        def aec_image(aec_image):
            from pytest_aecbench.errors import LaunchError
            raise LaunchError("no room")
    """
    anyhow.pytester.makeconftest(EXPECTED + dedent(fixture))
    result = anyhow.run("--aec-retries=1", "--aec-retry-delay=0.01")
    result.assert_outcomes(xfailed=1)
    causes = [record["evaluation"]["error"]["cause"] for record in anyhow.records()]
    assert causes == ["launch", "launch"]


def test_a_trial_that_is_skipped_after_its_agent_has_worked_leaves_a_record_without_secrets(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    anyhow.task(toml='[environment.env]\nKEY = "${MY_TOKEN}"\n')
    anyhow.pytester.makeconftest(
        "import pytest\n"
        "@pytest.fixture\n"
        "def aec_execution(aec_execution):\n"
        "    pytest.skip('no licence left')\n"
    )
    anyhow.run('--aec-agent=command:echo "$KEY" > key.txt').assert_outcomes(skipped=1)
    record = anyhow.record()
    assert record["evaluation"]["validity"] == "error"
    assert record["evaluation"]["error"]["message"] == "no licence left"
    assert record["timing"]["agent"] is not None
    for path in (anyhow.path / record["outputs"]["jobs_dir"]).rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    assert not list(anyhow.path.glob("artefacts/ledger/*/.*.running"))


@pytest.mark.parametrize("word", ["Evaluation", "difficulty", "electrical"])
def test_a_secret_that_is_a_word_of_records_leaves_the_record_whole(
    anyhow: Project, word: str
) -> None:
    anyhow.task()
    (anyhow.path / ".env").write_text(f"STAGE={word}\n")
    anyhow.run("--aec-agent=oracle").assert_outcomes(passed=1)
    record = anyhow.record()
    assert record["evaluation"]["reward"] == 1
    assert record["task"]["difficulty"] == "easy"
    assert record["task"]["task_id"] == "electrical/ohms-law"


def test_a_secret_in_the_reason_of_a_skip_shows_by_its_name(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    anyhow.task()
    anyhow.pytester.makeconftest(
        "import os, pytest\n"
        "@pytest.fixture\n"
        "def aec_sandbox():\n"
        "    pytest.skip(f'no seat for {os.environ[\"MY_TOKEN\"]}')\n"
    )
    result = anyhow.run("-rs", "--junitxml=out.xml")
    result.assert_outcomes(skipped=1)
    assert "no seat for <MY_TOKEN>" in result.stdout.str()
    assert SECRET not in result.stdout.str() + (anyhow.path / "out.xml").read_text()


def test_a_secret_in_an_agents_command_shows_by_its_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    project.task()
    result = project.run(f"--aec-agent=command:login {SECRET}", "-v")
    result.assert_outcomes(failed=1)
    assert "command:login-MY_TOKEN" in result.stdout.str()
    assert SECRET not in result.stdout.str()
    assert project.record()["agent"]["parameters"] == {"command": "login <MY_TOKEN>"}


def test_an_unset_variable_of_a_task_is_one_line(project: Project) -> None:
    project.task(toml='[environment.env]\nKEY = "${NO_SUCH_VARIABLE}"\n')
    result = project.run()
    result.assert_outcomes(errors=1)
    assert "environment.env.KEY: " in result.stdout.str()
    assert "NO_SUCH_VARIABLE" in result.stdout.str()


@pytest.mark.parametrize("place", ["artefacts/ledger", "artefacts"])
def test_a_ledger_that_cannot_be_written_stops_the_run_before_it_spends(
    anyhow: Project, place: str
) -> None:
    anyhow.task()
    blocked = anyhow.path / place
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("in the way")
    result = anyhow.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "artefacts" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    assert not (anyhow.path / "jobs").exists()


def test_a_ledger_that_breaks_in_the_middle_stops_the_run(project: Project) -> None:
    project.task("civil/a", solve="touch /workspace/done")
    project.task("civil/b")
    project.pytester.makeconftest(
        """
        import pytest, shutil

        @pytest.fixture
        def aec_reward(aec_reward, aec_settings):
            shutil.rmtree(aec_settings.ledger_root, ignore_errors=True)
            aec_settings.ledger_root.write_text("in the way")
            return aec_reward
        """
    )
    result = project.run()
    result.assert_outcomes(errors=1)
    assert "LedgerError: " in result.stdout.str()
    assert len(list((project.path / "jobs").glob("*/*/workspace"))) == 1


def test_junit_tells_task_agent_reward_and_details(anyhow: Project) -> None:
    anyhow.task(toml='[metadata]\ndifficulty = "easy"\n')
    anyhow.run(f"--aec-agent=half={HALF}", "--aec-experiment-id=mine", "--junitxml=out.xml")
    (case,) = ET.parse(anyhow.path / "out.xml").getroot().iter("testcase")
    found = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert found.pop("aec.trial_id") == anyhow.record()["trial_id"]
    assert found == {
        "aec.task": "electrical/ohms-law",
        "aec.agent": "half",
        "aec.repetition": "1",
        "aec.reward": "0.35",
        "aec.experiment": "mine",
        "aec.domain": "electrical",
        "aec.difficulty": "easy",
        "aec.backend": "local",
        "aec.detail.current_a": "0.0",
        "aec.detail.power_w": "1.0",
    }
    (failure,) = case.iter("failure")
    assert failure.get("message") == "reward 0.35, needed 1 (current_a 0, power_w 1)"


@with_workers_too
def test_junit_tells_errors_from_failures(anyhow: Project) -> None:
    anyhow.task(test_sh="exit 1")
    anyhow.run("--junitxml=out.xml")
    (case,) = ET.parse(anyhow.path / "out.xml").getroot().iter("testcase")
    (error,) = case.iter("error")
    assert "VerifierError" in (error.get("message") or "") + (error.text or "")
    assert {p.get("name"): p.get("value") for p in case.iter("property")}["aec.error"] == "verifier"
