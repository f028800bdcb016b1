"""What holds for the aec-bench command as a whole."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import pytest_aecbench
from pytest_aecbench.cli.app import app
from tests.cli.conftest import Run


def test_the_command_says_its_version(aec_bench: Run) -> None:
    ended = aec_bench("--version")
    assert (ended.code, ended.out) == (0, f"pytest-aecbench {pytest_aecbench.__version__}\n")


def test_no_command_shows_what_there_is(aec_bench: Run) -> None:
    assert "Usage: aec-bench" in aec_bench("--help").out


def test_an_unknown_command_is_refused(aec_bench: Run) -> None:
    ended = aec_bench("rnu")
    assert (ended.code, ended.out) == (2, "")
    assert "rnu" in ended.err


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_aecbench", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"pytest-aecbench {pytest_aecbench.__version__}\n"
    usage = subprocess.run(
        [sys.executable, "-m", "pytest_aecbench", "--help"], capture_output=True, text=True
    )
    assert usage.stdout.startswith("Usage: aec-bench ")


def test_a_shell_can_complete_commands() -> None:
    program = shlex.quote(str(Path(sys.executable).with_name("aec-bench")))
    shown = subprocess.run(
        ["bash", "-c", f"{program} --show-completion; exit $?"], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert "complete -o default -F _aec_bench_completion aec-bench" in shown.stdout
    subprocess.run(["bash", "-n"], input=shown.stdout, text=True, check=True)
    asked = "_AEC_BENCH_COMPLETE=complete_bash COMP_WORDS='aec-bench run' COMP_CWORD=1"
    found = subprocess.run(
        ["bash", "-c", f"{asked} {program}"], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["run", "run-local"]


def commands(group: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command by the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*way, name))
        else:
            yield (*way, name), command


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_speaks_json(
    aec_bench: Run, words: tuple[str, ...]
) -> None:
    ended = aec_bench(*words, "--help")
    assert f"Example: aec-bench {' '.join(words)}" in ended.out
    assert "--json" in ended.out
    assert "[default: True]" not in ended.out  # of options that are on or off


def test_every_command_has_a_section_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## (\S+)$", page, re.MULTILINE))
    assert {words[0] for words in COMMANDS} - sections == set()
