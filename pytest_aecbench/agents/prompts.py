"""Prompts: the way in which a task is presented to a model, under a version that records name.

Change the version with every change of a text: results of two versions are not comparable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.tasks.task import Task

__all__ = [
    "ADVISOR",
    "CUT_CALL",
    "DIRECT_VERSION",
    "IDLE",
    "TOOL_LOOP_VERSION",
    "direct_system",
    "last_turns",
    "system_prompt",
    "tool_loop_system",
    "user_message",
]

TOOL_LOOP_VERSION = "tool_loop-1"
DIRECT_VERSION = "direct-1"

_TOOL_LOOP = """\
You solve an engineering task in a Linux sandbox, by means of tools. There is no one to ask: \
decide for yourself, and state the assumptions that matter in your answer.

- The working directory is {workdir}.
- Write your answer to {output}. Only files are graded; the text of your replies is not.
- Check the answer before you finish, then call `submit`. After that you can change nothing.
"""

_DIRECT = """\
You solve an engineering task in one reply. Your reply is saved, as it is, as the file {output}, \
which is graded. Reply with the content of that file and nothing else.
"""

IDLE = (
    "You called no tool. Go on with a tool; when the answer is written and checked, call `submit`."
)
ADVISOR = (
    "You advise an agent that solves an engineering task in a sandbox. You see the last part of "
    "its conversation and its question. Answer briefly: what is wrong, what to do next."
)
CUT_CALL = "not run: your reply was cut at its maximum length; write less in one call"


def tool_loop_system(spec: AgentSpec, task: Task) -> str:
    """Return the system prompt of the tool loop."""
    return system_prompt(spec, task, _TOOL_LOOP)


def direct_system(spec: AgentSpec, task: Task) -> str:
    """Return the system prompt of a single reply."""
    return system_prompt(spec, task, _DIRECT)


def user_message(task: Task) -> str:
    """Return the first message: the task's instruction, unchanged."""
    return task.instruction


def last_turns(left: int) -> str:
    """Return the hint for the last turns."""
    if left == 1:
        return "This is your last turn: make sure that the answer is written, and call `submit`."
    return f"You have {left} turns left: write the answer now."


def system_prompt(spec: AgentSpec, task: Task, own: str) -> str:
    """Return the agent's prompt, the harness's rules and the task's prompt, in this order."""
    rules = own.format(workdir=task.workdir, output=task.output_path)
    parts = (spec.system_prompt, rules, task.system_prompt)
    return "\n\n".join(part.strip() for part in parts if part and part.strip())
