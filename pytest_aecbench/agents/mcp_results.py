"""Tools and results of MCP servers, as a model is given them. Nothing here trusts a server."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.images import MAX_IMAGES, BadImageError, image_from_base64
from pytest_aecbench.agents.tools import ToolOutput, clipped
from pytest_aecbench.providers import Image, ToolSpec
from pytest_aecbench.tasks.tools import ANY_OBJECT
from pytest_aecbench.text import encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["McpTool", "OfferedTool", "failure", "offered_tools", "output_from", "tools_from"]

_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server; ``call`` uses it with arguments and a limit of seconds."""

    server: str
    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[Mapping[str, Any], float], ToolOutput]


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server under the name that the model knows."""

    spec: ToolSpec
    call: Callable[[Mapping[str, Any], float], ToolOutput]

    def run(self, arguments: Mapping[str, Any], timeout_sec: float) -> ToolOutput:
        """Use the tool."""
        return self.call(arguments, timeout_sec)


def offered_tools(
    server: str,
    listed: object,
    call: Callable[[str, Mapping[str, Any], float], ToolOutput],
) -> list[OfferedTool]:
    """Return the tools in a server's list; entries that are not tools are left out."""
    found = []
    for entry in _sendable(listed) if isinstance(listed, list) else ():
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name:
            described = entry.get("description") or entry.get("title") or name
            schema = _parameters(entry.get("inputSchema"))

            def use(
                arguments: Mapping[str, Any], timeout_sec: float, name: str = name
            ) -> ToolOutput:
                return call(name, arguments, timeout_sec)

            found.append(OfferedTool(server, name, clipped(str(described)), schema, use))
    return found


def tools_from(offers: Iterable[OfferedTool], taken: Iterable[str]) -> list[McpTool]:
    """Return the tools under distinct names that every provider accepts."""
    names = set(taken)
    tools = []
    for offer in offers:
        name = _name(offer.server, offer.name, names)
        names.add(name)
        tools.append(McpTool(ToolSpec(name, offer.description, offer.parameters), offer.call))
    return tools


def _name(server: str, tool: str, taken: set[str]) -> str:
    plain = re.sub("[^A-Za-z0-9_-]", "_", f"{server}__{tool}")
    name, count = plain, 0
    while len(name) > _LONGEST_NAME or name in taken:
        digest = hashlib.sha256(f"{server}\0{tool}\0{count}".encode()).hexdigest()[:8]
        name, count = f"{plain[: _LONGEST_NAME - 9]}_{digest}", count + 1
    return name


def _parameters(schema: object) -> Mapping[str, Any]:
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return ANY_OBJECT
    properties = schema.get("properties")
    return {**schema, "type": "object", "properties": properties or {}}


def _sendable(value: Any) -> Any:
    """Return JSON-like data whose strings UTF-8 can carry."""
    return json.loads(encodable(json.dumps(value, ensure_ascii=False)))


def output_from(result: object) -> ToolOutput:
    """Return what the model gets of a ``CallToolResult``."""
    if not isinstance(result, Mapping):
        return failure("the server's result is not an object")
    try:
        return _output(result)
    except RecursionError:
        return failure("the server's result is nested too deeply")


def _output(result: Mapping[str, Any]) -> ToolOutput:
    content = result.get("content")
    texts: list[str] = []
    images: list[Image] = []
    for block in content if isinstance(content, list) else ():
        shown = _shown(block) if isinstance(block, dict) else "[unknown content left out]"
        if isinstance(shown, str):
            texts.append(shown)
        elif len(images) < MAX_IMAGES:
            images.append(shown)
        else:
            texts.append(f"[image left out: more than {MAX_IMAGES}]")
    if not texts and not images and result.get("structuredContent") is not None:
        texts.append(json.dumps(result["structuredContent"], ensure_ascii=False))
    text = clipped(encodable("\n".join(texts)))
    is_error = result.get("isError") is True
    return ToolOutput(text or "(no output)", tuple(images), is_error=is_error)


def failure(why: object) -> ToolOutput:
    """Return the error of a tool that gave no result."""
    return ToolOutput(clipped(encodable(str(why))), is_error=True)


def _shown(block: Mapping[str, Any]) -> str | Image:
    """Return the text or the image of a block, or a note in its place."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "image":
        try:
            return image_from_base64(block.get("data"))
        except BadImageError as error:
            return f"[image left out: {error}]"
    if kind == "resource" and isinstance(resource := block.get("resource"), dict):
        return str(resource.get("text") or f"[resource {resource.get('uri')}: not text]")
    if kind == "resource_link":
        return f"[resource {block.get('uri')}: {block.get('name')}]"
    return f"[{kind} left out: {block.get('mimeType', 'no type')}]"
