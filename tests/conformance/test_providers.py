"""Every provider, through its real SDK, against servers on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from pytest_aecbench import errors
from pytest_aecbench.errors import ProviderError
from pytest_aecbench.providers import Message, ModelRequest, Text, ToolCall, ToolResult, Usage
from pytest_aecbench.providers.routing import Route, make_model
from tests.conformance.providers import (
    PIXEL,
    SECRET_ACCESS_KEY,
    SYSTEM,
    WAYS,
    Way,
    at,
    continued,
    forget_variables,
    model_at,
    opening,
    picture_of,
)
from tests.costs import at_night
from tests.standins.models import KEY, RETRY_SEC, ModelServer, Tokens, Turn, Wish

CLASSES = {
    "unauthorised": errors.AuthFailed,
    "forbidden": errors.AuthFailed,
    "payment": errors.QuotaExceeded,
    "quota": errors.QuotaExceeded,
    "rate": errors.RateLimited,
    "rate_seconds": errors.RateLimited,
    "rate_ms": errors.RateLimited,
    "rate_date": errors.RateLimited,
    "overloaded": errors.Overloaded,
    "unavailable": errors.Overloaded,
    "failing": errors.ServerFailed,
    "page": errors.ServerFailed,
    "missing": errors.ModelNotFound,
    "context": errors.ContextExceeded,
    "too_large": errors.ContextExceeded,
    "filtered": errors.Refused,
    "rejected": errors.RequestRejected,
    "hang": errors.ModelTimeout,
    "drip": errors.ModelTimeout,
    "reset": errors.ConnectionFailed,
    "torn": errors.ConnectionFailed,
    "odd": errors.ConnectionFailed,
}
# One way to each of the vendors' protocols; the others differ in addresses and keys.
BY_DAY = ("anthropic", "openai-chat", "openai-responses", "bedrock-token")
# Not for ways that have no such thing: botocore reads a body whole, however slowly it comes, and
# OpenAI answers with an error where the context ends in the middle of a reply.
FAULTS = [
    (pytest.param if name in BY_DAY else at_night)(way, fault, id=f"{name}-{fault}")
    for name, way in WAYS.items()
    for fault in CLASSES
    if (name, fault) != ("bedrock-credentials", "drip")
]
STOPS = [
    (pytest.param if name in BY_DAY else at_night)(way, stop, expected, id=f"{name}-{stop}")
    for name, way in WAYS.items()
    for stop, expected in {
        "length": "length",
        "refusal": "refusal",
        "filter": "refusal",
        "context": "context",
    }.items()
    if stop != "context" or way.provider in ("anthropic", "bedrock")
]

every_way = pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=name) if name in BY_DAY else at_night(way, id=name)
        for name, way in WAYS.items()
    ],
)


def some_ways(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", [WAYS[name] for name in names], ids=names)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    made = ModelServer()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables of the way alone."""
    forget_variables(monkeypatch)
    if "way" in request.fixturenames:
        way: Way = request.getfixturevalue("way")
        for name, value in at(request.getfixturevalue("server").url, way.variables).items():
            monkeypatch.setenv(name, value)


# Conversations


@every_way
def test_a_tool_loop_goes_round_twice(server: ModelServer, way: Way) -> None:
    tokens = Tokens(fresh=11, read=22, written=33, out=44, reasoning=5)
    wishes = (Wish("bash", {"command": "ls", "bytes": "a"}), Wish("look", {}))
    server.scripts[way.model] = (
        Turn("I will look.", wishes, "Where is it?", tokens=tokens),
        Turn("It is empty."),
    )
    model = model_at(server, way)
    request = opening(way)

    first = model.complete(request, timeout_sec=30)

    assert first.stop == "tool_calls"
    assert first.message.text == "I will look."
    assert [(call.name, call.arguments) for call in first.message.tool_calls] == [
        ("bash", {"command": "ls", "bytes": "a"}),
        ("look", {}),
    ]
    reasoning = None if way.provider == "bedrock" else 5
    assert first.usage == Usage(11, 44, 22, 33, reasoning)
    assert first.request_id == "req_0"

    listing, look = first.message.tool_calls
    results = (ToolResult(listing.call_id, (Text(" \n"),), is_error=True), picture_of(look.call_id))
    second = model.complete(continued(request, first, *results), timeout_sec=30)

    assert (second.stop, second.message.text) == ("end", "It is empty.")
    assert [call.path.partition("?")[0] for call in server.calls] == [way.path] * 2
    for call in server.calls:
        assert SYSTEM in json.dumps(call.body)
    assert PIXEL in json.dumps(server.calls[1].body)


