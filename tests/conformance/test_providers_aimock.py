"""A second opinion about the formats: aimock, which others wrote, in the place of our stand-ins."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from pytest_aecbench.providers.routing import Route, make_model
from tests.conformance.providers import (
    WAYS,
    Way,
    at,
    continued,
    forget_variables,
    opening,
    picture_of,
)

VERSION = "1.43.0"
TURNS = {
    "fixtures": [
        {"match": {"hasToolResult": True}, "response": {"content": "It is empty."}},
        {"match": {"userMessage": "Pictures of"}, "response": {"content": "It is empty."}},
        {
            "match": {"userMessage": "directory", "hasToolResult": False},
            "response": {"toolCalls": [{"name": "bash", "arguments": {"command": "ls"}}]},
        },
    ]
}

pytestmark = [pytest.mark.needs("npm"), pytest.mark.nightly]


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an aimock, which npm installs for the occasion."""
    directory = tmp_path_factory.mktemp("aimock")
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory)]
    subprocess.run([*install, f"@copilotkit/aimock@{VERSION}"], check=True, capture_output=True)
    fixtures = directory / "turns.json"
    fixtures.write_text(json.dumps(TURNS))
    argv = [str(directory / "node_modules/.bin/llmock"), "-p", "0", "-f", str(fixtures)]
    with subprocess.Popen(argv, stdout=-1, stderr=-2, text=True, cwd=directory) as process:
        assert process.stdout is not None
        yield next(word for line in process.stdout for word in line.split() if "http://" in word)
        process.terminate()


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_a_tool_loop_goes_round_twice(
    aimock: str, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_variables(monkeypatch)
    for name, value in at(aimock, way.variables).items():
        monkeypatch.setenv(name, value)
    model = make_model(Route(way.provider, way.model, at(aimock, way.settings)))
    request = opening(way)
    first = model.complete(request, timeout_sec=30)
    (call,) = first.message.tool_calls
    assert (first.stop, call.name, call.arguments) == ("tool_calls", "bash", {"command": "ls"})
    assert first.usage.tokens_out is not None
    second = model.complete(continued(request, first, picture_of(call.call_id)), timeout_sec=30)
    assert (second.stop, second.message.text) == ("end", "It is empty.")
