"""Scripts: what the models of a stand-in say turn by turn, and what goes wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

__all__ = ["FAULTS", "RETRY_SEC", "Fault", "Tokens", "Turn", "Wish", "fault_in", "turn_from"]

RETRY_SEC = 7


@dataclass(frozen=True)
class Wish:
    """A tool call; arguments that are a string are sent as they are, be they JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Tokens used; ``fresh`` are those of the input that no cache has to do with."""

    fresh: int = 100
    read: int = 0
    written: int = 0
    out: int = 20
    reasoning: int = 0


@dataclass(frozen=True)
class Turn:
    """One reply. ``thinking`` is hidden state that has to come back with the next request.

    ``stop`` is "length", "refusal", "filter", "context" or "pause" for a reply that ends so.
    """

    text: str = ""
    calls: tuple[Wish, ...] = ()
    thinking: str = ""
    stop: str | None = None
    tokens: Tokens = Tokens()


def turn_from(data: Mapping[str, Any]) -> Turn:
    """Return a turn that is given as JSON."""
    calls = tuple(Wish(**call) for call in data.get("calls", ()))
    return Turn(
        data.get("text", ""),
        calls,
        data.get("thinking", ""),
        data.get("stop"),
        Tokens(**data.get("tokens", {})),
    )


@dataclass(frozen=True)
class Fault:
    """An answer that is not a reply: an error, or a connection that fails in a certain ``way``.

    Each vendor has its own words for an error: (type, message), (type, code, message), and
    (exception, message). ``{key}`` and ``{part}`` are the key of the request and a part of it.
    """

    status: int = 200
    anthropic: tuple[str, str] = ("invalid_request_error", "ordered by the test")
    openai: tuple[str, str | None, str] = ("invalid_request_error", None, "ordered by the test")
    bedrock: tuple[str, str] = ("ValidationException", "ordered by the test")
    headers: Mapping[str, str] = field(default_factory=dict)
    way: str | None = None


_LIMITED: dict[str, Any] = {
    "status": 429,
    "anthropic": ("rate_limit_error", "This request would exceed your rate limit"),
    "openai": ("requests", "rate_limit_exceeded", "Rate limit reached for requests"),
    "bedrock": ("ThrottlingException", "Too many requests, please wait before trying again."),
}

FAULTS: dict[str, Fault] = {
    "unauthorised": Fault(
        401,
        ("authentication_error", "invalid x-api-key {part}"),
        ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: {part}."),
        ("UnrecognizedClientException", "The security token {part} is invalid."),
    ),
    "forbidden": Fault(
        403,
        ("permission_error", "Your API key {key} may not use this resource"),
        ("invalid_request_error", None, "The key {key} may not use this resource"),
        ("AccessDeniedException", "{key}: You don't have access to the model."),
    ),
    "payment": Fault(
        402,
        ("billing_error", "Payment required"),
        ("billing", None, "Payment required"),
        ("ServiceQuotaExceededException", "Payment required"),
    ),
    "quota": Fault(
        429,
        ("rate_limit_error", "Your credit balance is too low to access the Anthropic API."),
        ("insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
        ("ServiceQuotaExceededException", "Your quota is used up."),
    ),
    "rate_seconds": Fault(**_LIMITED, headers={"retry-after": str(RETRY_SEC)}),
    "rate_ms": Fault(**_LIMITED, headers={"retry-after-ms": str(RETRY_SEC * 1000)}),
    "rate_date": Fault(**_LIMITED, headers={"retry-after": "<date>"}),
    "rate": Fault(**_LIMITED),
    "overloaded": Fault(
        529,
        ("overloaded_error", "Overloaded"),
        ("server_error", None, "Overloaded"),
        ("ModelNotReadyException", "The model is not ready."),
    ),
    "unavailable": Fault(
        503,
        ("api_error", "Unavailable"),
        ("service_unavailable", None, "The engine is overloaded"),
        ("ServiceUnavailableException", "Unavailable"),
    ),
    "failing": Fault(
        500,
        ("api_error", "Internal server error"),
        ("server_error", None, "The server had an error"),
        ("InternalServerException", "Internal server error"),
    ),
    "missing": Fault(
        404,
        ("not_found_error", "model: no-such-model"),
        ("invalid_request_error", "model_not_found", "The model does not exist"),
        ("ResourceNotFoundException", "Could not resolve the foundation model"),
    ),
    "context": Fault(
        400,
        ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens.",
        ),
        ("ValidationException", "Input is too long for requested model."),
    ),
    "too_large": Fault(
        413,
        ("request_too_large", "Request exceeds the maximum size"),
        ("invalid_request_error", None, "Payload too large"),
        ("ValidationException", "Payload too large"),
    ),
    "filtered": Fault(
        400,
        ("invalid_request_error", "Output blocked by content filtering policy"),
        ("invalid_request_error", "content_filter", "The prompt triggered the content policy"),
        ("ValidationException", "Output blocked by content filtering policy"),
    ),
    "rejected": Fault(400),
    "inside": Fault(
        200,
        ("overloaded_error", "Overloaded"),
        ("server_error", "rate_limit_exceeded", "Rate limit reached"),
        way="inside",
    ),
    "page": Fault(502, way="page"),
    "hang": Fault(way="hang"),
    "drip": Fault(way="drip"),
    "reset": Fault(way="reset"),
    "torn": Fault(way="torn"),
    "odd": Fault(way="odd"),
}

# Replies that are unusual, but replies.
ODD_TURNS: dict[str, Turn] = {
    "refusal": Turn("I will not do that", stop="refusal"),
    "length": Turn("the beginning of", stop="length"),
    "unknown_tool": Turn(calls=(Wish("no_such_tool", {"a": 1}),)),
    "bad_arguments": Turn(calls=(Wish("bash", '{"command": "ls'),)),
}

_ORDER = re.compile(r"fault-([a-z_]+)(?:-x(\d+))?")


def fault_in(model: str) -> tuple[str, int | None] | None:
    """Return the fault that a model's name orders, and for how many requests if not for all.

    Such as ``claude-fault-overloaded`` or ``gpt-4o-fault-rate_ms-x2``.
    """
    found = _ORDER.search(model)
    return (found[1], int(found[2]) if found[2] else None) if found else None


def headers_of(fault: Fault) -> dict[str, str]:
    """Return the headers of an error; a date is some seconds ahead of now."""
    moment = datetime.now(timezone.utc) + timedelta(seconds=RETRY_SEC)
    date = format_datetime(moment, usegmt=True)
    return {name: value.replace("<date>", date) for name, value in fault.headers.items()}
