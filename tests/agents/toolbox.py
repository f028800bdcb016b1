"""The tools of MCP servers, by their names."""

from __future__ import annotations

import json
from typing import Any

from pytest_aecbench.agents.tools import Tool, ToolOutput
from tests.agents.pictures import in_base64
from tests.agents.servers import sdk


class Toolbox:
    """Tools by their names."""

    def __init__(self, tools: list[Tool]) -> None:
        self.specs = {tool.spec.name: tool.spec for tool in tools}
        self._tools = {tool.spec.name: tool for tool in tools}

    def use(self, name: str, timeout_sec: float = 60, /, **arguments: Any) -> ToolOutput:
        return self._tools[name].run(arguments, timeout_sec)


def check_sdk_server(tools: Toolbox, longest: int = 3_000_000) -> None:
    assert tools.specs["sdk__add"].description == "Add two numbers."
    assert tools.specs["sdk__add"].parameters["required"] == ["a"]
    assert tools.use("sdk__add", a=2, b=40).text == "42.0"
    picture = tools.use("sdk__picture")
    assert (picture.text, len(picture.images)) == ("a plot", 1)
    assert picture.images[0].data == in_base64(sdk.PNG)
    assert json.loads(tools.use("sdk__structured").text) == {"x": 1}
    assert len(tools.use("sdk__long", size=longest).text) < 11_000
    broken = tools.use("sdk__broken")
    assert broken.is_error
    assert "no such beam" in broken.text
    late = tools.use("sdk__hang", 1)
    assert late.is_error
    assert "time" in late.text
    wrong = tools.use("sdk__add", b="x")
    assert wrong.is_error
    assert tools.use("sdk__add", a=1).text == "1.0"
