"""The agent ``claude-code``: Anthropic's Claude Code, without a person."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_aecbench.agents.parameters import TurnedRecipeParameters
from pytest_aecbench.agents.printed import printed_objects
from pytest_aecbench.agents.recipes import RecipeAgent, last_event
from pytest_aecbench.agents.recipes.native import NATIVE

if TYPE_CHECKING:
    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.errors import ProviderError

__all__ = ["ClaudeCodeAgent"]

_INSTALL = r"""
package=claude-code-linux-$arch$musl
unpack "@anthropic-ai/$package/-/$package-$AGENT_VERSION.tgz" /opt/claude-code
[ -z "$musl" ] || packages libgcc libstdc++ ripgrep
ln -sf /opt/claude-code/claude /usr/local/bin/claude
claude --version
"""

# IS_SANDBOX lets it skip the questions about permissions as root, too.
_RUN = r"""
export IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
export CLAUDE_CONFIG_DIR=/logs/agent/claude
set -- --print --output-format stream-json --verbose --dangerously-skip-permissions
set -- "$@" --model "$AGENT_MODEL"
[ -z "${AGENT_MAX_TURNS:-}" ] || set -- "$@" --max-turns "$AGENT_MAX_TURNS"
[ -z "${AGENT_SYSTEM_PROMPT:-}" ] || set -- "$@" --append-system-prompt "$AGENT_SYSTEM_PROMPT"
claude "$@" ARGUMENTS < "$AGENT_INSTRUCTION_FILE"
"""


class ClaudeCodeAgent(RecipeAgent):
    """Runs ``claude --print``, whose last line has the usage, the cost and the turns."""

    program = "claude"
    version = "2.1.326"
    script = NATIVE + _INSTALL
    command = _RUN
    keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    more = ("ANTHROPIC_BASE_URL",)
    parameters = TurnedRecipeParameters

    def trouble(self, execution: BackendExecutionResult, report: str) -> ProviderError | None:
        """Return the error of the API that ended the run, or that it waited for until the end."""
        events = list(printed_objects(execution.stdout))
        last = events[-1] if events else {}
        if execution.timed_out and last.get("subtype") == "api_retry":
            return self.failed(last.get("error_status"), str(last.get("error")))
        result = last_event(events, "result")
        if not result.get("is_error") or result.get("subtype") != "success":
            return None
        return self.failed(result.get("api_error_status"), str(result.get("result", "")))

    def ended(self, result: AgentResult, stdout: str, report: str) -> AgentResult:
        """Return the result with the reason that the last line gives."""
        event = last_event(list(printed_objects(stdout)), "result")
        if event.get("subtype") == "error_max_turns":
            return replace(result, status="limit_reached", end="turn_limit")
        return super().ended(result, stdout, report)
