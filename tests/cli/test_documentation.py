"""The pages on the command and on Python, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.pages import DOCS, blocks

pytestmark = pytest.mark.slow


def sections(page: str) -> dict[str, str]:
    """Return the commands of each section of a page that has some, in their order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        commands = re.findall(r"^```bash\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
        if commands:
            found[part.splitlines()[0]] = "".join(commands)
    return found


def environment(home: Path) -> dict[str, str]:
    """Return what a person has who installed the package and set nothing."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}


# Sections that others need, and two ways from there, which two workers can go.
START = ("init", "run")
RESULTS = ("evaluate", "ledger", "report")


def follow(titles: Iterable[str], directory: Path) -> Path:
    """Run the commands of these sections as one script; return the project that they made."""
    commands = sections("cli.md")
    done = subprocess.run(
        ["bash", "-euxc", "\n".join(commands[title] for title in titles)],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "demo"


def test_the_commands_on_results_work_one_after_the_other(tmp_path: Path) -> None:
    demo = follow((*START, *RESULTS), tmp_path)
    assert (demo / "artefacts/ledger/first-again").is_dir()


@pytest.mark.nightly
def test_all_other_commands_work_one_after_the_other(tmp_path: Path) -> None:
    demo = follow([title for title in sections("cli.md") if title not in RESULTS], tmp_path)
    assert (demo / "out.xml").is_file()


def test_the_page_on_trajectories_shows_those_of_a_new_project(
    aec_bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert aec_bench("init").code == 0
    (reading,) = blocks("trajectories.md", "python")
    turn, printed = blocks("trajectories.md", "text")
    commands = 'aec-bench run --config experiments/first-run.yaml >&2; python -c "$1"'
    done = subprocess.run(
        ["bash", "-euc", commands, "bash", reading],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.stdout == printed, done.stderr
    (trial,) = aec_bench("ledger", "list", "--trials", "--agent", "scripted", "--json").json()
    shown = aec_bench("ledger", "show", trial["trial"], "--trajectory", "--turn", "1").out
    # Times differ from run to run, on a busy machine also whether they are worth a mention.
    assert re.sub(r", (waited )?\d+\.\d s$", "", shown.lstrip(), flags=re.MULTILINE) == turn


def test_the_python_examples_print_what_the_page_says(
    aec_bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert aec_bench("init").code == 0
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks("python.md", "python"))],
        cwd=tmp_path,
        env={**environment(tmp_path), "PYTEST_ADDOPTS": "-qqq --no-summary -p no:terminal"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks("python.md", "text")), done.stdout
