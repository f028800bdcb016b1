"""aec-bench task validate: the checks of tasks, for people, scripts and machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.ledger.checks import EXPLOITS, STANDARD
from tests.checking import SOUND, write_task
from tests.cli.conftest import Run

VAGUE = {"instruction.md": "Write `/workspace/output.jsonl`.\n"}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sound_task_is_one_line_per_check_and_exit_0(aec_bench: Run, root: Path) -> None:
    write_task(root / "tasks/civil/a")
    ended = aec_bench("task", "validate", "tasks/civil/a")
    *lines, last = ended.out.splitlines()
    outcomes = [line.split(maxsplit=2)[0] for line in lines]
    assert [line.split()[2].rstrip(":") for line in lines] == list(STANDARD)
    assert set(outcomes) <= {"PASSED", "SKIPPED"}
    assert last.startswith(f"{outcomes.count('PASSED')} passed")
    assert (ended.code, ended.err) == (0, "")


def test_machines_get_check_outcome_message_and_hint(aec_bench: Run, root: Path) -> None:
    write_task(root / "tasks/a", VAGUE)
    ended = aec_bench("task", "validate", "tasks", "--json")
    assert ended.code == 1
    found = ended.json()
    assert found["sound"] is False
    (failed,) = [one for one in found["checks"] if one["outcome"] == "failed"]
    assert failed == {
        "task": "a",
        "check": "instruction",
        "outcome": "failed",
        "message": "instruction.md does not mention tolerances",
        "hint": failed["hint"],
    }
    assert failed["hint"].startswith("say how near each answer must be")


def test_every_problem_is_shown_and_errors_say_what_is_wrong(aec_bench: Run, root: Path) -> None:
    write_task(root / "tasks/a", {"tests/verify.py": "raise SystemExit(3)\n"})
    write_task(root / "tasks/b", {"environment/Dockerfile": "FROM x:1\nCOPIE a b\n"})
    found = aec_bench("task", "validate", "tasks", "--json").json()["checks"]
    told = {(one["task"], one["check"]): one for one in found}
    assert len(told["a", "malformed"]["message"].splitlines()) > 10
    assert told["b", "image"]["outcome"] == "failed"
    assert "environment/Dockerfile:2: unknown" in told["b", "image"]["message"]
    assert told["b", "empty"]["outcome"] == "skipped"


def test_a_task_that_cannot_be_read_is_told_of(aec_bench: Run, root: Path) -> None:
    write_task(root / "tasks/a", {"task.toml": "[metadata\n"})
    found = aec_bench("task", "validate", "tasks/a", "--json").json()["checks"]
    assert [one["check"] for one in found] == list(STANDARD)
    assert [one["outcome"] for one in found] == ["failed", *["skipped"] * (len(STANDARD) - 1)]
    assert found[0]["hint"] == "write valid TOML"


def test_a_check_whose_process_died_is_an_error_of_its_task(
    aec_bench: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(root / "tasks/civil/a")
    (root / "conftest.py").write_text(
        "import os, pytest\n\n"
        "@pytest.fixture\n"
        "def aec_sandbox(request, aec_sandbox):\n"
        "    return os._exit(9) if 'empty' in request.node.name else aec_sandbox\n"
    )
    monkeypatch.setenv("PYTEST_ADDOPTS", "-n1")
    ended = aec_bench("task", "validate", "tasks/civil/a", "--json")
    assert ended.code == 1
    (died,) = [one for one in ended.json()["checks"] if one["outcome"] == "error"]
    assert (died["task"], died["check"]) == ("civil/a", "empty")
    assert "crashed" in died["message"]


def test_people_get_the_hint_on_a_line_of_its_own(aec_bench: Run, root: Path) -> None:
    write_task(root / "tasks/a", VAGUE)
    ended = aec_bench("task", "validate", "tasks/a")
    assert ended.code == 1
    assert "FAILED  a instruction: instruction.md does not mention tolerances\n" in ended.out
    assert "        hint: say how near" in ended.out
    assert "1 failed" in ended.out.splitlines()[-1]


@pytest.mark.nightly
@pytest.mark.needs("namespaces")
def test_exploits_are_tried_when_asked_for(aec_bench: Run, root: Path) -> None:
    separate = '[verifier]\nenvironment_mode = "separate"\n'
    write_task(
        root / "tasks/a", {"task.toml": separate, "tests/verify.py": SOUND["tests/verify.py"]}
    )
    ended = aec_bench("task", "validate", "tasks/a", "--exploits", "--json")
    checks = [one["check"] for one in ended.json()["checks"]]
    assert checks == [*STANDARD, *EXPLOITS]
    assert ended.code == 0, ended.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "'nowhere' does not exist; use the path of a task"),
        (["."], ".: contains no task; a task has a task.toml"),
        (["tasks", "--backend=dcker"], "'dcker' is not known; did you mean 'docker'?"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    aec_bench: Run, root: Path, arguments: list[str], message: str
) -> None:
    if "tasks" in arguments:
        write_task(root / "tasks/a")
    ended = aec_bench("task", "validate", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1


def test_help_shows_an_example(aec_bench: Run) -> None:
    assert "Example: aec-bench task validate" in aec_bench("task", "validate", "--help").out


def test_a_dataset_may_require_that_its_tasks_are_sound(aec_bench: Run, root: Path) -> None:
    create = ("dataset", "create", "core", "--version=1.0.0", "--checked")
    write_task(root / "tasks/civil/a")
    refused = aec_bench(*create)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("aec-bench: civil/a: was not checked in this state; run '")
    assert aec_bench("task", "validate", "tasks/civil/a").code == 0
    assert aec_bench(*create).code == 0
    write_task(root / "tasks/civil/b", VAGUE)
    assert aec_bench("task", "validate", "tasks/civil/b").code == 1
    refused = aec_bench("dataset", "create", "core", "--version=1.1.0", "--checked")
    assert refused.err.startswith("aec-bench: civil/b: did not pass its checks in this state; ")
    assert not (root / "artefacts/datasets/core/1.1.0").exists()
