"""The commands of the pages on datasets and on aec-bench, run as they stand, in their order."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_aecbench.datasets.manifest import Manifest, TaskEntry
from pytest_aecbench.ledger.store import Ledger
from tests.cli.conftest import Run
from tests.unit.test_datasets import make_tasks
from tests.unit.test_leaderboard import record

DOCS = Path(__file__).parents[2] / "docs"


def commands(text: str) -> list[list[str]]:
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def section(page: str, title: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no section {title}"
    return found[1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the tasks and experiments that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    make_tasks(tmp_path / "tasks", "civil/grade", "electrical/voltage-drop")
    ledger = Ledger(tmp_path / "artefacts/ledger")
    for minute, experiment in enumerate(("first", "first-again")):
        for task in ("civil/grade", "electrical/voltage-drop"):
            ledger.append(record("oracle", task, experiment_id=experiment, minute=minute))
    return tmp_path


def run(aec_bench: Run, command: list[str]) -> None:
    program, *arguments = command
    if program == "aec-bench":
        ended = aec_bench(*arguments)
        assert ended.code == 0, (command, ended.err)
    else:
        assert program == "pytest"
        argv = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        assert "aec: dataset electrical@1.0.0, 1 task" in done.stdout, done.stdout + done.stderr


def test_the_commands_for_datasets_work(project: Path, aec_bench: Run) -> None:
    found = commands((DOCS / "datasets.md").read_text(encoding="utf-8"))
    assert len(found) == 9
    for command in found:
        run(aec_bench, command)
    (kept,) = Ledger(project / "artefacts/ledger").load("nightly").records
    assert kept.dataset is not None


def test_the_commands_for_reports_work(project: Path, aec_bench: Run) -> None:
    pytest_, *others = commands((DOCS / "reports.md").read_text(encoding="utf-8"))
    subprocess.run([sys.executable, "-m", *pytest_], capture_output=True, timeout=300, check=False)
    assert "oracle" in (project / "report.html").read_text()
    for command in others:
        run(aec_bench, command)
        assert (project / command[-1]).stat().st_size > 50


@pytest.mark.parametrize("title", ["dataset", "ledger", "report"])
@pytest.mark.usefixtures("project")
def test_the_commands_of_aec_bench_work(title: str, aec_bench: Run) -> None:
    found = commands(section("cli.md", title))
    assert len(found) >= 4
    for command in found:
        run(aec_bench, command)


@pytest.mark.parametrize("title", ["dataset", "ledger", "report"])
def test_every_command_is_documented_and_shows_an_example(title: str, aec_bench: Run) -> None:
    listed = aec_bench(title, "--help").out.split("Commands:")[1]
    names = re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE)
    assert names
    for name in names:
        assert f"| `{name}" in section("cli.md", title)
        text = " ".join(aec_bench(title, name, "--help").out.split())
        assert f"Example: aec-bench {title} {name}" in text
        assert "--json" in text


def test_the_documented_manifest_is_one_as_it_is_stored() -> None:
    (example,) = re.findall(
        r"^```json\n(.*?)^```$",
        (DOCS / "datasets.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    assert Manifest.from_json(example.encode(), "docs").to_json() == example.encode()
    data = json.loads(example)
    assert list(data["tasks"][0]) == list(TaskEntry.model_fields)
    parts = (data["tasks"][0]["task_id"], data["tasks"][0]["content_hash"])
    framed = b"".join(len(part).to_bytes(8, "big") + part.encode() for part in parts)
    assert data["content_hash"] == f"sha256:{hashlib.sha256(framed).hexdigest()}"
