"""Runs of the harness ``rlm`` on one task, with models that are scripted or on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_aecbench.agents import AgentContext, AgentLimits, AgentResult
from pytest_aecbench.agents.rlm.agent import RlmAgent
from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.agents.trajectory import FILE, Entry, Trajectory, read_trajectory
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.providers import Usage
from pytest_aecbench.providers.prices import Price
from pytest_aecbench.tasks.task import Task
from tests.tasks import write_tree

INSTRUCTION = "Find the current. Write it to `/workspace/answer.json`."
USAGE = {"input": 100, "output": 10}
# The directory of a cell's own REPL: others on the machine may have theirs beside it.
HOME = "import sys\nhome = sys.modules['aecbench_repl'].__path__[0].rpartition('/')[0]"
# A cell that can send its REPL events, as the functions do that it has.
FORGED = """
import json, os, socket, stat
found = [n for n in range(3, 40) if os.path.exists(f'/proc/self/fd/{n}')]
(number,) = [n for n in found if stat.S_ISSOCK(os.fstat(n).st_mode)]
def tell(event):
    with socket.socket(fileno=os.dup(number)) as link:
        link.sendall(json.dumps(event).encode() + b'\\n')
"""


def cell(code: str, **usage: int) -> dict[str, Any]:
    """Return a scripted reply that runs a cell."""
    call = {"name": "repl", "arguments": {"code": code}}
    return {"tool_calls": [call], "usage": {**USAGE, **usage}}


def said(text: str, **usage: int) -> dict[str, Any]:
    """Return a scripted reply that is only text."""
    return {"text": text, "usage": {**USAGE, **usage}}


@dataclass(frozen=True)
class Run:
    """The end of an agent, and what it left."""

    result: AgentResult
    entries: tuple[Entry, ...]
    output: str | None
    directory: Path

    @property
    def results(self) -> list[str]:
        """What the root model was told of its cells."""
        return [e.content for e in self.entries if e.role == "tool_result" and not e.is_beside]

    def calls(self, call_type: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.metadata.get("call_type") == call_type]

    @property
    def usage(self) -> Usage:
        """The sum over the entries."""
        return sum((entry.usage for entry in self.entries), Usage())


class Workshop:
    """Writes tasks and runs the harness on them, in one sandbox."""

    def __init__(self, directory: Path, sandbox: Sandbox) -> None:
        self.directory = directory
        self.sandbox = sandbox
        self.runs = 0

    def script(
        self,
        *replies: Mapping[str, Any],
        others: Mapping[str, Any] | None = None,
        price: bool = False,
    ) -> str:
        """Write what the root says, and what models say to prompts that contain some words."""
        asked = [
            {"when": words, "replies": given if isinstance(given, list) else [said(given)]}
            for words, given in (others or {}).items()
        ]
        root = [{"when": "Find the current", "replies": replies}] if replies else []
        data: dict[str, Any] = {"conversations": [*asked, *root]}
        if price:
            data["price"] = {"input": 1_000_000, "output": 1_000_000}
        self.runs += 1
        path = self.directory / f"script-{self.runs}.json"
        path.write_text(json.dumps(data))
        return f"scripted:{path}"

    def task(self, toml: str = "", files: Mapping[str, str | bytes] | None = None) -> Task:
        directory = self.directory / f"task-{self.runs}"
        least = {"task.toml": "", "instruction.md": INSTRUCTION, "tests/test.sh": "true"}
        return Task.load(write_tree(directory, {**least, "rlm.toml": toml, **(files or {})}))

    def run(
        self,
        model: str,
        task: Task,
        *,
        timeout_sec: float = 60.0,
        prices: Mapping[str, Price] | None = None,
        **parameters: Any,
    ) -> Run:
        """Run the agent; first check what is checked before a run."""
        agent = RlmAgent(AgentSpec("a", "rlm", model, parameters))
        agent.preflight(prices or {})
        agent.check_task(task, prices or {})
        self.runs += 1
        kept = self.directory / f"agent-{self.runs}"
        trajectory = Trajectory(kept)
        self.sandbox.context = AgentContext(trajectory, prices=prices or {})
        self.sandbox.execute("rm -f /workspace/answer.json")
        try:
            result = agent.run(task, self.sandbox, AgentLimits.of(parameters, timeout_sec))
        finally:
            trajectory.close()
        shown = self.sandbox.execute("cat /workspace/answer.json")
        output = shown.stdout if shown.returncode == 0 else None
        return Run(result, tuple(read_trajectory(kept / FILE)), output, kept)

    def solve(
        self,
        *replies: Mapping[str, Any],
        toml: str = "",
        others: Mapping[str, Any] | None = None,
        files: Mapping[str, str | bytes] | None = None,
        price: bool = False,
        **more: Any,
    ) -> Run:
        """Run the agent with these replies of the root model."""
        return self.run(
            self.script(*replies, others=others, price=price), self.task(toml, files), **more
        )


def lost_kinds(texts: Sequence[str]) -> list[bool]:
    """Return for each result whether it says that variables are lost."""
    return ["variables are lost" in text for text in texts]
