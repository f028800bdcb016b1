"""A scripted model solves a shipped task with the tool loop, on every kind of backend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends.local import LocalBackend
from tests.e2e.shipped import ROOT
from tests.e2e.test_vendors import SERVERS, plugins_for, serving

TASK = "structural/beam-deflection"
USAGE = {"input": 1500, "output": 200}


def write_script(path: Path) -> None:
    """Let the model look, write the reference solution as a file, run it, and submit."""
    solution = (ROOT / "tasks" / TASK / "solution/solve.sh").read_text()
    program = solution.partition("<<'PYTHON'\n")[2].rpartition("PYTHON")[0]
    calls: list[list[dict[str, Any]]] = [
        [{"name": "bash", "arguments": {"command": "ls -la; python3 --version"}}],
        [
            {"name": "write_file", "arguments": {"path": "solve.py", "content": program}},
            {"name": "bash", "arguments": {"command": "python3 solve.py"}},
            {"name": "read_file", "arguments": {"path": "/workspace/output.jsonl"}},
        ],
        [{"name": "submit"}],
    ]
    replies = [{"text": "on", "tool_calls": wanted, "usage": USAGE} for wanted in calls]
    path.write_text(json.dumps({"price": {"input": 3, "output": 15}, "replies": replies}))


def run(directory: Path, *options: str) -> Any:
    """Run the trial and return its record."""
    (directory / "tasks").symlink_to(ROOT / "tasks")
    (directory / "pytest.ini").write_text("[pytest]\n")
    write_script(directory / "beam.json")
    result = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-m", "pytest", "-q", f"tasks/{TASK}"),
            *("--aec-agent=tool_loop:scripted:beam.json", *options),
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = (directory / "artefacts/ledger").glob("*/*.json")
    return json.loads(path.read_text())


def check(record: dict[str, Any]) -> None:
    assert record["evaluation"]["reward"] == 1
    assert (record["agent_result"]["end"], record["agent_result"]["turns"]) == ("submitted", 3)
    assert record["cost"]["usd"] == pytest.approx(3 * (1500 * 3e-6 + 200 * 15e-6))
    assert record["warnings"] == []


@pytest.mark.parametrize("mode", ["namespaces", "rewriting"])
@pytest.mark.needs("namespaces")
def test_on_this_machine(tmp_path: Path, mode: str) -> None:
    check(run(tmp_path, f"--aec-local-mode={mode}"))


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_in_a_container(tmp_path: Path) -> None:
    check(run(tmp_path, "--aec-backend=docker"))


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize(
    "vendor",
    ["e2b", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("daytona", "modal"))],
)
def test_at_a_vendor(tmp_path: Path, vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vendor in SERVERS
    with serving(vendor, LocalBackend(), monkeypatch):
        check(run(tmp_path, f"--aec-backend={vendor}", *plugins_for(vendor)))
