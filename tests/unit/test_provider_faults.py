"""What a provider's answer means, and what is said about it."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest

from pytest_aecbench import errors
from pytest_aecbench.providers.faults import Answer, from_answer, masked, retry_after_sec
from pytest_aecbench.providers.routing import Route
from pytest_aecbench.providers.sdks import ask

ROUTE = Route("openai", "gpt-4o", {"api_key": "abcdefghijklmnopqrstuvwxyz"})


def kind(status: int | None, body: Any) -> type[errors.ProviderError]:
    return type(from_answer(ROUTE, Answer.read(status, body, {})))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, errors.RequestRejected),
        (401, errors.AuthFailed),
        (402, errors.QuotaExceeded),
        (403, errors.AuthFailed),
        (404, errors.ModelNotFound),
        (408, errors.ModelTimeout),
        (409, errors.ServerFailed),
        (413, errors.ContextExceeded),
        (422, errors.RequestRejected),
        (425, errors.ServerFailed),
        (429, errors.RateLimited),
        (499, errors.ServerFailed),
        (500, errors.ServerFailed),
        (502, errors.ServerFailed),
        (503, errors.Overloaded),
        (504, errors.ServerFailed),
        (529, errors.Overloaded),
        (None, errors.ServerFailed),
    ],
)
def test_a_status_without_words_has_a_meaning(
    status: int | None, expected: type[errors.ProviderError]
) -> None:
    assert kind(status, "") is expected


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum", errors.ContextExceeded),
        (
            400,
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            errors.ContextExceeded,
        ),
        (400, "This model's maximum context length is 4096 tokens.", errors.ContextExceeded),
        (400, "Input is too long for requested model.", errors.ContextExceeded),
        (400, "the request exceeds the available context size", errors.ContextExceeded),
        (
            422,
            "`inputs` tokens + `max_new_tokens` must be <= 4097",
            errors.ContextExceeded,
        ),
        (400, "prompt is longer than the maximum model length of 4096", errors.ContextExceeded),
        (400, "max_tokens is too large: 100000", errors.RequestRejected),
        (400, "Your credit balance is too low to access the API.", errors.QuotaExceeded),
        (429, "You exceeded your current quota", errors.QuotaExceeded),
        (429, "Request too large for gpt-4o: Limit 30000, Requested 31000", errors.QuotaExceeded),
        (429, "Too many tokens, please wait before trying again.", errors.RateLimited),
        (400, "Output blocked by content filtering policy", errors.Refused),
        (400, "The provided model identifier is invalid.", errors.ModelNotFound),
        (500, "context length", errors.ServerFailed),
    ],
)
def test_words_tell_what_a_status_does_not(
    status: int, message: str, expected: type[errors.ProviderError]
) -> None:
    assert kind(status, {"error": {"message": message}}) is expected


@pytest.mark.parametrize(
    "message",
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: {}. This model's maximum "
            "context length is 8192 tokens and your request has 5000 input tokens"
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 16500 "
            "tokens (116 in the messages, {} in the completion)."
        ),
    ],
)
def test_a_longest_answer_without_room_for_a_question_is_a_wrong_setting(message: str) -> None:
    assert kind(400, message.format(16384)) is errors.RequestRejected
    assert kind(400, message.format(8100)) is errors.ContextExceeded


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "a", "code": 400}}, "400: a"),
        ({"error": "a model is missing"}, "a model is missing"),
        ({"detail": "not here"}, "not here"),
        ({"object": "error", "message": "from vLLM", "type": "BadRequestError"}, "from vLLM"),
        ("<html>\n Bad\tGateway", "<html> Bad Gateway"),
        (None, "nothing"),
        ([1, 2], "[1, 2]"),
        ({}, "{}"),
    ],
)
def test_errors_of_any_shape_are_told_on_one_line(body: Any, message: str) -> None:
    error = from_answer(ROUTE, Answer.read(400, body, {}))
    assert str(error).startswith("openai answered 400: ")
    assert str(error).endswith(message)
    assert error.status == 400


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "content_filter", "innererror": {"code": "x"}, "message": "m"}},
        {"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        {"error": {"type": "image_content_policy_violation"}},
    ],
)
def test_a_content_filter_is_found_at_any_depth(body: Any) -> None:
    assert kind(400, body) is errors.Refused


def test_a_spending_limit_is_not_worth_waiting_for() -> None:
    details = {"error_code": "enforced_spend_limit_reached"}
    body = {"error": {"type": "rate_limit_error", "message": "m", "details": details}}
    assert kind(429, body) is errors.QuotaExceeded


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry-After": "20"}, 20),
        ({"retry-after": "0.5"}, 0.5),
        ({"Retry-After-Ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_the_time_to_wait_is_read_in_every_form(
    headers: dict[str, str], expected: float | None
) -> None:
    assert retry_after_sec(headers) == expected


@pytest.mark.parametrize("usegmt", [True, False])
def test_a_date_is_a_time_from_now(usegmt: bool) -> None:
    moment = datetime.now(timezone.utc) + timedelta(hours=1)
    after = retry_after_sec({"retry-after": format_datetime(moment, usegmt=usegmt)})
    assert after is not None
    assert math.isclose(after, 3600, abs_tol=120)


@pytest.mark.parametrize(
    "text",
    [
        "the key abcdefghijklmnopqrstuvwxyz is wrong",
        "the key abcdefghijkl… is wrong",
        "Incorrect API key provided: sk-proj-ABC**WXYZ.",
        "invalid: sk-ant-api03-x1y2z3",
        "AKIAABCDEFGHIJKLMNOP may not",
        "header was Bearer abc.def.ghi",
        "key ending in ****wxyz",
    ],
)
def test_keys_and_parts_of_keys_are_masked(text: str) -> None:
    shown = masked(ROUTE, text)
    for secret in ("abcdefgh", "sk-", "AKIA", "abc.def", "wxyz", "WXYZ"):
        assert secret not in shown
    assert "<" in shown


def test_ordinary_words_are_not_taken_for_keys() -> None:
    text = "task-1: the key-value store of sk-learn has 3 * 4 entries"
    assert masked(ROUTE, text) == text


def test_a_secret_of_the_environment_is_masked_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "0123456789abcdef0123456789abcdef")
    shown = masked(Route("azure", "x"), "Access denied for 0123456789abcdef0123456789abcdef")
    assert shown == "Access denied for <AZURE_OPENAI_API_KEY>"


def test_a_long_message_is_shortened() -> None:
    assert len(masked(ROUTE, "x " * 5000)) == 500


@pytest.mark.parametrize(
    ("cause", "expected"),
    [("ConnectTimeout", errors.ConnectionFailed), ("ReadTimeout", errors.ModelTimeout)],
)
def test_a_connection_that_is_not_made_in_time_is_not_a_slow_model(
    cause: str, expected: type[errors.ProviderError]
) -> None:
    import httpcore2  # noqa: F401  (httpx2 knows its classes, so it must not be forgotten alone)
    import httpx2
    import openai

    def call() -> None:
        request = httpx2.Request("GET", "http://127.0.0.1")
        raise openai.APITimeoutError(request=request) from getattr(httpx2, cause)("no answer")

    with pytest.raises(expected):
        ask(openai, ROUTE, 5.0, call)
