"""Tools of a task run in its sandbox, and nothing that they do harms the agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_aecbench.agents.task_tools import TaskTool
from pytest_aecbench.agents.tools import BadArgumentsError, Tool, ToolOutput
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.errors import SandboxGone
from tests.agents.conftest import MODES, MakeTask, Mode
from tests.agents.pictures import GIF, PNG, in_base64, png

ENTRY = "[[environment.tools]]\nname = 'it'\n"
DOUBLE = '''"""Double it."""
import json, sys
print(json.dumps({"y": 2 * json.load(sys.stdin)["x"]}))
'''
ECHO = "import sys; sys.stdout.write(sys.stdin.read())"


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param  # type: ignore[no-any-return]


def tool_of(make_task: MakeTask, sandbox: Sandbox, source: str = "", toml: str = "") -> TaskTool:
    (declared,) = make_task(toml, {"it": source} if source else {}).declared_tools
    return TaskTool(declared, sandbox)


def output_of(make_task: MakeTask, sandbox: Sandbox, source: str, **arguments: Any) -> ToolOutput:
    return tool_of(make_task, sandbox, source).run(arguments, 60)


def test_a_tool_gets_json_and_gives_what_it_prints(make_task: MakeTask, sandbox: Sandbox) -> None:
    tool: Tool = tool_of(make_task, sandbox, DOUBLE)
    assert (tool.spec.name, tool.spec.description) == ("it", "Double it.")
    output = tool.run({"x": 21}, 60)
    assert output == ToolOutput(
        '{"y": 42}',
        command="python3 /workspace/tools/it.py",
        stdout='{"y": 42}\n',
        stderr="",
        exit_code=0,
    )


@pytest.mark.parametrize(
    "text",
    [
        "'; touch ran; '",
        "$(touch ran)",
        "`touch ran`",
        "\nAECBENCH_INPUT\ntouch ran\n",
        "\\\n\0\ud800é°\U0001f600",
        "%s %n !! ~ * ?",
    ],
)
def test_arguments_arrive_as_they_are(make_task: MakeTask, sandbox: Sandbox, text: str) -> None:
    output = output_of(make_task, sandbox, ECHO, text=text)
    assert json.loads(output.text) == {"text": text}
    assert sandbox.execute("test -e ran").returncode == 1


def test_long_arguments_arrive_whole(make_task: MakeTask, sandbox: Sandbox) -> None:
    source = "import json, sys; print(len(json.load(sys.stdin)['text']))"
    assert output_of(make_task, sandbox, source, text="x" * 3_000_000).text == "3000000"
    assert sandbox.execute("ls -A /logs/agent").stdout == ""


def test_arguments_nested_too_deeply_are_the_models_mistake(
    make_task: MakeTask, sandbox: Sandbox
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(BadArgumentsError, match="nested"):
        tool_of(make_task, sandbox, ECHO).run(deep, 60)


def test_a_command_of_any_shape_is_a_tool(make_task: MakeTask, sandbox: Sandbox) -> None:
    toml = (
        ENTRY
        + """command = '''
cat <<'END'
it's
END
read -r line; echo "got $line" # the end'''
"""
    )
    assert tool_of(make_task, sandbox, toml=toml).run({"a": 1}, 60).text == 'it\'s\ngot {"a": 1}'


def test_a_tool_that_fails_is_an_error_for_the_model(make_task: MakeTask, sandbox: Sandbox) -> None:
    output = output_of(make_task, sandbox, "print('so far'); raise SystemExit('no such pipe')")
    assert output.is_error
    assert output.exit_code == 1
    assert output.text == "exit code 1\nso far\nstderr:\nno such pipe"


def test_a_missing_program_is_an_error_for_the_model(make_task: MakeTask, sandbox: Sandbox) -> None:
    output = tool_of(make_task, sandbox, toml=f"{ENTRY}command = 'no-such-program'").run({}, 60)
    assert output.is_error
    assert output.exit_code == 127


def test_a_tool_that_never_ends_is_stopped(make_task: MakeTask, sandbox: Sandbox) -> None:
    toml = f"{ENTRY}command = 'echo started; sleep 1000'\ntimeout_sec = 4"
    output = tool_of(make_task, sandbox, toml=toml).run({}, 600)
    assert output.is_error
    assert output.exit_code is None
    assert output.text.startswith("timed out after ")
    assert output.text.endswith("started")


def test_the_agents_own_limit_is_kept_too(make_task: MakeTask, sandbox: Sandbox) -> None:
    toml = f"{ENTRY}command = 'sleep 1000'\ntimeout_sec = 600"
    assert tool_of(make_task, sandbox, toml=toml).run({}, 0.5).is_error


def test_no_output_is_said(make_task: MakeTask, sandbox: Sandbox) -> None:
    assert output_of(make_task, sandbox, "pass").text == "(no output)"


@pytest.mark.parametrize(
    "source",
    [
        "print('x' * 1_000_000)",
        "print('x\\n' * 5_000_000)",
        "import sys; sys.stdout.buffer.write(bytes(range(256)) * 10_000)",
        "print('[' * 900_000)",
        "print('{\"a\": ' * 100_000)",
        "print('9' * 500_000)",
    ],
)
def test_any_output_is_cut_text(make_task: MakeTask, sandbox: Sandbox, source: str) -> None:
    output = output_of(make_task, sandbox, source)
    assert not output.is_error
    assert len(output.text) < 11_000
    assert len(output.stdout or "") < 11_000
    output.text.encode()


def test_endless_output_is_stopped(make_task: MakeTask, sandbox: Sandbox) -> None:
    output = tool_of(make_task, sandbox, "while True: print('y')").run({}, 1)
    assert output.is_error
    assert len(output.text) < 11_000


@pytest.mark.parametrize("text", ["[]", "3", '"images"', '{"result": null}', '{"a": "\\ud800"}'])
def test_json_without_images_is_text(make_task: MakeTask, sandbox: Sandbox, text: str) -> None:
    assert output_of(make_task, sandbox, f"print({text!r})").text == text


def test_images_in_the_output_go_to_the_model(make_task: MakeTask, sandbox: Sandbox) -> None:
    images = [{"media_type": "image/png", "data": in_base64(PNG)}, {"data": in_base64(GIF)}]
    printed = json.dumps({"images": images, "note": "a plot in °C \ud800"})
    output = output_of(make_task, sandbox, f"print({printed!r})")
    assert [image.media_type for image in output.images] == ["image/png", "image/gif"]
    assert output.text == '{"note": "a plot in °C ?"}'
    assert output.stdout == output.text


def test_an_image_file_goes_to_the_model(make_task: MakeTask, sandbox: Sandbox) -> None:
    written = f"open('/workspace/plot.png', 'wb').write({PNG!r})"
    printed = '{"image_path": "/workspace/plot.png"}'
    output = output_of(make_task, sandbox, f"{written}\nprint({printed!r})")
    assert not output.is_error, output
    (image,) = output.images
    assert image.data == in_base64(PNG)
    assert "plot.png" in output.text


BOMB = in_base64(png(60_000, 60_000))


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ({"images": "x"}, "images: not a list of objects"),
        ({"images": [1]}, "images: not a list of objects"),
        ({"images": [{"media_type": "image/png"}]}, "images.0: no base64 in 'data'"),
        ({"images": [{"data": in_base64(PNG)}] * 9}, "images: more than 8"),
        (
            {"images": [{"data": BOMB}]},
            "images.0: 60000x60000 pixels, more than 8000 a side or none",
        ),
        ({"image_path": None}, "image_path: not the path of a file"),
        ({"image_path": "/etc"}, "/etc: cannot be read as a file"),
    ],
)
def test_a_bad_image_is_an_error_for_the_model(
    make_task: MakeTask, sandbox: Sandbox, printed: object, why: str
) -> None:
    output = output_of(make_task, sandbox, f"print({json.dumps(printed)!r})")
    assert output.is_error
    assert output.images == ()
    assert output.text == f"the tool gave no usable image; {why}"


def test_an_image_too_large_for_the_output_says_what_to_do(
    make_task: MakeTask, sandbox: Sandbox
) -> None:
    output = output_of(make_task, sandbox, 'print(\'{"images": [{"data": "\' + \'A\' * 2_000_000)')
    assert output.is_error
    assert output.text.endswith("write the image to a file and print its 'image_path'")


def test_a_dead_sandbox_is_not_the_tools_fault(make_task: MakeTask, sandbox: Sandbox) -> None:
    tool = tool_of(make_task, sandbox, ECHO)
    sandbox.close()
    with pytest.raises(SandboxGone):
        tool.run({}, 60)
