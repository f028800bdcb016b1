"""The agent ``command``: a shell command in the sandbox that solves a task by itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents import AGENT_FILES, AgentLimits, AgentResult, network_of
from pytest_aecbench.agents.files import DIRECTORY, file_uploads, linking
from pytest_aecbench.agents.installation import Installation
from pytest_aecbench.agents.instruction import INSTRUCTION_FILE, instruction_uploads
from pytest_aecbench.agents.parameters import CommandParameters, read_parameters
from pytest_aecbench.agents.printed import read_printed
from pytest_aecbench.backends import BackendExecutionRequest

if TYPE_CHECKING:
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
        with ExitStack() as stack:
            staging = stack.enter_context(tempfile.TemporaryDirectory(prefix="aecbench-agent-"))
            request = self.request(task, limits, Path(staging))
            if self.files:
                uploads = stack.enter_context(file_uploads(sandbox, self.files))
                request = replace(request, uploads={**request.uploads, **uploads})
            return self.read_result(sandbox.perform(request))

    def request(self, task: Task, limits: AgentLimits, staging: Path) -> BackendExecutionRequest:
        """Return the command, with the task in its environment."""
        uploads: dict[str, Path] = {}
        command, env = self.command, self._env(task, limits)
        if self.is_program:
            uploads.update(instruction_uploads(task, staging))
            env["AGENT_INSTRUCTION_FILE"] = INSTRUCTION_FILE
        if self.files:
            uploads[DIRECTORY] = staging / AGENT_FILES
            env["AGENT_FILES"] = DIRECTORY
            command = f"{linking(self.files)}; {command}"
        timeout_sec = limits.timeout_sec
        return BackendExecutionRequest(command, env, timeout_sec=timeout_sec, uploads=uploads)

    def _env(self, task: Task, limits: AgentLimits) -> dict[str, str]:
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
        return {
            **{name: os.environ.get(name, value) for name, value in self.told.items()},
            "AGENT_INSTRUCTION": task.instruction,
            "AGENT_TOOLS_JSON": json.dumps(tools),
            "AGENT_MCP_SERVERS_JSON": json.dumps(servers),
            "AGENT_OUTPUT_PATH": str(task.output_path),
            "AGENT_TIMEOUT_SEC": f"{limits.timeout_sec:g}",
            **{name: os.environ[name] for name in self.passed_on},
        }

    def read_result(self, execution: BackendExecutionResult) -> AgentResult:
        """Return how the command ended, and what it printed about its usage."""
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
