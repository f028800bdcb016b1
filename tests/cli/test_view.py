"""``aec-bench view``: one line with the address, one viewer per ledger, no token elsewhere."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench.view.lease import viewers_directory
from pytest_aecbench.view.serving import running_viewer
from tests.conformance.boxes import AS_NOBODY
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


ASK = """
exec 3<>/dev/tcp/127.0.0.1/$1
printf 'GET /api/e/nightly/columns HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n' >&3
head -n 1 <&3
for path in "$2" /proc/$3/environ /proc/$3/fd; do ls "$path" && cat "$path"; done
tr '\\0' ' ' < /proc/$3/cmdline
"""


@pytest.mark.needs("root")
def test_another_user_of_the_machine_gets_no_data_and_no_token(
    running: tuple[subprocess.Popen[str], str],
) -> None:
    process, line = running
    found = ADDRESS.fullmatch(line)
    assert found
    lease = viewers_directory() / f"{process.pid}.json"
    assert found[2] in lease.read_text()
    done = subprocess.run(
        [*AS_NOBODY, "bash", "-c", ASK, "-", found[1], lease, f"{process.pid}"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert re.match(r"HTTP/1\.[01] 401 ", done.stdout)
    assert done.stdout.rstrip().endswith("view --no-open latest --port 0")
    assert done.stderr.count("Permission denied") == 3
    assert found[2] not in done.stdout + done.stderr


BROWSER = """#!/bin/sh
file=${1#file://}
{ echo "$*"; stat -c %a "$file"; cat "$file"; } > "$0.part" && mv "$0.part" "$0.seen"
"""


@pytest.mark.parametrize(
    ("display", "more", "is_opened"),
    [
        ({"DISPLAY": ":9"}, (), True),
        ({"WAYLAND_DISPLAY": "w"}, (), True),
        ({"DISPLAY": ":9"}, ("--no-open",), False),
        ({"DISPLAY": ":9", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, (), False),
        ({}, (), False),
        ({}, ("--open",), True),
    ],
)
def test_a_browser_is_opened_where_it_is_seen_and_the_token_is_in_no_command(
    project: Path, display: dict[str, str], more: tuple[str, ...], is_opened: bool
) -> None:
    browser = project / "browser"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    names = ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY")
    environ = {name: value for name, value in os.environ.items() if name not in names}
    environ |= {"BROWSER": f"{browser} %s", **display}
    argv = [*COMMAND[:-1], "--port", "0", *more]
    with subprocess.Popen(argv, cwd=project, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout
        token = process.stdout.readline().decode().strip().partition("#token=")[2]
        seen = project / "browser.seen"
        try:
            # What is not opened by the time that it answers is not opened.
            assert running_viewer(project / "artefacts/ledger")
            while is_opened and not seen.exists():
                assert process.poll() is None
                time.sleep(0.02)
            assert seen.exists() is is_opened
            if is_opened:
                command, mode, content = seen.read_text().split("\n", 2)
                assert (token in command, mode, token in content) == (False, "600", True)
        finally:
            process.send_signal(signal.SIGINT)


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