@some_ways("anthropic", "anthropic-streamed", "bedrock-token")
def test_reasoning_that_a_provider_shows_is_kept_for_the_trajectory(
    server: ModelServer, way: Way
) -> None:
    server.scripts[way.model] = (Turn("It is steel.", thinking="Is it steel or timber?"),)
    reply = model_at(server, way).complete(opening(way), timeout_sec=30)
    assert reply.reasoning == "Is it steel or timber?"
    assert reply.message.text == "It is steel."


@every_way
def test_a_reply_survives_being_stored_as_json(server: ModelServer, way: Way) -> None:
    server.scripts[way.model] = (Turn("", (Wish("bash"),), "a thought"), Turn("done"))
    model = model_at(server, way)
    request = opening(way)
    reply = model.complete(request, timeout_sec=30)
    native = json.loads(json.dumps(reply.message.native))
    stored = Message("assistant", reply.message.content, native)
    (call,) = reply.message.tool_calls
    messages = (*request.messages, stored, Message("user", (ToolResult(call.call_id, ()),)))
    again = ModelRequest(messages, None, request.tools, max_tokens=way.max_tokens)
    assert model.complete(again, timeout_sec=30).message.text == "done"


@every_way
def test_a_tool_may_have_a_long_description(server: ModelServer, way: Way) -> None:
    request = opening(way)
    tools = tuple(replace(tool, description="Very long. " * 500) for tool in request.tools)
    reply = model_at(server, way).complete(replace(request, tools=tools), timeout_sec=30)
    assert reply.message.text == "done"


@every_way
def test_a_conversation_without_native_replies_is_told_from_its_parts(
    server: ModelServer, way: Way
) -> None:
    model = model_at(server, way)
    call = ToolCall("call_1", "bash", {"command": "ls"})
    said = Message("assistant", (Text("I will look."), call))
    result = Message("user", (ToolResult("call_1", (Text("a file"),)), Text("Two turns left.")))
    request = ModelRequest(
        (*opening(way).messages, said, result), tools=opening(way).tools, max_tokens=way.max_tokens
    )
    assert model.complete(request, timeout_sec=30).message.text == "done"
    assert "Two turns left." in json.dumps(server.calls[0].body)


@every_way
def test_a_reply_without_content_does_not_end_the_conversation(
    server: ModelServer, way: Way
) -> None:
    server.scripts[way.model] = (Turn(""), Turn("done"))
    model = model_at(server, way)
    request = opening(way)
    reply = model.complete(request, timeout_sec=30)
    assert (reply.message.content, reply.stop) == ((), "end")
    model.complete(continued(request, reply), timeout_sec=30)


@every_way
def test_a_tool_call_without_a_result_is_refused_by_the_stand_in(
    server: ModelServer, way: Way
) -> None:
    server.scripts[way.model] = (Turn("", (Wish("bash"), Wish("look"))),)
    model = model_at(server, way)
    request = opening(way)
    reply = model.complete(request, timeout_sec=30)
    (one, _) = reply.message.tool_calls
    with pytest.raises(errors.RequestRejected, match="without a result"):
        model.complete(
            continued(request, reply, ToolResult(one.call_id, (Text("x"),))), timeout_sec=30
        )


@every_way
def test_arguments_that_are_not_json_are_passed_on_as_they_are(
    server: ModelServer, way: Way
) -> None:
    model = model_at(server, way, way.fault("bad_arguments"))
    request = opening(way)
    reply = model.complete(request, timeout_sec=30)
    (call,) = reply.message.tool_calls
    assert (call.arguments, call.raw) == (None, '{"command": "ls')
    assert model.complete(continued(request, reply), timeout_sec=30).message.text == "done"


@every_way
def test_a_tool_that_does_not_exist_is_the_agents_business(server: ModelServer, way: Way) -> None:
    reply = model_at(server, way, way.fault("unknown_tool")).complete(opening(way), timeout_sec=30)
    assert [call.name for call in reply.message.tool_calls] == ["no_such_tool"]
    assert reply.stop == "tool_calls"


