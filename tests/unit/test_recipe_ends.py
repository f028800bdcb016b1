"""How recipes tell a model's own end from a provider's failure, by the words of their programs."""

from __future__ import annotations

import pytest

from pytest_aecbench import errors
from pytest_aecbench.agents.recipes.claude_code import ClaudeCodeAgent
from pytest_aecbench.agents.spec import AgentSpec


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> ClaudeCodeAgent:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    spec = AgentSpec(name="claude-code", harness="claude-code", model="claude-sonnet-4-20250514")
    return ClaudeCodeAgent(spec)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "API Error: Claude's response exceeded the 32000 output token maximum.",
            errors.ContextExceeded,
        ),
        (
            (
                "API Error: Claude Code is unable to respond to this request, which appears to "
                "violate our Usage Policy."
            ),
            errors.Refused,
        ),
        ("Prompt is too long", errors.ContextExceeded),
        ("API Error: Connection error.", errors.ConnectionFailed),
        ("API Error: Request timed out.", errors.ConnectionFailed),
    ],
)
def test_an_end_without_a_status_is_told_by_its_words(
    agent: ClaudeCodeAgent, said: str, expected: type[errors.ProviderError]
) -> None:
    assert type(agent.failed(None, said)) is expected
