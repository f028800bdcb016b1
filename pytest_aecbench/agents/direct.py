"""The agent ``direct``: one call to a model, whose text becomes the output file as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.agents import AgentLimits, AgentResult, context_of
from pytest_aecbench.agents.model_agent import ModelAgent, add_reply
from pytest_aecbench.agents.parameters import DirectParameters
from pytest_aecbench.agents.prompts import DIRECT_VERSION, direct_system, user_message
from pytest_aecbench.agents.tools import write_text
from pytest_aecbench.errors import ContextExceeded, Refused
from pytest_aecbench.providers import Message, Text
from pytest_aecbench.providers.calls import DeadlineReached

if TYPE_CHECKING:
    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.tasks.task import Task

__all__ = ["DirectAgent"]

_ENDS = {"length": "length", "refusal": "refusal", "context": "context_length"}
_WRITE_SEC = 60.0


class DirectAgent(ModelAgent[DirectParameters]):
    """Asks once. A reply that was cut by length is still written, and marked."""

    parameters_model = DirectParameters
    prompt_version = DIRECT_VERSION

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        """Ask the model and write what it says."""
        trajectory, caller = context_of(sandbox).trajectory, self.caller(sandbox, limits)
        system, asked = direct_system(self.spec, task), user_message(task)
        trajectory.add("system", system)
        trajectory.add("user", asked)
        try:
            call = caller.call(self.request((Message("user", (Text(asked),)),), system, limits))
        except DeadlineReached:
            return self.result(caller, "deadline", turns=0, error="no reply before the deadline")
        except ContextExceeded as error:
            return self.result(caller, "context_length", turns=0, error=str(error))
        except Refused as error:
            return self.result(caller, "refusal", turns=0, error=str(error))
        add_reply(trajectory, call, turn=1)
        if text := call.reply.message.text:
            done = write_text(sandbox, str(task.output_path), text, _WRITE_SEC)
            if done.returncode != 0:
                why = f"{task.output_path} could not be written: {done.stderr.strip()[-500:]}"
                return self.result(caller, "stopped", turns=1, error=why)
        end = _ENDS.get(call.reply.stop, "replied")
        errors = {"length": "the reply was cut at max_tokens", "refusal": "the model refused"}
        return self.result(caller, end, turns=1, error=errors.get(end))