@pytest.mark.parametrize(("way", "stop", "expected"), STOPS)
def test_the_reason_for_stopping_is_told(
    server: ModelServer, way: Way, stop: str, expected: str
) -> None:
    server.scripts[way.model] = (Turn("The beginning", stop=stop), Turn("done"))
    model = model_at(server, way)
    request = opening(way)
    reply = model.complete(request, timeout_sec=30)
    assert (reply.stop, reply.message.text) == (expected, "The beginning")
    assert model.complete(continued(request, reply), timeout_sec=30).message.text == "done"


def test_a_paused_turn_has_ended(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment("anthropic").items():
        monkeypatch.setenv(name, value)
    way = WAYS["anthropic"]
    server.scripts[way.model] = (Turn("One moment", stop="pause"),)
    assert model_at(server, way).complete(opening(way), timeout_sec=30).stop == "end"


@every_way
def test_eight_threads_share_a_model(server: ModelServer, way: Way) -> None:
    model = model_at(server, way)
    with ThreadPoolExecutor(8) as pool:
        futures = [
            pool.submit(model.complete, opening(way, max_tokens=1000 + n), timeout_sec=60)
            for n in range(24)
        ]
        replies = [future.result() for future in futures]
    assert [reply.message.text for reply in replies] == ["done"] * 24
    assert len(server.calls) == 24


ASK_AND_LEAVE = """
import sys
from pytest_aecbench.providers import Message, ModelRequest, Text
from pytest_aecbench.providers.routing import Route, make_model

provider, model, base_url, max_tokens = sys.argv[1:]
route = Route(provider, model, {"base_url": base_url} if base_url else {})
request = ModelRequest((Message("user", (Text("hello"),)),), max_tokens=int(max_tokens))
print(make_model(route).complete(request, timeout_sec=60).message.text)
"""


@every_way
def test_a_process_ends_without_a_warning(server: ModelServer, way: Way) -> None:
    base_url = at(server.url, way.settings).get("base_url", "")
    argv = [sys.executable, "-X", "dev", "-W", "error", "-c", ASK_AND_LEAVE]
    argv += [way.provider, way.model, base_url, str(way.max_tokens)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


# Faults


@pytest.mark.parametrize(("way", "fault"), FAULTS)
def test_a_fault_is_the_error_that_it_means_and_tells_no_secret(
    server: ModelServer, way: Way, fault: str
) -> None:
    model = model_at(server, way, way.fault(fault))
    with pytest.raises(ProviderError) as caught:
        model.complete(opening(way), timeout_sec=1 if fault in ("hang", "drip") else 30)
    error = caught.value
    assert type(error) is CLASSES[fault]
    assert len(server.calls) == 1  # nothing is tried again
    server.close()  # on Python 3.11 two threads cannot look at source code at once
    assert str(error).startswith(way.provider)
    assert "\n" not in str(error)
    assert error.__traceback__ is not None
    ours = error.with_traceback(error.__traceback__.tb_next)  # without this function's frame
    shown = pytest.ExceptionInfo.from_exception(ours).getrepr(showlocals=True, style="long")
    told = f"{''.join(traceback.format_exception(ours))} {error!r} {model.route!r} {shown}"
    for secret in (KEY, KEY[:10], KEY[-8:], SECRET_ACCESS_KEY):
        assert secret not in told
    assert error.__context__ is None
    assert error.__cause__ is None


@every_way
@pytest.mark.parametrize("fault", ["rate_seconds", "rate_ms", "rate_date", "rate"])
def test_the_time_to_wait_is_told(server: ModelServer, way: Way, fault: str) -> None:
    with pytest.raises(errors.RateLimited) as caught:
        model_at(server, way, way.fault(fault)).complete(opening(way), timeout_sec=30)
    after = caught.value.retry_after_sec
    if fault == "rate":
        assert after is None
    elif fault == "rate_date":
        assert after is not None
        assert after <= RETRY_SEC
    else:
        assert after == RETRY_SEC
    assert caught.value.status == 429


@every_way
def test_a_server_that_is_not_there_is_a_failed_connection(server: ModelServer, way: Way) -> None:
    model = model_at(server, way)
    server.close()
    with pytest.raises(errors.ConnectionFailed):
        model.complete(opening(way), timeout_sec=30)


@every_way
def test_a_fault_that_passes_leaves_the_client_usable(server: ModelServer, way: Way) -> None:
    model = model_at(server, way, f"{way.fault('reset')}-x1")
    with pytest.raises(errors.ConnectionFailed):
        model.complete(opening(way), timeout_sec=30)
    assert model.complete(opening(way), timeout_sec=30).message.text == "done"


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (WAYS["anthropic-streamed"], errors.Overloaded),
        (WAYS["openai-chat"], errors.RateLimited),
        (WAYS["openai-responses"], errors.RateLimited),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_error_within_an_answer_is_one_of_its_kind(
    server: ModelServer, way: Way, expected: type[ProviderError]
) -> None:
    with pytest.raises(expected):
        model_at(server, way, way.fault("inside")).complete(opening(way), timeout_sec=30)


@every_way
def test_a_wrong_key_is_told_with_the_providers_words_but_not_with_the_key(
    server: ModelServer, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "sk-wrong-0123456789abcdefghijklmnop"
    for name, value in os.environ.items():
        if value == KEY:
            monkeypatch.setenv(name, wrong)
    if way.name == "bedrock-credentials":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWRONG00000000009")
    # boto3 keeps the credentials of a client that it has made, and this server is a new one.
    with pytest.raises(errors.AuthFailed, match="answered 401") as caught:
        model_at(server, way).complete(opening(way), timeout_sec=30)
    assert wrong[:10] not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("together", "TOGETHER_API_KEY"),
        ("azure", "AZURE_OPENAI_API_KEY|AZURE_OPENAI_ENDPOINT"),
        ("bedrock", "region|credentials"),
    ],
)
def test_a_key_that_vanished_is_named(provider: str, variable: str) -> None:
    with pytest.raises(errors.AuthFailed, match=variable):
        make_model(Route(provider, "a-model")).complete(opening(WAYS["anthropic"]), timeout_sec=5)


# Anthropic


@some_ways("anthropic")
def test_a_model_near_its_end_is_asked_without_a_warning(server: ModelServer, way: Way) -> None:
    model = model_at(server, way, "claude-sonnet-4-20250514")
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(model.complete, opening(way), timeout_sec=30) for _ in range(8)]
        assert [future.result().stop for future in asked] == ["end"] * 8


