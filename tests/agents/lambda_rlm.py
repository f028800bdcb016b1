"""A report's task, and a model that reads, reduces, reviews and writes as it is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_aecbench.agents import AgentContext, AgentLimits, AgentResult
from pytest_aecbench.agents.lambda_rlm.agent import LambdaRlmAgent
from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.agents.trajectory import Entry, Trajectory, read_trajectory
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.tasks.task import Task
from tests.standins.models import Tokens, Turn, Wish
from tests.standins.models.policy import Asked
from tests.tasks import write_least, write_tree

INSTRUCTION = "Write the report on bridge B-17 to `/workspace/output.md`."
FACT = re.compile(r"\b(FACT-\w+) is (\w+)\.")
_GIVEN = re.compile(r'"name": "(FACT-\w+)",\s*"value": "(\w+)"')
_STEP = re.compile(r"# (\w+): ([\w.-]+)(?: from ([^,\n]+))?")

Decide = Callable[[str, Asked], Turn | str | None]


def step_of(asked: Asked) -> tuple[str, str, str | None]:
    """Return the phase, the section and the source of a request."""
    found = _STEP.match(asked.first)
    assert found is not None, asked.first[:200]
    return found[1], found[2], found[3]


def facts(found: Mapping[str, str], tokens: Tokens | None = None) -> Turn:
    listed = [{"name": name, "value": value, "quote": "x"} for name, value in found.items()]
    wish = Wish("give_facts", {"facts": listed, "missing": []})
    return Turn(calls=(wish,), tokens=tokens or Tokens())


def review(status: str = "pass", **more: Any) -> Turn:
    given = {"status": status, "gaps": [], "risks": [], "reextract_sources": []}
    return Turn(calls=(Wish("give_review", {**given, "supplement_guidance": "", **more}),))


def honest(asked: Asked) -> Turn:
    """Do the step that is asked for, as a model does that reads well."""
    phase = step_of(asked)[0]
    if phase == "extract":
        text = asked.first.partition("## The text of ")[2]
        return facts(dict(FACT.findall(text)))
    if phase in ("reduce", "supplement"):
        return facts(dict(_GIVEN.findall(asked.first)))
    if phase == "review":
        return review()
    if phase == "advise":
        return Turn("Say that it is unknown.")
    found = dict(_GIVEN.findall(asked.first))
    return Turn("\n".join(f"{name} is {value}." for name, value in sorted(found.items())) or "-")


def policy(*decisions: Decide) -> Callable[[Asked], Turn | str]:
    """Return a model that is honest except where one of the decisions says otherwise."""

    def decide(asked: Asked) -> Turn | str:
        for decision in decisions:
            if (turn := decision(step_of(asked)[0], asked)) is not None:
                return turn
        return honest(asked)

    return decide


def in_toml(value: Any) -> str:
    """Return a value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {in_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(in_toml, value))}]"
    return json.dumps(value)


@dataclass
class Trial:
    """A trial of the harness in a sandbox."""

    sandbox: Sandbox
    directory: Path
    sections: Mapping[str, Mapping[str, Any]]
    documents: Mapping[str, str | bytes]
    toml: str = ""
    model: str = "claude-sonnet-4-5"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeout_sec: float = 600.0
    setup: str = "true"
    meta: str = ""

    def task(self) -> Task:
        """Write the task, and put its documents into the sandbox."""
        lines = [self.meta]
        for name, about in self.sections.items():
            given = {"id": name, "title": name.title(), **about}
            lines += ["[[sections]]", *(f"{key} = {in_toml(given[key])}" for key in given)]
        toml = self.toml
        if "[template]" not in toml:
            toml += '\n[template]\ndefinition = "report_template.toml"\n'
        files = {"lambda-rlm.toml": toml, "report_template.toml": "\n".join(lines)}
        root = write_tree(write_least(self.directory / "task", instruction=INSTRUCTION), files)
        documents = write_tree(self.directory / "documents", self.documents)
        self.sandbox.execute(self.setup, uploads={"/workspace/documents": documents})
        return Task.load(root)

    def run(self) -> AgentResult:
        """Run the agent."""
        task = self.task()
        self.sandbox.context = AgentContext(Trajectory(self.directory / "agent"))
        spec = AgentSpec("a", "lambda-rlm", self.model, self.parameters)
        limits = AgentLimits.of(spec.parameters, self.timeout_sec)
        try:
            return LambdaRlmAgent(spec).run(task, self.sandbox, limits)
        finally:
            self.sandbox.context.trajectory.close()

    @property
    def report(self) -> str:
        """The report that was written."""
        return self.sandbox.execute("cat /workspace/output.md").stdout

    @property
    def written(self) -> Any:
        """The sections that were written."""
        return json.loads(self.sandbox.execute("cat /workspace/sections.json").stdout)

    @property
    def entries(self) -> list[Entry]:
        """The trajectory."""
        return list(read_trajectory(self.directory / "agent/trajectory.jsonl"))

    @property
    def calls(self) -> list[Entry]:
        """The entries that are calls to a model."""
        return [entry for entry in self.entries if entry.role == "assistant"]
