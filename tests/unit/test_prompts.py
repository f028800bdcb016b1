"""The documented prompts are those that a model gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_aecbench.agents.prompts import (
    DIRECT_VERSION,
    TOOL_LOOP_VERSION,
    direct_system,
    tool_loop_system,
)
from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.tasks.task import Task

PAGE = Path(__file__).parents[2] / "docs/agents.md"


@pytest.fixture
def task(tmp_path: Path) -> Task:
    files = {
        "task.toml": "",
        "instruction.md": "Write to /workspace/output.jsonl.",
        "tests/test.sh": "true",
        "system.md": "Units are SI.\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return Task.load(tmp_path)


def documented(name: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    block = text.partition(f"<!-- prompt: {name} -->\n```text\n")[2].partition("\n```")[0]
    assert block
    return block


@pytest.mark.parametrize(
    ("name", "version", "prompt"),
    [
        ("tool_loop", TOOL_LOOP_VERSION, tool_loop_system),
        ("direct", DIRECT_VERSION, direct_system),
    ],
)
def test_the_documented_prompt_is_used_between_the_agents_and_the_tasks(
    task: Task, name: str, version: str, prompt: Callable[[AgentSpec, Task], str]
) -> None:
    spec = AgentSpec("a", name, system_prompt="You are a civil engineer.")
    assert prompt(spec, task) == "\n\n".join(
        ("You are a civil engineer.", documented(name), "Units are SI.")
    )
    assert f"`{version}`" in PAGE.read_text(encoding="utf-8")