@some_ways("anthropic", "anthropic-streamed")
def test_the_prompt_is_cached_from_the_system_to_the_last_block(
    server: ModelServer, way: Way
) -> None:
    server.scripts[way.model] = (Turn("", (Wish("bash"),)), Turn("done"))
    model = model_at(server, way)
    request = opening(way)
    reply = model.complete(request, timeout_sec=30)
    model.complete(continued(request, reply), timeout_sec=30)
    mark = {"type": "ephemeral"}
    for call in server.calls:
        assert call.body["system"][-1]["cache_control"] == mark
        assert call.body["messages"][-1]["content"][-1]["cache_control"] == mark
        assert json.dumps(call.body).count("cache_control") == 2
    model.complete(opening(way, cache_prompt=False), timeout_sec=30)
    assert "cache_control" not in json.dumps(server.calls[-1].body)


@some_ways("anthropic", "anthropic-streamed")
def test_a_long_answer_is_streamed(server: ModelServer, way: Way) -> None:
    model_at(server, way).complete(opening(way), timeout_sec=30)
    assert server.calls[0].body.get("stream", False) is (way.name == "anthropic-streamed")


@some_ways("anthropic")
def test_a_temperature_asks_for_the_version_that_has_one(server: ModelServer, way: Way) -> None:
    model_at(server, way).complete(opening(way, temperature=0.2), timeout_sec=30)
    assert server.calls[0].body["temperature"] == 0.2


@some_ways("anthropic")
@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-sonnet-4-5", "none", {"thinking": {"type": "disabled"}}),
        (
            "claude-sonnet-4-5",
            "high",
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        ),
        (
            "claude-3-7-sonnet-20250219",
            "minimal",
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
        (
            "claude-opus-4-6",
            "minimal",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        (
            "claude-sonnet-5",
            "max",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        ),
    ],
)
def test_an_effort_is_a_budget_or_an_effort_as_the_model_takes_it(
    server: ModelServer, way: Way, model: str, effort: str, expected: dict[str, object]
) -> None:
    request = opening(way, reasoning_effort=effort, max_tokens=4000)
    model_at(server, way, model).complete(request, timeout_sec=30)
    body = server.calls[0].body
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == expected


