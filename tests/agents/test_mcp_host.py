"""MCP servers of an agent run on this machine, and end with the trial."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.agents.mcp import check_servers, open_servers
from pytest_aecbench.agents.tools import ToolOutput
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.errors import ConnectionFailed, SettingsError
from pytest_aecbench.tasks.schema import McpServerConfig
from tests.agents.conftest import MakeTask
from tests.agents.servers import sdk
from tests.agents.test_mcp_sandbox import PLAIN
from tests.agents.toolbox import Toolbox, check_sdk_server

SERVERS = Path(__file__).parent / "servers"


def server(name: str = "sdk", **given: Any) -> McpServerConfig:
    return McpServerConfig.model_validate({"name": name, **given})


def script(file: str, name: str = "sdk", **given: Any) -> McpServerConfig:
    return server(name, command=sys.executable, args=[str(SERVERS / file)], **given)


@pytest.fixture
def opened(make_task: MakeTask, sandbox: Sandbox) -> Any:
    @contextmanager
    def opened(*servers: McpServerConfig) -> Iterator[Toolbox]:
        with open_servers(servers, make_task(), sandbox) as tools:
            yield Toolbox(tools)

    return opened


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended
            found.update((task / "children").read_text().split())
    return found


def test_a_command_is_started_and_ended(opened: Any) -> None:
    before = children()
    with opened(script("sdk.py")) as tools:
        check_sdk_server(tools)
        assert len(children() - before) == 1
    assert children() <= before
    assert not [thread for thread in threading.enumerate() if "aecbench-mcp" in thread.name]
    gc.collect()  # for what warns when it is collected unclosed


# The package ends a connection of the older transport over an event of more than 1 MiB.
@pytest.mark.parametrize(("transport", "size"), [("streamable-http", 3_000_000), ("sse", 500_000)])
def test_a_url_is_reached(opened: Any, transport: Any, size: int) -> None:
    with sdk.served(transport) as url, opened(server(transport=transport, url=url)) as tools:
        check_sdk_server(tools, size)
    gc.collect()


def test_variables_are_replaced_and_few_are_inherited(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LICENCE", "secret")
    with opened(script("sdk.py", env={"KEY": "${LICENCE}"})) as tools:
        assert tools.use("sdk__variable", name="KEY").text == "secret"
        assert tools.use("sdk__variable", name="LICENCE").text == "unset"
        assert tools.use("sdk__variable", name="HOME").text == os.environ["HOME"]


def test_headers_are_sent(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    headers = {"Authorization": "Bearer ${TOKEN}"}
    with sdk.served("streamable-http", token="secret") as url:
        with opened(server(url=url, transport="streamable-http", headers=headers)) as tools:
            assert tools.use("sdk__add", a=1).text == "1.0"
        with pytest.raises(ConnectionFailed, match="mcp server 'sdk': did not start"):
            opened(server(url=url, transport="streamable-http")).__enter__()


def test_a_server_that_dies_is_an_error_now_and_later(opened: Any) -> None:
    with opened(script("sdk.py"), script("plain.py", "plain")) as tools:
        for name in ("die", "add"):
            output = tools.use(f"sdk__{name}", 10, a=1)
            assert output.is_error
            assert output.text.startswith("the server gave no result: ")
        assert tools.use("plain__add", a=1, b=1).text == "2"


def test_a_url_that_goes_away_is_an_error(opened: Any) -> None:
    with sdk.served("streamable-http") as url:
        context = opened(server(url=url, transport="streamable-http"))
        tools = context.__enter__()
    output = tools.use("sdk__add", 5, a=1)
    context.__exit__(None, None, None)
    assert output.is_error


def test_a_plain_server_works_too(opened: Any) -> None:
    with opened(script("plain.py", "plain")) as tools:
        assert len(tools.specs) == 12
        assert tools.use("plain__add", a=2, b=40) == ToolOutput("42")
        assert tools.use("plain__refuse").is_error
        assert tools.use("plain__hang", 0.5).is_error
        assert tools.use("plain__noisy").text == "{} -32602"


def test_servers_of_task_and_agent_are_together(make_task: MakeTask, sandbox: Sandbox) -> None:
    sandbox.execute("true", uploads={"/workspace/plain.py": SERVERS / "plain.py"})
    with open_servers([script("sdk.py")], make_task(PLAIN), sandbox) as offered:
        tools = Toolbox(offered)
        assert tools.use("sdk__add", a=1).text == "1.0"
        assert tools.use("plain__add", a=1, b=2).text == "3"


def test_a_server_is_ended_when_the_agent_fails(opened: Any) -> None:
    before = children()
    with pytest.raises(KeyboardInterrupt), opened(script("sdk.py")):
        raise KeyboardInterrupt
    assert children() <= before
    gc.collect()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["-c", "import sys; sys.exit('no licence')"], "no licence"),
        (["-c", "import time; time.sleep(1000)"], "no answer in 2 s"),
        (["-c", "while True: print('x' * 1000)"], "no answer in 2 s"),
    ],
)
def test_a_command_that_is_not_a_server_is_one_line(
    opened: Any, monkeypatch: pytest.MonkeyPatch, command: list[str], why: str
) -> None:
    monkeypatch.setattr("pytest_aecbench.agents.mcp_host.START_SEC", 2)
    before = children()
    with (
        pytest.raises(SettingsError) as caught,
        opened(server(command=sys.executable, args=command)),
    ):
        pass
    message = str(caught.value)
    assert message.startswith("mcp server 'sdk': did not start; ")
    assert why in message
    assert message.isprintable()
    assert children() <= before
    gc.collect()


def test_a_url_that_nothing_answers_may_be_tried_again(opened: Any) -> None:
    with pytest.raises(ConnectionFailed, match=r"^mcp server 'sdk': did not start; [^\n]+$"):
        opened(server(url="http://127.0.0.1:9/mcp", transport="streamable-http")).__enter__()


def test_mistakes_are_found_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    check_servers((), "a")
    check_servers([script("sdk.py"), server(url="http://x")], "a")
    with pytest.raises(SettingsError) as caught:
        check_servers([script("sdk.py"), server(command="no-such-program")], "a")
    where = "a: parameters.mcp_servers.1.command: 'no-such-program' is not a program"
    assert str(caught.value) == f"{where} on this machine; install it or write its path"
    with pytest.raises(SettingsError, match=r"a: parameters\.mcp_servers\.0\.headers\.X: variable"):
        check_servers([server(url="http://x", headers={"X": "$NO_SUCH_VARIABLE"})], "a")
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SettingsError, match=r"pip install 'pytest-aecbench\[mcp\]'"):
        check_servers([server(url="http://x")], "a")
