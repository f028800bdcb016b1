"""The provider ``azure``: OpenAI's models at a resource of Azure, by the name of a deployment."""

from __future__ import annotations

from typing import Any

from pytest_aecbench.providers import faults
from pytest_aecbench.providers.openai import OpenAIModel, Server, make_client
from pytest_aecbench.providers.sdks import headers_of, shared

__all__ = ["AzureModel"]

_API_VERSION = "2024-10-21"


class AzureModel(OpenAIModel):
    """A deployment at Azure.

    An endpoint that ends in ``/openai/v1/`` speaks as OpenAI does. Any other is a resource, where
    URLs name the deployment and the version of the API.
    """

    def _api(self) -> str:
        """Return the API; the default version of a resource's has only chat completions."""
        if self.route.settings.get("api") or self._is_v1():
            return super()._api()
        return "chat"

    def _is_v1(self) -> bool:
        return self._needed("AZURE_OPENAI_ENDPOINT", "endpoint").rstrip("/").endswith("/openai/v1")

    def _needed(self, variable: str, setting: str) -> str:
        value = self.route.variable(variable, setting)
        if value is None:
            raise faults.keyless(self.route, variable)
        return value

    def _server(self) -> Server:
        return Server(
            self._needed("AZURE_OPENAI_API_KEY", "api_key"),
            self._needed("AZURE_OPENAI_ENDPOINT", "endpoint"),
            False,
            headers_of(self.route),
        )

    def _client(self) -> Any:
        if self._is_v1():
            return shared(make_client, self._server())
        version = self.route.variable("AZURE_OPENAI_API_VERSION", "api_version")
        version = version or self.route.variable("AGENT_API_VERSION") or _API_VERSION
        return shared(_make_client, self._server(), version)


def _make_client(server: Server, api_version: str) -> Any:
    import openai

    return openai.AzureOpenAI(
        api_key=server.key,
        azure_endpoint=(server.base_url or "").rstrip("/").removesuffix("/openai"),
        api_version=api_version,
        default_headers=dict(server.headers),
        max_retries=0,
    )