@some_ways("anthropic")
def test_an_effort_that_does_not_exist_is_told_with_the_nearest(
    server: ModelServer, way: Way
) -> None:
    with pytest.raises(errors.RequestRejected, match="'hihg' is not known; did you mean 'high'"):
        model_at(server, way).complete(opening(way, reasoning_effort="hihg"), timeout_sec=30)


# OpenAI and servers that speak like it


@some_ways("openai-responses", "azure-v1")
def test_hidden_reasoning_travels_encrypted_and_nothing_is_stored(
    server: ModelServer, way: Way
) -> None:
    server.scripts[way.model] = (Turn("", (Wish("bash"),), "a thought"), Turn("done"))
    model = model_at(server, way)
    request = opening(way, reasoning_effort="low")
    reply = model.complete(request, timeout_sec=30)
    model.complete(continued(request, reply), timeout_sec=30)
    first, second = (call.body for call in server.calls)
    assert first["include"] == ["reasoning.encrypted_content"]
    assert first["reasoning"] == {"effort": "low"}
    assert first["store"] is False
    assert reply.message.native[0]["type"] == "reasoning"
    assert second["input"][1:3] == reply.message.native


@some_ways("openai-responses")
def test_reasoning_that_was_cut_off_is_not_sent_back(server: ModelServer, way: Way) -> None:
    server.scripts[way.model] = (Turn("", (), "a long thought", stop="length"), Turn("done"))
    model = model_at(server, way)
    request = opening(way)
    reply = model.complete(request, timeout_sec=30)
    assert (reply.stop, reply.message.content) == ("length", ())
    model.complete(continued(request, reply), timeout_sec=30)
    assert "reasoning" not in json.dumps(server.calls[1].body["input"])


@some_ways("openai-chat")
@pytest.mark.parametrize(
    ("model", "api", "path"),
    [
        ("gpt-4o", None, "/v1/chat/completions"),
        ("gpt-4o", "responses", "/v1/responses"),
        ("gpt-5-chat-latest", None, "/v1/chat/completions"),
        ("gpt-5.2-codex", None, "/v1/responses"),
        ("o3-mini", None, "/v1/responses"),
        ("o3-mini", "chat", "/v1/chat/completions"),
    ],
)
def test_reasoning_models_use_responses_unless_told_otherwise(
    server: ModelServer, way: Way, model: str, api: str | None, path: str
) -> None:
    settings = {"api": api} if api else {}
    model_at(server, way, model, **settings).complete(opening(way), timeout_sec=30)
    assert server.calls[0].path == path


@some_ways("openai-chat")
def test_a_server_of_ones_own_gets_no_key_of_the_environment(
    server: ModelServer, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.keyless = True
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "private-to-openai")
    base_url = f"{server.url}/v1"
    for key in (None, "local-key"):
        settings = {"base_url": base_url, **({"api_key": key} if key else {})}
        model_at(server, way, "llama3", **settings).complete(opening(way), timeout_sec=30)
        sent = json.dumps(server.calls[-1].headers)
        assert KEY not in sent
        assert "private-to-openai" not in sent
        assert server.calls[-1].headers["Authorization"] == f"Bearer {key or 'none'}"
    monkeypatch.delenv("OPENAI_API_KEY")
    model_at(server, way, "llama3", base_url=base_url).complete(opening(way), timeout_sec=30)


@pytest.mark.parametrize(
    ("name", "model", "limit"),
    [
        ("openai-chat", "o3-mini", "max_completion_tokens"),
        ("openai-chat", "llama3", "max_tokens"),
        ("together", "meta-llama/Llama-4", "max_tokens"),
        ("azure-deployment", "gpt-4o", "max_tokens"),
        ("azure-deployment", "our-reasoner", "max_completion_tokens"),
    ],
)
def test_the_limit_of_tokens_has_the_name_that_the_model_takes(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, name: str, model: str, limit: str
) -> None:
    way = WAYS[name]
    for variable, value in at(server.url, way.variables).items():
        monkeypatch.setenv(variable, value)
    model_at(server, way, model, api="chat").complete(opening(way), timeout_sec=30)
    body = server.calls[-1].body
    assert [key for key in body if key.startswith("max_")] == [limit]
    assert body[limit] == way.max_tokens


