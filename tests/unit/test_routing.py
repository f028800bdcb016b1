"""Which provider a model's name means, and what is said before a run that could not ask it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_aecbench import errors
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.providers import Model, routing
from pytest_aecbench.providers.routing import (
    PROVIDERS,
    Route,
    check_route,
    find_route,
    make_model,
)
from tests.conformance.providers import forget_variables


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_variables(monkeypatch)


def routed(name: str, client: dict[str, Any] | None = None) -> tuple[str, str]:
    route = find_route(name, client or {}, "agents.0")
    return route.provider, route.model


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("together:meta-llama/Llama-4", "together", "meta-llama/Llama-4"),
        ("anthropic:claude-x", "anthropic", "claude-x"),
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("bedrock:my-model", "bedrock", "my-model"),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", "bedrock", None),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", None),
        ("eu.amazon.nova-pro-v1:0", "bedrock", None),
        ("au.anthropic.claude-opus-5", "bedrock", None),
        ("global.anthropic.claude-opus-5", "bedrock", None),
        ("meta.llama3-1-70b-instruct-v1:0", "bedrock", None),
        ("azure:our-deployment", "azure", "our-deployment"),
        ("openai:anything", "openai", "anything"),
        ("gpt-5", "openai", None),
        ("o3-mini", "openai", None),
        ("chatgpt-4o-latest", "openai", None),
        ("scripted:replies.json", "scripted", "replies.json"),
    ],
)
def test_a_name_means_a_provider(name: str, provider: str, model: str | None) -> None:
    assert routed(name) == (provider, model or name)


def test_azure_gets_other_names_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://example.openai.azure.com")
    assert routed("gpt-5")[0] == "openai"  # an endpoint without a key is not enough
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key")
    assert routed("gpt-5")[0] == "azure"
    assert routed("our-deployment")[0] == "azure"
    assert routed("claude-sonnet-4-5")[0] == "anthropic"
    assert routed("us.anthropic.claude-opus-5")[0] == "bedrock"
    assert routed("openai:gpt-5") == ("openai", "gpt-5")


def test_a_prefix_beats_a_guess() -> None:
    assert routed("together:claude-3") == ("together", "claude-3")
    assert routed("bedrock:gpt-5") == ("bedrock", "gpt-5")
    assert routed("openai:us.anthropic.claude-opus-5") == ("openai", "us.anthropic.claude-opus-5")


def test_the_clients_kind_beats_all() -> None:
    assert routed("claude-3", {"kind": "openai"}) == ("openai", "claude-3")
    assert routed("openai:gpt-5", {"kind": "openai"}) == ("openai", "gpt-5")
    assert routed("llama3:8b", {"kind": "openai"}) == ("openai", "llama3:8b")


def test_an_unknown_name_is_told_with_the_prefixes() -> None:
    with pytest.raises(SettingsError) as caught:
        find_route("llama3:8b", {}, "agents.0")
    message = str(caught.value)
    assert message.startswith(
        "agents.0: no provider is known for the model 'llama3:8b'; put one of"
    )
    for prefix in PROVIDERS:
        assert f"'{prefix}:'" in message


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"kind": "antropic"}, "client.kind: 'antropic' is not known; did you mean 'anthropic'?"),
        (
            {"kind": "openai", "settings": {"base_uri": "x"}},
            "client.settings.base_uri: unknown key; did you mean 'base_url'?",
        ),
        (
            {"kind": "openai", "settings": {"api": "responsive", "base_url": "http://x"}},
            "client.settings.api: 'responsive' is not known; did you mean 'responses'?",
        ),
        (
            {"kind": "openai", "settings": {"max_in_flight": 0}},
            "client.settings.max_in_flight: 0 is not valid; use a whole number from 1",
        ),
        (
            {"kind": "openai", "settings": {"headers": ["X-Team: a"]}},
            "client.settings.headers: list instead of a table; write each header as 'name: value'",
        ),
        (
            {"kind": "scripted", "settings": {"api_key": "x"}},
            "client.settings.api_key: unknown key; leave it out",
        ),
    ],
)
def test_a_mistake_in_the_client_is_told_with_the_nearest_key(
    client: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        check_route(find_route("x", client, "agents.0"), "agents.0")
    assert str(caught.value) == f"agents.0: {message}"


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("claude-x", "ANTHROPIC_API_KEY is not set"),
        ("gpt-5", "OPENAI_API_KEY is not set"),
        ("together:x", "TOGETHER_API_KEY is not set"),
        ("azure:x", "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT are not set"),
        ("bedrock:x", "AWS_REGION is not set"),
    ],
)
def test_a_missing_variable_is_named(name: str, missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        check_route(find_route(name, {}, "agents.0"), "agents.0")


def test_bedrock_needs_credentials_or_a_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    route = Route("bedrock", "x")
    with pytest.raises(SettingsError, match="there are no AWS credentials; set AWS_BEARER_TOKEN"):
        check_route(route, "agents.0")
    check_route(Route("bedrock", "x", {"bearer_token": "t"}), "agents.0")
    credentials = tmp_path / "credentials"
    credentials.write_text("[work]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    check_route(Route("bedrock", "x", {"profile": "work"}), "agents.0")
    with pytest.raises(SettingsError, match=r"The config profile \(home\) could not be found"):
        check_route(Route("bedrock", "x", {"profile": "home"}), "agents.0")


def test_a_token_and_an_endpoint_need_no_region() -> None:
    settings = {"bearer_token": "t", "endpoint": "http://127.0.0.1:1"}
    check_route(Route("bedrock", "x", settings), "agents.0")


def test_the_region_may_come_from_a_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile work]\nregion = eu-west-1\naws_access_key_id = a\n"
                      "aws_secret_access_key = b\n")  # fmt: skip
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    check_route(Route("bedrock", "x", {"profile": "work"}), "agents.0")


def test_a_server_of_ones_own_needs_no_key() -> None:
    client = {"kind": "openai", "settings": {"base_url": "http://127.0.0.1:8000/v1"}}
    check_route(find_route("llama3:8b", client, "agents.0"), "agents.0")


def test_a_missing_sdk_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = PROVIDERS["anthropic"]._replace(sdk="no_such_sdk")
    monkeypatch.setitem(routing.PROVIDERS, "anthropic", absent)
    with pytest.raises(SettingsError, match=r"pip install 'pytest-aecbench\[agents\]'"):
        check_route(Route("anthropic", "claude-x", {"api_key": "k"}), "agents.0")


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - {"scripted"}))
def test_every_provider_has_a_model_that_shows_no_secret(provider: str) -> None:
    model = make_model(Route(provider, "a-model", {"api_key": "very-secret"}))
    assert isinstance(model, Model)
    assert repr(model.route) == f"<model {provider}:a-model>"
    assert "very-secret" not in repr(vars(model))


# The page

PAGE = (Path(__file__).parents[2] / "docs/providers.md").read_text(encoding="utf-8")
AGENTS = [
    agent
    for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for agent in yaml.safe_load(block)["agents"]
]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: str(agent["name"]))
def test_the_agents_of_the_page_can_be_asked(
    agent: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile bench]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    route = find_route(agent["model"], agent["client"], "agents.0")
    assert (route.provider, route.model) == (agent["client"]["kind"], agent["model"])
    check_route(route, "agents.0")


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - {"scripted"}))
def test_the_page_has_every_prefix_variable_and_setting(provider: str) -> None:
    row = PROVIDERS[provider]
    (named,) = re.findall(rf"^\|[^|]*\| `{provider}:` \|.*$", PAGE, re.MULTILINE)
    for name in (row.extra, *row.variables, *row.optional):
        assert f"`{name}`" in named
    (settings,) = re.findall(rf"^\| `{provider}` \|(.*)\|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", settings) == sorted(row.settings)


def test_the_page_has_every_error_with_its_retries() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| (yes|no) \|", PAGE, re.MULTILINE))
    kinds = {kind.__name__: kind for kind in errors.ProviderError.__subclasses__()}
    assert rows == {
        name: "yes" if errors.classify(kind).retry else "no"
        for name, kind in kinds.items()
        if kind.__module__ == errors.__name__
    }
