"""``aec-bench view``: one line with the address, one viewer per ledger, no token elsewhere."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.viewers import make_project

COMMAND = (sys.executable, "-m", "pytest_aecbench", "view", "--no-open")
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/e/nightly#token=([\w-]{43})\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_project(tmp_path, 3)
    return tmp_path


@pytest.fixture
def running(project: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    argv = [*COMMAND, "latest", "--port", "0"]
    with subprocess.Popen(
        argv, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process, process.stdout.readline()
        process.kill()


def said(project: Path, *arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], cwd=project, capture_output=True, text=True)
    assert done.returncode == 2 or not done.stderr
    return done.stdout + done.stderr


def test_a_viewer_says_its_address_is_found_again_and_ends_at_ctrl_c(
    project: Path, running: tuple[subprocess.Popen[str], str]
) -> None:
    process, line = running
    found = ADDRESS.fullmatch(line)
    assert found
    token = found[2]
    assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
    assert token not in Path(f"/proc/{process.pid}/environ").read_text()
    assert said(project, "latest") == f"already running at {line}"
    address = line.strip().replace("e/nightly", "")
    assert said(project) == f"already running at {address}\n"
    as_json = json.loads(said(project, "--json"))
    assert as_json == {"address": address, "already_running": True}
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
    readable = [
        path
        for path in project.rglob("*")
        if path.is_file() and path.stat().st_mode & 0o077 and token in path.read_text("latin-1")
    ]
    assert readable == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nigtly",), "EXPERIMENT: experiment 'nigtly' not found in artefacts/ledger; did you me"),
        (("a", "b", "c"), "EXPERIMENT: at most two can be compared; name one or two"),
        (("--host", "0.0.0.0"), "--host: '0.0.0.0' can be reached by others; name the host that"),
        (("--host", "no such host", "--allow-host=x"), "--port: no such host:8765 cannot be used"),
    ],
)
def test_a_mistake_is_one_line(project: Path, arguments: tuple[str, ...], line: str) -> None:
    text = said(project, *arguments)
    assert line in text
    assert len(text.splitlines()) == 1
