"""Faults: which of our errors a provider's answer means, in words that hold no key."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.errors import (
    AuthFailed,
    ConnectionFailed,
    ContextExceeded,
    ModelNotFound,
    ModelTimeout,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Refused,
    RequestRejected,
    ServerFailed,
)
from pytest_aecbench.host.secrets import Scrubber, names_credential, secrets_from
from pytest_aecbench.text import printable, shortened

if TYPE_CHECKING:
    from pytest_aecbench.providers.routing import Route

__all__ = [
    "Answer",
    "broken",
    "from_answer",
    "keyless",
    "masked",
    "retry_after_sec",
    "timed_out",
]

# Codes and types of errors, as the providers call them.
_BY_CODE: dict[str, type[ProviderError]] = {
    code.lower(): kind
    for kind, codes in {
        AuthFailed: (
            "AccessDeniedException",
            "authentication_error",
            "ExpiredTokenException",
            "invalid_api_key",
            "InvalidSignatureException",
            "MissingAuthenticationTokenException",
            "permission_error",
            "UnrecognizedClientException",
        ),
        QuotaExceeded: (
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "enforced_spend_limit_reached",
            "insufficient_quota",
            "ServiceQuotaExceededException",
        ),
        RateLimited: ("rate_limit_error", "rate_limit_exceeded", "ThrottlingException"),
        Overloaded: ("ModelNotReadyException", "overloaded_error", "ServiceUnavailableException"),
        ServerFailed: (
            "api_error",
            "InternalServerException",
            "ModelErrorException",
            "server_error",
        ),
        ModelTimeout: ("ModelTimeoutException", "timeout_error"),
        ModelNotFound: (
            "DeploymentNotFound",
            "model_not_found",
            "not_found_error",
            "ResourceNotFoundException",
        ),
        ContextExceeded: (
            "context_length_exceeded",
            "request_too_large",
            "string_above_max_length",
        ),
        Refused: (
            "bio_policy",
            "content_filter",
            "content_policy_violation",
            "image_content_policy_violation",
            "invalid_prompt",
            "misalignment_policy_violation",
            "ResponsibleAIPolicyViolation",
        ),
    }.items()
    for code in codes
}
_BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthFailed,
    402: QuotaExceeded,
    403: AuthFailed,
    404: ModelNotFound,
    408: ModelTimeout,
    409: ServerFailed,  # it may pass, as the next two
    413: ContextExceeded,
    425: ServerFailed,
    429: RateLimited,
    499: ServerFailed,
}
_BUSY = (503, 529)
# Some causes are told only by the words. A request that is larger than the tokens a minute that
# an account may use is as hopeless as one without credit.
_BY_WORDS: tuple[tuple[frozenset[int], re.Pattern[str], type[ProviderError]], ...] = tuple(
    (frozenset(statuses), re.compile(pattern, re.IGNORECASE), kind)
    for statuses, pattern, kind in (
        ((400, 403, 429), r"credit balance|exceeded your current quota", QuotaExceeded),
        ((429,), r"^request too large", QuotaExceeded),
        ((400, 413, 422), r"(?:prompt|input) is too long", ContextExceeded),
        ((400, 413, 422), r"context[_ ](?:length|window|size|limit)", ContextExceeded),
        ((400, 413, 422), r"maximum model length|max_new_tokens\W+must be", ContextExceeded),
        ((400,), r"content filter", Refused),
        ((400,), r"model identifier is invalid", ModelNotFound),
    )
)

# A longest answer that is asked for, and the room for question and answer. One that is larger than
# the room is a wrong setting, and not a conversation that has grown too long.
_NO_ROOM = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"_tokens\b.{0,60}too large: (?P<asked>\d+)\b.*?maximum context length is (?P<room>\d+)",
        r"maximum context length is (?P<room>\d+).*?\b(?P<asked>\d+) in the completion",
    )
)

# Keys by their looks, and words with stars in them, as providers show a part of a key.
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|tgp_v\d|key)[-_](?:[\w*.-]*\d[\w*-]*|[\w*-]{16,})|\bA[KS]IA[A-Z0-9*]{12,}"
    r"|(?<=Bearer )[\w*.~+/=-]{8,}|[\w-]*\*{2,}[\w-]*"
)
# A secret of at least twice this length is recognised by its first characters.
_BEGINNING = 8
_LONGEST = 500


class Answer(NamedTuple):
    """An error as a provider answered it; ``codes`` start with the most specific one."""

    status: int | None
    message: str
    codes: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}

    @classmethod
    def read(cls, status: int | None, body: Any, headers: Mapping[str, str]) -> Answer:
        """Return what the body of an answer says, in any of the shapes that are in use."""
        error = body.get("error", body) if isinstance(body, Mapping) else body
        if not isinstance(error, Mapping):
            return cls(status, str(error or ""), (), headers)
        message = next(
            (error[key] for key in ("message", "Message", "detail") if error.get(key)), error
        )
        return cls(status, str(message), tuple(_codes(error)), headers)


def _codes(error: Mapping[str, Any]) -> Iterable[str]:
    for inner in ("details", "innererror"):
        if isinstance(nested := error.get(inner), Mapping):
            yield from (str(nested[key]) for key in ("error_code", "code") if nested.get(key))
    yield from (str(error[key]) for key in ("code", "type", "__type") if error.get(key))


def from_answer(route: Route, answer: Answer) -> ProviderError:
    """Return the error that an answer means."""
    words = [answer.codes[0]] if answer.codes else []
    said = ": ".join([*words, answer.message] if answer.message else words)
    status = f" {answer.status}" if answer.status else ""
    return _kind(answer)(
        masked(route, f"{route.provider} answered{status}: {said or 'nothing'}"),
        status=answer.status,
        retry_after_sec=retry_after_sec(answer.headers),
    )


def _kind(answer: Answer) -> type[ProviderError]:
    if answer.status in (400, 422) and any(map(_is_too_large, _NO_ROOM, repeat(answer.message))):
        return RequestRejected
    for statuses, words, kind in _BY_WORDS:
        if answer.status in statuses and words.search(answer.message):
            return kind
    if answer.status in _BUSY:
        return Overloaded
    for code in answer.codes:
        if found := _BY_CODE.get(code.lower()):
            return found
    # An error within an answer that began well, as in a stream, is the server's.
    status = answer.status if answer.status and answer.status >= 400 else 500
    return _BY_STATUS.get(status, ServerFailed if status >= 500 else RequestRejected)


def _is_too_large(pattern: re.Pattern[str], message: str) -> bool:
    found = pattern.search(message)
    return found is not None and int(found["asked"]) >= int(found["room"])


def keyless(route: Route, variable: str) -> AuthFailed:
    """Return the error of a key that is not there."""
    return AuthFailed(
        f"{route.provider}: {variable} is not set; set it in the environment or in .env"
    )


def timed_out(route: Route, timeout_sec: float) -> ModelTimeout:
    """Return the error of an answer that did not come in time."""
    return ModelTimeout(f"{route.provider} did not answer in {timeout_sec:g} s")


def broken(route: Route, problem: object) -> ConnectionFailed:
    """Return the error of a connection that failed, or of an answer that makes no sense."""
    return ConnectionFailed(masked(route, f"{route.provider}: {problem}"))


def retry_after_sec(headers: Mapping[str, str]) -> float | None:
    """Return how long the provider wants to be left alone: in ms, in seconds, or until a date."""
    lower = {name.lower(): value for name, value in headers.items()}
    in_ms = _number(lower.get("retry-after-ms"))
    if in_ms is not None:
        return in_ms / 1000
    after = lower.get("retry-after")
    seconds = _number(after)
    return seconds if seconds is not None else _until(after)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until(text: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())


def masked(route: Route, text: str) -> str:
    """Return text on one line of moderate length, without the keys of the route."""
    secrets = _secrets(route)
    line = _KEY_LIKE.sub("<key>", Scrubber(secrets).text(" ".join(text.split())))
    for value in secrets.values():
        if len(value) >= 2 * _BEGINNING:
            line = re.sub(rf"{re.escape(value[:_BEGINNING])}[\w-]*", "<key>", line)
    return shortened(printable(line), _LONGEST)


def _secrets(route: Route) -> dict[str, str]:
    given = {name: str(value) for name, value in route.settings.items() if names_credential(name)}
    headers = route.settings.get("headers") or {}
    return secrets_from(os.environ, {**given, **{name: str(headers[name]) for name in headers}})
