"""MCP servers of a task run in its sandbox, and their failures never leave it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.agents import mcp_bridge
from pytest_aecbench.agents.mcp import open_servers
from pytest_aecbench.agents.tools import ToolOutput
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.errors import LaunchError, SandboxGone, TaskError
from tests.agents.conftest import MODES, MakeTask, Mode
from tests.agents.pictures import PNG, in_base64, png
from tests.agents.servers import sdk
from tests.agents.toolbox import Toolbox, check_sdk_server
from tests.costs import at_night

HERE = Path(__file__).parent
# Elsewhere, a sandbox shares processes and temporary files with everything on the machine.
isolated = pytest.mark.needs("namespaces")
PLAIN = """[[environment.mcp_servers]]
name = "plain"
transport = "stdio"
command = "python3"
args = ["/workspace/plain.py"]
env = { COLOUR = "blue", GOODBYE = "goodbye.txt" }
"""


def text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@contextmanager
def toolbox(make_task: MakeTask, sandbox: Sandbox, toml: str) -> Iterator[Toolbox]:
    uploads = {"/workspace/plain.py": HERE / "servers/plain.py"}
    sandbox.execute("true", uploads=uploads)
    with open_servers((), make_task(toml), sandbox) as tools:
        yield Toolbox(tools)


@pytest.fixture
def plain(make_task: MakeTask, sandbox: Sandbox) -> Iterator[Toolbox]:
    with toolbox(make_task, sandbox, PLAIN) as tools:
        yield tools


def test_the_tools_of_all_pages_are_offered(plain: Toolbox) -> None:
    assert len(plain.specs) == 12
    assert plain.specs["plain__add"].parameters == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    }
    assert plain.specs["plain__variable"].parameters == {"type": "object", "properties": {}}
    assert plain.specs["plain__where"].description == "Where it runs"


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_is_called(plain: Toolbox, mode: Mode) -> None:
    assert plain.use("plain__add", a=2, b=40) == ToolOutput("42")
    assert plain.use("plain__add", a=1, b=1).text == "2"


def test_any_name_of_a_tool_can_be_called(plain: Toolbox) -> None:
    assert plain.use("plain__odd_name_with_signs").text == "called"


def test_a_server_has_its_own_variables(plain: Toolbox, sandbox: Sandbox) -> None:
    assert plain.use("plain__variable", name="COLOUR").text == "blue"
    assert plain.use("plain__variable", name=mcp_bridge.VARIABLE).text == "unset"
    assert plain.use("plain__where").text == sandbox.execute("pwd").stdout.strip()


def test_arguments_arrive_as_they_are(plain: Toolbox) -> None:
    text = "'; touch ran $(touch ran)\nAECBENCH_INPUT\n°\0"
    result = {"content": [text_block(text)]}
    assert plain.use("plain__say", result=result).text == text


def test_long_arguments_and_results_arrive(plain: Toolbox) -> None:
    content = png(padding=2_500_000)
    image = {"type": "image", "mimeType": "image/png", "data": in_base64(content)}
    output = plain.use("plain__say", result={"content": [text_block("a plot"), image]})
    assert output.text == "a plot"
    assert [one.data for one in output.images] == [in_base64(content)]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [text_block("a"), text_block("b")]}, "a\nb"),
        ({"content": [], "structuredContent": {"x": "°"}}, '{"x": "°"}'),
        ({"content": []}, "(no output)"),
        ({}, "(no output)"),
        ({"content": "x"}, "(no output)"),
        ({"content": [1]}, "[unknown content left out]"),
        ({"content": [{"type": "audio", "mimeType": "audio/wav", "data": "x"}]},
         "[audio left out: audio/wav]"),
        ({"content": [{"type": "image", "data": in_base64(b"x")}]},
         "[image left out: image: not a whole PNG, JPEG, GIF or WebP image]"),
        ({"content": [{"type": "image", "data": in_base64(png(50_000, 50_000))}]},
         "[image left out: image: 50000x50000 pixels, more than 8000 a side or none]"),
        ({"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "c"}}]}, "c"),
        ({"content": [{"type": "resource", "resource": {"uri": "a://b", "blob": "c"}}]},
         "[resource a://b: not text]"),
        ({"content": [{"type": "resource_link", "uri": "a://b", "name": "c"}]},
         "[resource a://b: c]"),
        ({"content": [text_block("\ud800")]}, "?"),
    ],
)  # fmt: skip
def test_content_of_every_kind_is_shown_or_named(plain: Toolbox, result: object, text: str) -> None:
    assert plain.use("plain__say", result=result) == ToolOutput(text)


def test_only_some_images_are_given(plain: Toolbox) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": in_base64(PNG)}
    output = plain.use("plain__say", result={"content": [image] * 10})
    assert len(output.images) == 8
    assert output.text.count("more than 8") == 2


def test_errors_are_told_to_the_model(plain: Toolbox) -> None:
    result = {"content": [text_block("no such beam")], "isError": True}
    assert plain.use("plain__say", result=result) == ToolOutput("no such beam", is_error=True)
    assert plain.use("plain__refuse") == ToolOutput(
        "the server answered with an error: no such\nthing", is_error=True
    )


def test_noise_and_requests_of_the_server_do_not_disturb(plain: Toolbox) -> None:
    assert plain.use("plain__noisy").text == "{} -32601"
    assert plain.use("plain__add", a=1, b=1).text == "2"


def test_a_call_that_hangs_ends_in_time(plain: Toolbox) -> None:
    output = plain.use("plain__hang", 0.5)
    assert output == ToolOutput("the server did not answer in time", is_error=True)
    assert plain.use("plain__add", a=1, b=1).text == "2"


def test_a_server_that_does_not_read_is_late(plain: Toolbox) -> None:
    assert plain.use("plain__deaf").text == "deaf now"
    for text in ("x", "x" * 1_000_000):  # less and more than a pipe holds
        output = plain.use("plain__say", 0.5, result=text)
        assert output == ToolOutput("the server did not answer in time", is_error=True)


def test_a_server_that_dies_is_an_error_now_and_later(plain: Toolbox) -> None:
    died = ToolOutput("the server ended with exit code 3: out of memory", is_error=True)
    assert plain.use("plain__die") == died
    assert plain.use("plain__add", a=1, b=1) == died


def test_a_line_without_an_end_ends_the_server(plain: Toolbox) -> None:
    output = plain.use("plain__line")
    assert output.is_error
    assert output.text == f"the server sent a line of over {mcp_bridge.MAX_MESSAGE} bytes"


def test_a_result_that_is_too_long_is_an_error(plain: Toolbox) -> None:
    assert plain.use("plain__long", size=5_000_000, of="x").text.startswith("xxx")
    output = plain.use("plain__long", size=5_000_000, of="°")  # six characters each in ASCII
    assert output.is_error
    assert output.text.endswith("which is too much")
    assert plain.use("plain__add", a=1, b=1).text == "2"


@isolated
def test_an_agent_that_kills_the_bridge_is_told(plain: Toolbox, sandbox: Sandbox) -> None:
    sandbox.execute("kill -9 $(pgrep -f 'bridge.py serve')")
    output = plain.use("plain__add", a=1, b=1)
    assert output == ToolOutput("the connection to the server is lost", is_error=True)


@isolated
@pytest.mark.parametrize(
    "fake",
    [
        "print('x' * 3_000_000)",
        "print('{}')",
        'print(\'{"reply": 1, "size": 1e999}\')',
        'print(\'{"reply": 1, "size": 5000000}\\n{\')',
        'print(\'{"reply": 1, "size": 99999999999}\\n{\')',
        'print(\'{"reply": 1, "size": 2}\\n[]\')',
        "print('[' * 100_000)",
        "import sys; sys.stdout.buffer.write(bytes(range(256)))",
        "raise SystemExit(1)",
    ],
)
def test_an_agent_that_replaces_the_bridge_is_told(
    plain: Toolbox, sandbox: Sandbox, fake: str
) -> None:
    sandbox.execute(
        'for b in /tmp/aecbench-mcp-*/bridge.py; do echo "$FAKE" > $b; done', env={"FAKE": fake}
    )
    output = plain.use("plain__add", a=1, b=1)
    assert output.is_error
    assert len(output.text) < 200


@isolated
def test_a_server_may_finish_and_leaves_nothing(make_task: MakeTask, sandbox: Sandbox) -> None:
    with toolbox(make_task, sandbox, PLAIN):
        assert sandbox.execute("pgrep -f plain.py").returncode == 0
    assert sandbox.execute("cat goodbye.txt").stdout == "ended"
    assert sandbox.execute("pgrep -f '[p]lain.py|[b]ridge.py'").stdout == ""


@isolated
def test_a_server_is_ended_when_the_agent_fails(make_task: MakeTask, sandbox: Sandbox) -> None:
    with pytest.raises(ZeroDivisionError), toolbox(make_task, sandbox, PLAIN):
        raise ZeroDivisionError
    assert sandbox.execute("pgrep -f '[p]lain.py|[b]ridge.py'").stdout == ""


def test_several_servers_have_distinct_names(make_task: MakeTask, sandbox: Sandbox) -> None:
    toml = PLAIN + PLAIN.replace(
        '"plain"', '"a server/with a name that is far too long for any model"'
    )
    tools = "[[environment.tools]]\nname = 'plain__add'\ncommand = 'x'\n"
    with toolbox(make_task, sandbox, toml + tools) as tools_of_both:
        names = list(tools_of_both.specs)
    assert len(set(names)) == 24
    assert all(len(name) <= 64 for name in names)
    assert "plain__add" not in names
    assert "plain__where" in names


CLOSED = "url = 'http://127.0.0.1:9'"


@isolated
@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("command = 'no-such-program'", "'no-such-program': No such file or directory"),
        (
            "command = 'bash'\nargs = ['-c', 'echo no licence >&2; exit 9']",
            "the server ended with exit code 9: no licence",
        ),
        ("command = 'sleep'\nargs = ['1000']", "the server did not answer in time"),
        (
            "transport = 'streamable-http'\nurl = 'http://127.0.0.1:9'",
            "[Errno 111] Connection refused",
        ),
        ("url = 'http://127.0.0.1:9'", "[Errno 111] Connection refused"),
    ],
)
def test_a_server_that_does_not_start_is_a_launch_error(
    make_task: MakeTask,
    sandbox: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
    why: str,
) -> None:
    monkeypatch.setattr("pytest_aecbench.agents.mcp_sandbox.START_SEC", 1.5)
    toml = f"[[environment.mcp_servers]]\nname = 'it'\n{server}\n"
    with pytest.raises(LaunchError) as caught, toolbox(make_task, sandbox, toml):
        pass
    assert str(caught.value) == f"mcp server 'it': did not start; {why}"
    assert sandbox.execute("ls -d /tmp/aecbench-mcp-*/socket").returncode != 0


def test_an_image_without_python_is_the_tasks_mistake(
    make_task: MakeTask, sandbox: Sandbox
) -> None:
    sandbox.env["PATH"] = "/nowhere"
    with (
        pytest.raises(TaskError, match="the image has no python3"),
        toolbox(make_task, sandbox, PLAIN),
    ):
        pass


def test_a_dead_sandbox_is_not_the_servers_fault(make_task: MakeTask, sandbox: Sandbox) -> None:
    with toolbox(make_task, sandbox, PLAIN) as tools:
        sandbox.close()
        with pytest.raises(SandboxGone):
            tools.use("plain__add", a=1, b=1)


def test_without_servers_nothing_is_started(make_task: MakeTask, sandbox: Sandbox) -> None:
    task = make_task()
    sandbox.close()
    with open_servers((), task, sandbox) as tools:
        assert tools == []


# Servers of the package mcp


def test_the_bridge_speaks_to_the_packages_server(make_task: MakeTask, sandbox: Sandbox) -> None:
    sandbox.execute("true", uploads={"/workspace/sdk.py": HERE / "servers/sdk.py"})
    toml = """[[environment.mcp_servers]]
name = "sdk"
command = "python3"
args = ["/workspace/sdk.py"]
"""
    with toolbox(make_task, sandbox, toml) as tools:
        check_sdk_server(tools)
        died = tools.use("sdk__die").text
        assert died.startswith("the server ended with exit code 3: started")


@pytest.mark.parametrize(
    ("transport", "options"),
    [
        ("streamable-http", {}),
        at_night("streamable-http", {"json_response": True}),
        at_night("streamable-http", {"stateless_http": True}),
        ("sse", {}),
    ],
)
def test_the_bridge_speaks_to_the_packages_server_by_http(
    make_task: MakeTask, sandbox: Sandbox, transport: Any, options: dict[str, Any]
) -> None:
    with sdk.served(transport, **options) as url:
        toml = f"""[[environment.mcp_servers]]
name = "sdk"
transport = "{transport}"
url = "{url}"
"""
        with toolbox(make_task, sandbox, toml) as tools:
            check_sdk_server(tools)


def test_the_bridge_is_python_3_8_without_packages() -> None:
    source = Path(mcp_bridge.__file__).read_text("utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert not [name for name in imported if name.startswith("pytest_aecbench")]
    assert "AECBENCH_BRIDGE" not in source
