"""The agent ``mini-swe-agent``: a small loop around bash, for any model that litellm knows."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.parameters import TurnedRecipeParameters
from pytest_aecbench.agents.printed import printed_objects
from pytest_aecbench.agents.recipes import RecipeAgent

if TYPE_CHECKING:
    from pytest_aecbench.agents import AgentResult
    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.errors import ProviderError

__all__ = ["MiniSweAgent"]

# litellm imports mcp when it is first used, and does not say that it needs it.
_INSTALL = r"""
python3 -m venv /opt/mini-swe-agent || {
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv
  rm -rf /var/lib/apt/lists/*
  python3 -m venv --clear /opt/mini-swe-agent
}
/opt/mini-swe-agent/bin/pip install --no-cache-dir "mini-swe-agent==$AGENT_VERSION" 'mcp<3'
ln -sf /opt/mini-swe-agent/bin/mini /usr/local/bin/mini
MSWEA_SILENT_STARTUP=1 MSWEA_GLOBAL_CONFIG_DIR=/tmp/mini mini --help >/dev/null
rm -rf /tmp/mini
"""

_RUN = r"""
export MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1 MSWEA_COST_TRACKING=ignore_errors
export MSWEA_GLOBAL_CONFIG_DIR=/logs/agent/mini LITELLM_LOCAL_MODEL_COST_MAP=True
set -- --model "$AGENT_MODEL" --yolo --exit-immediately --cost-limit 0
set -- "$@" --output /logs/agent/mini/trajectory.json --config mini.yaml
[ -z "${AGENT_MAX_TURNS:-}" ] || set -- "$@" --config "agent.step_limit=$AGENT_MAX_TURNS"
mini "$@" ARGUMENTS --task "${AGENT_SYSTEM_PROMPT:+$AGENT_SYSTEM_PROMPT

}$(cat "$AGENT_INSTRUCTION_FILE")" </dev/null
"""

# A price that litellm does not know is a cost of 0.
_SUMMARY = """
import json
try:
    with open("/logs/agent/mini/trajectory.json") as file:
        run = json.load(file)
except (OSError, ValueError):
    raise SystemExit
totals = {}
def add(counts):
    for name, value in counts.items():
        if isinstance(value, dict):
            add(value)
        elif isinstance(value, int):
            totals[name] = totals.get(name, 0) + value
for message in run["messages"]:
    response = message.get("extra", {}).get("response")
    if isinstance(response, dict):
        add(response.get("usage") or {})
stats = run["info"]["model_stats"]
print(json.dumps({
    "usage": totals,
    "cost_usd": stats["instance_cost"] or None,
    "turns": stats["api_calls"],
    "end": run["info"]["exit_status"],
    "message": str(run["messages"][-1].get("content", ""))[:500],
}))
"""

# The exceptions of litellm that are a provider's, as statuses of HTTP.
_FAILURES = {
    "APIConnectionError": None,
    "APIError": 500,
    "AuthenticationError": 401,
    "BadGatewayError": 502,
    "BadRequestError": 400,
    "ContextWindowExceededError": 413,
    "InternalServerError": 500,
    "NotFoundError": 404,
    "PermissionDeniedError": 403,
    "RateLimitError": 429,
    "ServiceUnavailableError": 503,
    "Timeout": 408,
    "UnsupportedParamsError": 400,
}
_RETRY = re.compile(r"Retrying \S+ in \d+ seconds as it\s+raised\s+(?:[\w.]+\.)?(\w+):\s*(.*)")


class MiniSweAgent(RecipeAgent):
    """Runs ``mini``, whose trajectory has the usage and the cost of each call."""

    program = "mini"
    version = "2.4.6"
    script = _INSTALL
    command = _RUN
    report = f"python3 -c {shlex.quote(_SUMMARY)}"
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
    more = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")
    parameters = TurnedRecipeParameters

    def trouble(self, execution: BackendExecutionResult, report: str) -> ProviderError | None:
        """Return the error of the API that ended the run, or that it waited for until the end."""
        end, message = _end(report)
        retries = _RETRY.findall(execution.stdout + execution.stderr)
        if execution.timed_out and retries:
            end, message = retries[-1]
        return self.failed(_FAILURES[end], message) if end in _FAILURES else None

    def ended(self, result: AgentResult, stdout: str, report: str) -> AgentResult:
        """Return the result with the status in the trajectory."""
        end, message = _end(report)
        if end == "LimitsExceeded":
            return replace(result, status="limit_reached", end="turn_limit")
        if end != "Submitted":
            return replace(result, status="failed", error=f"{end or 'no end'}: {message}"[:200])
        return replace(result, end="submitted")


def _end(report: str) -> tuple[str, str]:
    last: dict[str, Any] = next(printed_objects(report), {})
    return str(last.get("end", "")), str(last.get("message", ""))
