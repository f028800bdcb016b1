"""The pages on the command and on Python, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found


def environment(home: Path) -> dict[str, str]:
    """Return what a person has who installed the package and set nothing."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}


def test_the_commands_examples_work_one_after_the_other(tmp_path: Path) -> None:
    script = "\n".join(["set -eu", *blocks("cli.md", "bash")])
    done = subprocess.run(
        ["bash", "-c", f"set -x\n{script}"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "demo/out.xml").is_file()
    assert (tmp_path / "demo/artefacts/ledger/first-again").is_dir()


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