@some_ways("openai-chat", "anthropic", "azure-deployment", "azure-v1")
def test_further_headers_are_sent_and_are_secrets(server: ModelServer, way: Way) -> None:
    headers = {"x-gateway": "gateway-password-1234"}
    model = model_at(server, way, headers=headers)
    model.complete(opening(way), timeout_sec=30)
    assert server.calls[0].headers["x-gateway"] == "gateway-password-1234"
    assert "gateway-password" not in repr(model.route)


@some_ways("azure-deployment")
def test_the_version_of_azures_api_can_be_set(
    server: ModelServer, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_at(server, way).complete(opening(way), timeout_sec=30)
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-04-01-preview")
    model_at(server, way, api="responses").complete(opening(way), timeout_sec=30)
    model_at(server, way, api_version="2099-01-01").complete(opening(way), timeout_sec=30)
    versions = [call.path.rpartition("?")[2] for call in server.calls]
    assert versions == [
        "api-version=2024-10-21",
        "api-version=2025-04-01-preview",
        "api-version=2099-01-01",
    ]
    assert server.calls[1].path.startswith("/openai/responses?")
    assert {call.headers["api-key"] for call in server.calls} == {KEY}


# Bedrock


@some_ways("bedrock-token")
@pytest.mark.parametrize(
    ("model", "cached"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", True),
        ("anthropic.claude-3-haiku-20240307-v1:0", False),
        ("meta.llama3-1-70b-instruct-v1:0", False),
        ("arn:aws:bedrock:us-east-1:123:application-inference-profile/abc", False),
    ],
)
def test_cache_points_are_set_where_the_model_is_known_to_take_them(
    server: ModelServer, way: Way, model: str, cached: bool
) -> None:
    model_at(server, way, model).complete(opening(way), timeout_sec=30)
    assert json.dumps(server.calls[0].body).count("cachePoint") == (2 if cached else 0)


@some_ways("bedrock-token", "bedrock-credentials")
def test_an_effort_becomes_what_the_model_at_bedrock_takes(server: ModelServer, way: Way) -> None:
    for model in (way.model, "openai.gpt-oss-120b-1:0"):
        request = opening(way, reasoning_effort="low", max_tokens=4000, temperature=1.0)
        model_at(server, way, model).complete(request, timeout_sec=30)
    fields = [call.body["additionalModelRequestFields"] for call in server.calls]
    assert fields == [
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"reasoning_effort": "low"},
    ]
    with pytest.raises(errors.RequestRejected, match=r"reasoning_effort.*'meta\.llama"):
        model_at(server, way, "meta.llama3").complete(request, timeout_sec=30)


@some_ways("bedrock-token")
def test_the_token_for_bedrock_wins_over_the_general_one(
    server: ModelServer, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN", "another-token-entirely")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    model_at(server, way).complete(opening(way), timeout_sec=30)
    assert server.calls[0].headers["Authorization"] == f"Bearer {KEY}"


@some_ways("bedrock-credentials")
def test_requests_are_signed_for_the_region(
    server: ModelServer, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-1")
    model_at(server, way).complete(opening(way), timeout_sec=30)
    monkeypatch.delenv("AWS_REGION")
    model_at(server, way).complete(opening(way), timeout_sec=30)
    signed = [call.headers["Authorization"] for call in server.calls]
    assert "/eu-north-1/bedrock/aws4_request" in signed[0]
    assert "/us-west-1/bedrock/aws4_request" in signed[1]


# The stand-in in a process of its own


def test_the_stand_in_serves_runs_in_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "scripts.json"
    turn = {"text": "hello", "calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
    scripts.write_text(json.dumps({"claude-x": [turn]}))
    argv = [sys.executable, "-m", "tests.standins.models", str(scripts)]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        route = Route("anthropic", "claude-x", {"base_url": url})
        reply = make_model(route).complete(opening(WAYS["anthropic"]), timeout_sec=30)
        assert [call.name for call in reply.message.tool_calls] == ["bash"]
        with urlopen(f"{url}/calls") as answer:
            calls = json.load(answer)
        assert calls[0]["body"]["model"] == "claude-x"
        process.stdin.close()
        assert process.wait(30) == 0
