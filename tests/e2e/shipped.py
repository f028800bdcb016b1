"""The shipped tasks, run in a directory of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.costs import at_night
from tests.standins.models import Turn
from tests.standins.models.policy import Asked, PolicyServer

ROOT = Path(__file__).parents[2]
TASKS = sorted(path.parent for path in (ROOT / "tasks").glob("*/*/task.toml"))
AGENTS = ("oracle", "nop")
ALL = tuple(task.relative_to(ROOT / "tasks").as_posix() for task in TASKS)
# One with an answer in a line, one with files to read, one with files to read and to write.
SOME = ("electrical/voltage-drop", "building/egress-width", "civil/earthworks-volumes")
# By day one or some will do, where what runs them is tested and not the tasks.
one_or_all = pytest.mark.parametrize("names", [SOME[1:2], at_night(ALL)], ids=["one", "all"])
some_or_all = pytest.mark.parametrize("names", [SOME, at_night(ALL)], ids=["some", "all"])


def expected(names: Iterable[str] = ALL) -> dict[tuple[str, str], float]:
    """Return what each agent earns: the oracle all, and nop nothing."""
    return {(name, agent): float(agent == "oracle") for name in names for agent in AGENTS}


def rewards(
    directory: Path, *arguments: str, names: Iterable[str] = ALL
) -> dict[tuple[str, str], float]:
    """Run shipped tasks in ``directory`` and return what each agent earned."""
    directory.mkdir()
    (directory / "tasks").symlink_to(ROOT / "tasks")
    (directory / "pytest.ini").write_text("[pytest]\n")
    paths = [f"tasks/{name}" for name in names]
    agents = [f"--aec-agent={agent}" for agent in AGENTS]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *paths, *agents, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    found = {}
    for path in (directory / "artefacts/ledger").glob("*/*.json"):
        record = json.loads(path.read_text())
        assert record["evaluation"]["validity"] == "scored", record["evaluation"]
        assert record["warnings"] == []
        found[record["task"]["task_id"], record["agent"]["name"]] = record["evaluation"]["reward"]
    return found


def with_policy(
    directory: Path, name: str, agent: str, policy: Callable[[Asked], Turn], *options: str
) -> tuple[Any, list[Asked]]:
    """Run a trial of a shipped task with a model that has this policy, behind Anthropic's SDK.

    Returns its record and what was asked.
    """
    (directory / "tasks").symlink_to(ROOT / "tasks")
    (directory / "pytest.ini").write_text("[pytest]\n")
    server = PolicyServer(policy)
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-W", "error", "-m", "pytest", "-q", f"tasks/{name}"),
                *(f"--aec-agent={agent}", *options),
            ],
            cwd=directory,
            env={**os.environ, **server.environment("anthropic")},
            capture_output=True,
            text=True,
            timeout=600,
        )
    finally:
        server.close()
    paths = list((directory / "artefacts/ledger").glob("*/*.json"))
    assert len(paths) == 1, done.stdout + done.stderr
    return json.loads(paths[0].read_text()), server.asked
