"""The agent ``command``: a shell command that solves a task by itself."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult

if TYPE_CHECKING:
    from pytest_aecbench.agents.spec import AgentSpec
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


class CommandAgent:
    """Runs one command by bash in the working directory, with the task in ``AGENT_…``."""

    def __init__(self, spec: AgentSpec) -> None:
        self.command = str(spec.parameters["command"])
        self.told = {
            **DEFAULTS,
            **({"AGENT_MODEL": spec.model} if spec.model else {}),
            **{
                f"AGENT_{name.upper()}": str(value)
                for name, value in spec.parameters.items()
                if f"AGENT_{name.upper()}" in DEFAULTS
            },
            **({"AGENT_SYSTEM_PROMPT": spec.system_prompt} if spec.system_prompt else {}),
        }

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
        execution = sandbox.execute(
            self.command,
            env={
                **{name: os.environ.get(name, value) for name, value in self.told.items()},
                "AGENT_INSTRUCTION": task.instruction,
                "AGENT_TOOLS_JSON": json.dumps(tools),
                "AGENT_MCP_SERVERS_JSON": json.dumps(servers),
                "AGENT_OUTPUT_PATH": str(task.output_path),
                "AGENT_TIMEOUT_SEC": f"{limits.timeout_sec:g}",
            },
            timeout_sec=limits.timeout_sec,
        )
        return AgentResult.from_execution(execution)
