"""Prices of models: the user's own table, else what ``genai-prices`` knows, else unknown."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.providers import Usage
    from pytest_aecbench.providers.routing import Route

__all__ = ["Price", "Tariff", "find_price"]

_PER = 1_000_000
# How genai-prices calls our providers.
_PUBLISHED = {
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "aws",
    "openai": "openai",
    "together": "together",
}


@dataclass(frozen=True, slots=True)
class Price:
    """A price in USD for a million tokens; a cache's price of None is that of input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class Tariff(Protocol):
    """Something that knows what a call costs."""

    @property
    def source(self) -> str:
        """The source of the prices."""
        ...

    def cost(self, usage: Usage) -> float | None:
        """Return the cost in USD; None where it cannot be known."""
        ...


def find_price(route: Route, own: Mapping[str, Price]) -> Tariff | None:
    """Return the prices of a model: the user's own, by its name with or without its provider."""
    for name in (f"{route.provider}:{route.model}", route.model):
        if name in own:
            return _OwnTariff(own[name])
    if route.provider == "scripted":
        from pytest_aecbench.providers.scripted import script_price

        price = script_price(route)
        return _OwnTariff(price, "script") if price else None
    # A server of the user's own may have a model of a well-known name, at its own price.
    if route.settings.get("base_url"):
        return None
    return _published(route)


@dataclass(frozen=True, slots=True)
class _OwnTariff:
    price: Price
    source: str = "own"

    def cost(self, usage: Usage) -> float | None:
        if usage.tokens_in is None or usage.tokens_out is None:
            return None
        price = self.price
        read = price.input if price.cache_read is None else price.cache_read
        write = price.input if price.cache_write is None else price.cache_write
        usd = (
            usage.tokens_in * price.input
            + usage.tokens_out * price.output
            + (usage.tokens_cache_read or 0) * read
            + (usage.tokens_cache_write or 0) * write
        )
        return usd / _PER


@dataclass(frozen=True, slots=True)
class _PublishedTariff:
    provider: str
    model: str
    source: str

    def cost(self, usage: Usage) -> float | None:
        from genai_prices import Usage as Counted
        from genai_prices import calc_price

        if usage.tokens_in is None or usage.tokens_out is None:
            return None
        read, write = usage.tokens_cache_read or 0, usage.tokens_cache_write or 0
        counted = Counted(
            input_tokens=usage.tokens_in + read + write,
            cache_read_tokens=read,
            cache_write_tokens=write,
            output_tokens=usage.tokens_out,
        )
        try:
            price = calc_price(counted, self.model, provider_id=self.provider)
        except LookupError:
            return None
        return float(price.total_price)


def _published(route: Route) -> Tariff | None:
    provider = _PUBLISHED.get(route.provider)
    try:
        source = f"genai-prices {version('genai-prices')}"
    except PackageNotFoundError:
        return None
    if provider is None:
        return None
    from pytest_aecbench.providers import Usage

    tariff = _PublishedTariff(provider, route.model, source)
    return tariff if tariff.cost(Usage(tokens_in=1, tokens_out=1)) is not None else None
