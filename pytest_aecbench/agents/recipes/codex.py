"""The agent ``codex``: OpenAI's Codex, without a person."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.printed import Reading, printed_objects, read_usage
from pytest_aecbench.agents.recipes import RecipeAgent, last_event
from pytest_aecbench.agents.recipes.native import NATIVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.errors import ProviderError

__all__ = ["CodexAgent"]

_INSTALL = r"""
unpack "@openai/codex/-/codex-$AGENT_VERSION-linux-$arch.tgz" /opt/codex
ln -sf "$(find /opt/codex/vendor -type f -name codex -perm -u+x)" /usr/local/bin/codex
codex --version
"""

# The built-in provider first tries a WebSocket, which servers other than OpenAI's do not have.
_RUN = r"""
export CODEX_HOME=/logs/agent/codex
mkdir -p "$CODEX_HOME"
[ -z "${AGENT_SYSTEM_PROMPT:-}" ] || printf '%s\n' "$AGENT_SYSTEM_PROMPT" > "$CODEX_HOME/AGENTS.md"
set -- exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox
set -- "$@" --model "$AGENT_MODEL"
if [ -n "${OPENAI_BASE_URL:-}" ]; then
  provider="name=\"aecbench\", base_url=\"$OPENAI_BASE_URL\", env_key=\"OPENAI_API_KEY\""
  set -- "$@" -c model_provider=aecbench
  set -- "$@" -c "model_providers.aecbench={$provider, wire_api=\"responses\"}"
else
  export CODEX_API_KEY="$OPENAI_API_KEY"
fi
codex "$@" ARGUMENTS - < "$AGENT_INSTRUCTION_FILE"
"""

# Of its files, the transcript is kept; the others may hold copies of the environment.
_REPORT = r"""
cd /logs/agent/codex || exit 0
[ ! -d sessions ] || find sessions -name '*.jsonl' -exec grep -h '"token_count"' {} +
find . -mindepth 1 -maxdepth 1 ! -name sessions -exec rm -rf {} +
"""
_STATUS = re.compile(r"\bstatus (\d{3})\b")


class CodexAgent(RecipeAgent):
    """Runs ``codex exec``, whose transcript has the usage after each turn, but no cost."""

    program = "codex"
    version = "0.169.0"
    script = NATIVE + _INSTALL
    command = _RUN
    report = _REPORT
    keys = ("OPENAI_API_KEY",)
    more = ("OPENAI_BASE_URL",)

    def read(self, stdout: str, report: str) -> Reading:
        """Return the last total of the transcript, and the number of its totals."""
        counts = [event["payload"].get("info") for event in printed_objects(report)]
        totals = [info["total_token_usage"] for info in counts if info]
        if not totals:
            return Reading()
        return Reading(read_usage(totals[-1]), turns=len(totals))

    def trouble(self, execution: BackendExecutionResult, report: str) -> ProviderError | None:
        """Return the error of the API that ended the run, or that it waited for until the end."""
        events = list(printed_objects(execution.stdout))
        error: Mapping[str, Any] = last_event(events, "turn.failed").get("error") or {}
        if execution.timed_out and events and events[-1].get("type") == "error":
            error = events[-1]
        message = str(error.get("message", ""))
        status = _STATUS.search(message)
        return self.failed(int(status[1]) if status else None, message) if message else None
