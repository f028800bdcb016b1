"""What commands print, shown while they print it, under -s."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.backends import BackendExecutionResult
from pytest_aecbench.backends.sandbox import Echo
from pytest_aecbench.host.secrets import Scrubber, secrets_from
from tests.project import Project

SAYS = "echo judging; echo 'not well' >&2; echo 1 > /logs/verifier/reward.txt"


@pytest.mark.parametrize("mode", ["auto", "rewriting"])
@pytest.mark.parametrize("environment", ["shared", "separate"])
def test_the_verifier_and_the_agent_are_heard(
    project: Project, mode: str, environment: str
) -> None:
    project.task(toml=f'[verifier]\nenvironment_mode = "{environment}"\n', test_sh=SAYS)
    result = project.run("-s", "--aec-agent=command:printf 'at work'", f"--aec-local-mode={mode}")
    result.assert_outcomes(passed=1)
    lines = result.stdout.lines
    assert {"at work", "judging", "not well"} <= set(lines)


def test_without_s_nothing_is_heard(anyhow: Project) -> None:
    anyhow.task(test_sh=SAYS)
    result = anyhow.run()
    result.assert_outcomes(passed=1)
    assert "judging" not in result.stdout.str()


def test_output_comes_while_the_verifier_runs(project: Project) -> None:
    """The verifier waits for a file that is only made once its output was seen."""
    project.task(
        test_sh="echo ready; for i in {1..600}; do [ -e go ] && break; sleep 0.1; done\n"
        "[ -e go ] && echo 1 > /logs/verifier/reward.txt",
    )
    (project.path / "pytest.ini").write_text("[pytest]\n")
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-s", "tasks", "--aec-agent=nop"],
        cwd=project.path,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line == "ready\n":
                (workspace,) = (project.path / "jobs").glob("*/*/verifier-workspace")
                Path(workspace, "go").touch()
                break
        run.stdout.read()
    assert run.returncode == 0


def test_secrets_are_not_heard(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADER_API_KEY", "sk-very-secret-12345")
    project.task(
        toml='[verifier.env]\nGRADER_API_KEY = "$GRADER_API_KEY"\n',
        test_sh='echo "key $GRADER_API_KEY"; echo 1 > /logs/verifier/reward.txt',
    )
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    output = result.stdout.str()
    assert re.search(r"^key ", output, re.MULTILINE)
    assert "sk-very-secret-12345" not in output


def test_a_backend_that_cannot_say_it_live_says_it_in_the_end() -> None:
    shown: list[str] = []
    echo = Echo(Scrubber({}), shown.append)
    echo.end(BackendExecutionResult(0, stdout="out\n", stderr="err"))
    assert "".join(shown) == "\nout\nerr\n"


@pytest.mark.parametrize("cut", [1, 9, 19])
def test_a_secret_across_two_chunks_is_not_heard(cut: int) -> None:
    secret = b"sk-very-secret-12345"
    shown: list[str] = []
    echo = Echo(Scrubber({"KEY": secret.decode()}), shown.append)
    echo(b"x" * (64 * 1024 + 1) + secret[:cut])
    echo(secret[cut:] + b"\n")
    echo(b"wrapped " + secret[:cut] + b"\n")
    echo(secret[cut:] + b"\n")
    echo.end(BackendExecutionResult(0))
    heard = "".join("".join(shown).split())
    assert heard.count("<KEY>") == 2
    assert not any(secret[at : at + 4].decode() in heard for at in range(len(secret) - 3))


@given(st.lists(st.binary(max_size=20)))
def test_however_output_is_cut_whole_lines_are_shown(chunks: list[bytes]) -> None:
    shown: list[str] = []
    echo = Echo(Scrubber(secrets_from({})), shown.append)
    for chunk in chunks:
        echo(chunk)
    assert all(text.endswith("\n") for text in shown)
    echo.end(BackendExecutionResult(0))
    whole = b"".join(chunks).decode(errors="replace")
    assert "".join(shown).rstrip("\n") == (f"\n{whole}" if whole else "").rstrip("\n")
