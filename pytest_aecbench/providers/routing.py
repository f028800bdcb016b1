"""Routing: which provider a model's name means, and which variables that provider needs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from pytest_aecbench.providers import Model

__all__ = [
    "PROVIDERS",
    "Provider",
    "Route",
    "check_route",
    "find_route",
    "is_installed",
    "make_model",
    "missing",
]


class Provider(NamedTuple):
    """A provider: its class, its SDK with the extra that installs it, and its variables.

    ``variables`` are those that it needs, each with the setting that takes its place; where
    ``own_server`` is set, it needs none. ``settings`` are the keys that ``client.settings`` may
    have.
    """

    path: str
    sdk: str | None = None
    extra: str | None = None
    variables: Mapping[str, str | None] = {}
    optional: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    own_server: str | None = None


_OPENAI_SETTINGS = ("api", "api_key", "base_url", "headers", "max_in_flight")
PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        "pytest_aecbench.providers.anthropic.AnthropicModel",
        "anthropic",
        "agents",
        {"ANTHROPIC_API_KEY": "api_key"},
        ("ANTHROPIC_BASE_URL",),
        ("api_key", "base_url", "headers", "max_in_flight"),
    ),
    "azure": Provider(
        "pytest_aecbench.providers.azure.AzureModel",
        "openai",
        "agents",
        {"AZURE_OPENAI_API_KEY": "api_key", "AZURE_OPENAI_ENDPOINT": "endpoint"},
        ("AZURE_OPENAI_API_VERSION",),
        ("api", "api_key", "api_version", "endpoint", "headers", "max_in_flight"),
    ),
    "bedrock": Provider(
        "pytest_aecbench.providers.bedrock.BedrockModel",
        "boto3",
        "bedrock",
        {},
        (
            "AWS_BEARER_TOKEN_BEDROCK",
            "AWS_BEARER_TOKEN",
            "AWS_BEDROCK_ENDPOINT",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "AWS_PROFILE",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
        ),
        ("bearer_token", "endpoint", "max_in_flight", "profile", "region"),
    ),
    "openai": Provider(
        "pytest_aecbench.providers.openai.OpenAIModel",
        "openai",
        "agents",
        {"OPENAI_API_KEY": "api_key"},
        ("OPENAI_BASE_URL",),
        _OPENAI_SETTINGS,
        own_server="base_url",
    ),
    "scripted": Provider("pytest_aecbench.providers.scripted.ScriptedModel"),
    "together": Provider(
        "pytest_aecbench.providers.openai.TogetherModel",
        "openai",
        "agents",
        {"TOGETHER_API_KEY": "api_key"},
        (),
        _OPENAI_SETTINGS,
    ),
}

_OPENAI_LIKE = re.compile(r"(?:gpt|o\d|chatgpt|codex|davinci|babbage)(?:[-.:]|$)")
# A model of Bedrock has its vendor before a dot, and maybe the region of a profile before that.
_BEDROCK_LIKE = re.compile(
    r"(?:(?:us|us-gov|eu|au|apac|ap|jp|ca|sa|global)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|luma|meta|mistral|openai|qwen|stability|twelvelabs|"
    r"writer)\..+"
)


@dataclass(frozen=True, slots=True, repr=False)
class Route:
    """The way to a model: its provider, its name there, and the settings of the client.

    ``settings`` have their variables replaced, so they may hold secrets.
    """

    provider: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<model {self.provider}:{self.model}>"

    def variable(self, name: str, setting: str | None = None) -> str | None:
        """Return the client's setting, or the variable of that name, unless it is empty."""
        given = self.settings.get(setting) if setting else None
        return str(given) if given else (os.environ.get(name, "").strip() or None)


def find_route(name: str, client: Mapping[str, Any], where: str) -> Route:
    """Return the way to the model that a user names; ``client`` may name its provider.

    Raises:
        SettingsError: no provider is meant, or one that is not known.

    """
    settings = dict(client.get("settings") or {})
    prefix, colon, rest = name.partition(":")
    kind = client.get("kind") or (prefix if colon and prefix in PROVIDERS else None)
    if kind is not None:
        if kind not in PROVIDERS:
            raise SettingsError(
                f"{where}: client.kind: {kind!r} is not known; {did_you_mean(kind, PROVIDERS)}"
            )
        return Route(kind, rest if colon and prefix == kind else name, settings)
    guessed = _guess(name)
    if guessed is None:
        prefixes = ", ".join(f"'{known}:'" for known in sorted(PROVIDERS))
        raise SettingsError(
            f"{where}: no provider is known for the model {name!r}; put one of {prefixes} before it"
        )
    return Route(guessed, name, settings)


def _guess(name: str) -> str | None:
    if name.startswith("claude-"):
        return "anthropic"
    if _BEDROCK_LIKE.fullmatch(name):
        return "bedrock"
    if os.environ.get("AZURE_OPENAI_ENDPOINT") and os.environ.get("AZURE_OPENAI_API_KEY"):
        return "azure"
    return "openai" if _OPENAI_LIKE.match(name) else None


def missing(provider: str, settings: Mapping[str, Any] | None = None) -> list[str]:
    """Return the variables that the provider needs and that nothing supplies."""
    row = PROVIDERS[provider]
    given = settings or {}
    if row.own_server and given.get(row.own_server):
        return []
    return [
        variable
        for variable, setting in row.variables.items()
        if not given.get(setting or "") and not os.environ.get(variable, "").strip()
    ]


def check_route(route: Route, where: str) -> None:
    """Raise SettingsError unless the model could be called now, as far as this machine can tell."""
    row = PROVIDERS[route.provider]
    for key in route.settings:
        if key not in row.settings:
            right = did_you_mean(key, row.settings) if row.settings else "leave it out"
            raise SettingsError(f"{where}: client.settings.{key}: unknown key; {right}")
    if not isinstance(headers := route.settings.get("headers") or {}, Mapping):
        raise SettingsError(
            f"{where}: client.settings.headers: {type(headers).__name__} instead of a table; "
            "write each header as 'name: value'"
        )
    most = route.settings.get("max_in_flight", 1)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise SettingsError(
            f"{where}: client.settings.max_in_flight: {most!r} is not valid; "
            "use a whole number from 1"
        )
    if absent := missing(route.provider, route.settings):
        keys = " and ".join(absent)
        verb = "are" if len(absent) > 1 else "is"
        raise SettingsError(
            f"{where}: {route.model!r} is asked at {route.provider}, but {keys} {verb} not set; "
            "set it in the environment or in .env"
        )
    if row.sdk and not is_installed(route.provider):
        raise SettingsError(
            f"{where}: {route.model!r} is asked at {route.provider}, but {row.sdk} is not "
            f"installed; pip install 'pytest-aecbench[{row.extra}]'"
        )
    check = getattr(_model_class(route), "check", None)
    if check is not None:
        check(route, where)


def is_installed(provider: str) -> bool:
    """Return whether the provider's SDK is there; importing it would be slow."""
    sdk = PROVIDERS[provider].sdk
    return sdk is None or importlib.util.find_spec(sdk) is not None


def make_model(route: Route) -> Model:
    """Make the model at the end of the way."""
    made: Model = _model_class(route)(route)
    return made


def _model_class(route: Route) -> Any:
    module, _, name = PROVIDERS[route.provider].path.rpartition(".")
    return getattr(importlib.import_module(module), name)
