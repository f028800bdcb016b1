"""An MCP server on standard streams, without any library, that can also misbehave.

It runs in sandboxes, so it needs nothing but Python 3.8.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
    {"name": "variable", "description": "Return a variable."},
    {"name": "where", "title": "Where it runs"},
    {"name": "say", "description": "Return the content that it is given."},
    {"name": "long", "description": "Return so many bytes."},
    {"name": "noisy", "description": "Print what is not MCP, then answer."},
    {"name": "line", "description": "Print a line without an end."},
    {"name": "hang", "description": "Never answer."},
    {"name": "deaf", "description": "Never read again."},
    {"name": "die", "description": "End at once."},
    {"name": "refuse", "description": "Answer with an error of the protocol."},
    {"name": "odd name/with°signs", "description": "Be called."},
]


for tool in TOOLS:
    tool.setdefault("inputSchema", {"type": "object"})


def send(message: object) -> None:
    line = json.dumps(message, ensure_ascii=False)
    if "\ud800" in line:  # half a character, which UTF-8 cannot carry
        line = json.dumps(message)
    sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
    sys.stdout.flush()


def text(value: object, **more: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}], **more}


def call(number: int, name: str, arguments: dict[str, Any]) -> Any:
    if name == "add":
        return text(arguments["a"] + arguments["b"])
    if name == "variable":
        return text(os.environ.get(arguments["name"], "unset"))
    if name == "where":
        return text(Path.cwd())
    if name == "say":
        return arguments["result"]
    if name == "long":
        return text(arguments["of"] * arguments["size"])
    if name == "noisy":
        sys.stderr.buffer.write(b"\xff" * 1_000_000)
        sys.stdout.buffer.write(b"not json\n\xff\xfe\n[1]\n{}\n" + b"z" * 1_000_000 + b"\n")
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        send({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        send({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage"})
        send({"jsonrpc": "2.0", "id": 10_000, "result": text("of another")})
        answers: dict[str, Any] = {}
        while len(answers) < 2:
            answer = json.loads(sys.stdin.readline())
            answers[answer["id"]] = answer
        return text("{} {}".format(answers["p"]["result"], answers["s"]["error"]["code"]))
    if name == "line":
        while True:
            sys.stdout.buffer.write(b"x" * 1_000_000)
    if name == "deaf":
        send({"jsonrpc": "2.0", "id": number, "result": text("deaf now")})
        time.sleep(1000)
    if name == "die":
        sys.stderr.write("out of memory\n")
        sys.exit(3)
    if name == "odd name/with°signs":
        return text("called")
    return None


def answer(message: dict[str, Any]) -> None:
    number: Any = message.get("id")
    method = message["method"]
    params = message.get("params", {})
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        version = params["protocolVersion"]
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "result": {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                },
            }
        )
    elif method == "tools/list":
        # One tool on each page.
        at = int(params.get("cursor", "0"))
        page: dict[str, Any] = {"tools": TOOLS[at : at + 1]}
        if at + 1 < len(TOOLS):
            page["nextCursor"] = str(at + 1)
        send({"jsonrpc": "2.0", "id": number, "result": page})
    elif method == "tools/call" and params["name"] == "refuse":
        error = {"code": -32602, "message": "no such\nthing"}
        send({"jsonrpc": "2.0", "id": number, "error": error})
    elif method == "tools/call":
        result = call(number, params["name"], params["arguments"])
        if result is not None:
            send({"jsonrpc": "2.0", "id": number, "result": result})
    elif number is not None:
        error = {"code": -32601, "message": "unknown method " + method}
        send({"jsonrpc": "2.0", "id": number, "error": error})


for line in sys.stdin:
    answer(json.loads(line))
Path(os.environ.get("GOODBYE", os.devnull)).write_text("ended")
