"""Sandboxes that are left for debugging: the verifier can be run again in them, by hand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import HALF, Project

SHARED = '[verifier]\nenvironment_mode = "shared"\n'
MODES = [pytest.param("namespaces", marks=pytest.mark.needs("namespaces")), "rewriting"]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sandboxes are made; what is kept there is removed in the end."""
    directory = tmp_path / "sandboxes"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    yield directory
    shutil.rmtree(directory)


def commands(output: str) -> list[str]:
    """Return what a reader of the output would paste to run verifiers again."""
    return re.findall(r"^run the verifier again: (.+)$", output, re.MULTILINE)


def paste(command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], input=stdin, capture_output=True, text=True, timeout=60, cwd="/"
    )


def reward(home: Path) -> object:
    return json.loads((home / "logs/verifier/reward.json").read_text())["reward"]


def kept(temporary: Path) -> list[Path]:
    return sorted(temporary.glob("aecbench-*/homes/*"))


@pytest.mark.parametrize("mode", MODES)
def test_the_pasted_command_reproduces_the_reward(
    anyhow: Project, temporary: Path, mode: str
) -> None:
    toml = SHARED + '[environment.env]\nSEEN = "by all"\n[verifier.env]\nQUOTED = "it\'s $$5"\n'
    check = '[ "$SEEN/$QUOTED" = "by all/it\'s \\$5" ] && test -w . && python3 /tests/verify.py'
    anyhow.task(toml=toml, test_sh=check)
    result = anyhow.run(f"--aec-agent={HALF}", "--aec-keep=failed", f"--aec-local-mode={mode}")
    result.assert_outcomes(failed=1)
    (command,) = commands(result.stdout.str())
    (home,) = kept(temporary)
    (home / "logs/verifier/reward.json").unlink()
    for _ in range(2):
        done = paste(command)
        assert (done.returncode, done.stderr) == (0, "")
        assert '"reward": 0.35' in done.stdout
        assert reward(home) == 0.35


@pytest.mark.parametrize("mode", MODES)
def test_what_is_changed_by_hand_counts_when_run_again(
    project: Project, temporary: Path, mode: str
) -> None:
    project.task(toml=SHARED)
    result = project.run("--aec-agent=nop", "--aec-keep=failed", f"--aec-local-mode={mode}")
    (command,) = commands(result.stdout.str())
    (home,) = kept(temporary)
    (workspace,) = (project.path / "jobs").glob("*/*/workspace")
    (workspace / "output.jsonl").write_text('{"current_a": 2.0, "power_w": 24.0}')
    paste(command)
    assert reward(home) == 1
    (home / "tests/test.sh").write_text("echo broken >&2; exit 3")
    done = paste(command)
    assert done.returncode == 3
    assert "broken" in done.stderr
    assert not (home / "logs/verifier/reward.json").exists()  # the last one's does not linger


@pytest.mark.parametrize("mode", MODES)
def test_one_can_look_around(project: Project, temporary: Path, mode: str) -> None:
    project.task(toml=SHARED)
    result = project.run("--aec-agent=nop", "--aec-keep=failed", f"--aec-local-mode={mode}")
    (look,) = re.findall(r"^look around: (.+)$", result.stdout.str(), re.MULTILINE)
    if mode == "namespaces":
        assert "verify.py" in paste(look, "ls /tests").stdout
    assert paste(f"{look} -c 'exit 7'").returncode == 7
    assert paste(f"{look} -c pwd").stdout.strip().endswith("workspace")


@pytest.mark.parametrize("mode", MODES)
def test_a_verifier_in_a_sandbox_of_its_own_is_kept_too(
    project: Project, temporary: Path, mode: str
) -> None:
    project.task(toml='[verifier]\nenvironment_mode = "separate"\n')
    result = project.run(f"--aec-agent={HALF}", "--aec-keep=failed", f"--aec-local-mode={mode}")
    (command,) = commands(result.stdout.str())
    assert '"reward": 0.35' in paste(command).stdout
    assert len(kept(temporary)) == 2  # the agent's as well


def test_what_passed_is_not_kept_unless_all_is(anyhow: Project, temporary: Path) -> None:
    anyhow.task("civil/shared", toml=SHARED)
    anyhow.task("civil/separate", toml='[verifier]\nenvironment_mode = "separate"\n')
    anyhow.run("--aec-keep=failed").assert_outcomes(passed=2)
    assert kept(temporary) == []
    assert not list((anyhow.path / "jobs").glob("*/*/verifier-workspace"))
    result = anyhow.run("--aec-keep=all", "-k", "shared")
    assert result.parseoutcomes()["passed"] == 1
    (command,) = commands(result.stdout.str())
    assert '"reward": 1.0' in paste(command).stdout


def test_a_trial_that_never_got_to_its_verifier_runs_its_last_command_again(
    project: Project, temporary: Path
) -> None:
    project.task()
    (project.path / "conftest.py").write_text(
        "from pytest_aecbench import ProviderError\n"
        "class Unlucky:\n"
        "    def run(self, task, sandbox, limits):\n"
        "        sandbox.execute('echo tried')\n"
        "        raise ProviderError('no quota')\n"
        "def pytest_aecbench_make_agent(config, spec):\n"
        "    return Unlucky() if spec.harness == 'unlucky' else None\n"
    )
    result = project.run("--aec-agent=unlucky", "--aec-keep=failed")
    result.assert_outcomes(errors=1)
    (command,) = re.findall(r"^run the last command again: (.+)$", result.stdout.str(), re.M)
    assert paste(command).stdout == "tried\n"
    assert len(kept(temporary)) == 1  # the verifier's was never used


def test_what_is_kept_is_the_users_alone(project: Project, temporary: Path) -> None:
    project.task(toml=SHARED)
    for _ in range(2):  # the second run removes what the first has left
        result = project.pytester.runpytest_subprocess("tasks", "--aec-keep=all")
        result.assert_outcomes(passed=1)
    assert len(kept(temporary)) == 2


BREAKING = """
from pytest_aecbench.backends.local import LocalBackend

class Breaking(LocalBackend):
    def {method}(self, _):
        raise RuntimeError("no such luck")

def pytest_aecbench_make_backend(config, name):
    return Breaking()
"""


@pytest.mark.parametrize("method", ["keep", "notes"])
def test_no_sandbox_is_left_if_a_backend_breaks_in_what_it_says_about_it(
    anyhow: Project, temporary: Path, method: str
) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(BREAKING.format(method=method))
    result = anyhow.run("--aec-keep=all")
    assert result.parseoutcomes()["errors"] == 1
    assert "no such luck" in result.stdout.str()
    assert kept(temporary) == []
