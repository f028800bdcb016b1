"""The agent ``command``: a shell command in the sandbox that solves a task by itself."""

from __future__ import annotations

import json
import os
import re
import shlex
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents import AgentLimits, AgentResult, network_of
from pytest_aecbench.agents.files import DIRECTORY, file_uploads, linking
from pytest_aecbench.agents.installation import Installation
from pytest_aecbench.agents.instruction import INSTRUCTION_FILE, instruction_uploads
from pytest_aecbench.agents.parameters import CommandParameters, read_parameters
from pytest_aecbench.agents.printed import read_printed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_aecbench.agents import Network
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.task import Task

# Default variables; the agent's parameters of the same names override these, and the host's own
# AGENT_… variables override both.
DEFAULTS = {
    "AGENT_MODEL": "",
    "AGENT_MAX_TOKENS": "16384",
    "AGENT_MAX_TURNS": "10",
    "AGENT_COMMAND_TIMEOUT": "120",
    "AGENT_API_VERSION": "2024-10-21",
}
_LIMITS = ("max_tokens", "max_turns", "command_timeout", "api_version")


class CommandAgent:
    """Runs one command by bash in the working directory, with the task in ``AGENT_…``.

    With ``install``, the program that it runs is part of the sandbox's image.
    """

    def __init__(self, spec: AgentSpec) -> None:
        given = read_parameters(spec.parameters, CommandParameters, spec.name)
        self.command = str(given.command or given.run)
        self.is_program = given.run is not None
        self.network: Network = network_of(given.network, "needed" if given.run else "task")
        self.installation = None
        if given.install:
            program = _program(self.command)
            self.installation = Installation(given.install, given.version or "", program)
        self.reads_output = given.output is not None
        self.passed_on = given.env or ()
        self.files = tuple(given.files)
        self.told = {**DEFAULTS, **_told(spec)}

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Run the command."""
        tools = [
            {
                "name": tool.name,
                "command": tool.command,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in task.declared_tools
        ]
        servers = [server.to_json() for server in task.mcp_servers()]
        env = {
            **{name: os.environ.get(name, value) for name, value in self.told.items()},
            "AGENT_INSTRUCTION": task.instruction,
            "AGENT_TOOLS_JSON": json.dumps(tools),
            "AGENT_MCP_SERVERS_JSON": json.dumps(servers),
            "AGENT_OUTPUT_PATH": str(task.output_path),
            "AGENT_TIMEOUT_SEC": f"{limits.timeout_sec:g}",
            **{name: os.environ[name] for name in self.passed_on},
        }
        return self._result(self._execute(task, sandbox, limits, env))

    def _execute(
        self, task: Task, sandbox: Sandbox, limits: AgentLimits, env: Mapping[str, str]
    ) -> BackendExecutionResult:
        with ExitStack() as stack:
            uploads: dict[str, Path] = {}
            command, env = self.command, dict(env)
            if self.is_program:
                uploads.update(stack.enter_context(instruction_uploads(task)))
                env["AGENT_INSTRUCTION_FILE"] = INSTRUCTION_FILE
            if self.files:
                uploads.update(stack.enter_context(file_uploads(sandbox, self.files)))
                env["AGENT_FILES"] = DIRECTORY
                command = f"{linking(self.files)}; {command}"
            timeout_sec = limits.timeout_sec
            return sandbox.execute(command, env=env, timeout_sec=timeout_sec, uploads=uploads)

    def _result(self, execution: BackendExecutionResult) -> AgentResult:
        result = AgentResult.from_execution(execution)
        if not self.reads_output:
            return result
        read = read_printed(execution.stdout)
        return replace(result, usage=read.usage, cost_usd=read.cost_usd, turns=read.turns)


def _told(spec: AgentSpec) -> dict[str, str]:
    """Return the ``AGENT_…`` variables that the agent's entry sets."""
    given: dict[str, Any] = {
        f"AGENT_{name.upper()}": spec.parameters[name]
        for name in _LIMITS
        if name in spec.parameters
    }
    if spec.model:
        given["AGENT_MODEL"] = spec.model
    if spec.system_prompt:
        given["AGENT_SYSTEM_PROMPT"] = spec.system_prompt
    return {name: str(value) for name, value in given.items()}


def _program(command: str) -> str | None:
    """Return the program that a command starts with; None where only a shell could tell."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return None
    words = [word for word in words if not re.match(r"\w+=", word)]
    return words[0] if words and re.fullmatch(r"[\w.+-]+", words[0]) else None
