"""A model on the loopback interface that talks to agents' own command-line programs.

It speaks Anthropic's Messages, OpenAI's Responses and OpenAI's Chat Completions, streamed if asked
for. It follows a script: for as many turns as there are commands it asks for one of them to be run
by the shell tool that the program offers, and then it says that it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from tests.standins.server import Server

__all__ = ["KEY", "USAGE", "AgentModels"]

KEY = "sk-standin-4f6b0c7d92e14a5f"
# Tokens of each reply: input, of which some are read from the cache, and output.
USAGE = {"input": 1000, "cached": 600, "output": 50}
_SHELLS = ("Bash", "bash", "exec_command", "shell_command", "shell", "local_shell")
DONE = "The file is written."


class AgentModels(Server):
    """Asks for ``commands`` one after the other; a caller needs ``KEY``."""

    def __init__(self, commands: Iterable[str] = (), host: str = "127.0.0.1") -> None:
        super().__init__(host=host)
        self.commands = list(commands)
        routes = web.RouteTableDef()
        routes.post("/v1/messages")(self._messages)
        routes.post("/v1/responses")(self._responses)
        routes.post("/v1/chat/completions")(self._completions)
        self.start(routes)

    def _command(self, turn: int, tools: list[str]) -> tuple[str, str] | None:
        """Return the shell tool and the command of a turn; None where the model is done."""
        shell = next((name for name in _SHELLS if name in tools), None)
        if shell is None or turn >= len(self.commands):
            return None  # as in the requests beside the conversation, which have no tools
        return shell, self.commands[turn]

    def _is_allowed(self, request: web.Request) -> bool:
        given = request.headers.get("x-api-key") or request.headers.get("Authorization") or ""
        return given.removeprefix("Bearer ") == KEY

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not self._is_allowed(request):
            error = {"type": "authentication_error", "message": "invalid x-api-key"}
            return web.json_response({"type": "error", "error": error}, status=401)
        blocks = [
            block
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        turn = sum(block.get("type") == "tool_result" for block in blocks)
        wanted = self._command(turn, [tool["name"] for tool in body.get("tools", ())])
        message = {
            "id": f"msg_{turn:04}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": USAGE["input"] - USAGE["cached"],
                "cache_read_input_tokens": USAGE["cached"],
                "cache_creation_input_tokens": 0,
                "output_tokens": USAGE["output"],
            },
        }
        stop = "tool_use" if wanted else "end_turn"
        if wanted:
            given = {"command": wanted[1], "description": "Do it"}
            use = {"type": "tool_use", "id": f"toolu_{turn:04}", "name": wanted[0], "input": given}
        else:
            use = {"type": "text", "text": DONE}
        if not body.get("stream"):
            return web.json_response({**message, "content": [use], "stop_reason": stop})
        return await _stream(request, _message_events(message, use, stop))

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not self._is_allowed(request):
            return web.json_response({"error": {"message": "bad key"}}, status=401)
        turn = sum(
            str(item.get("type")).endswith("call_output")
            for item in body["input"]
            if isinstance(item, dict)
        )
        names = [str(tool.get("name") or tool["type"]) for tool in body.get("tools", ())]
        wanted = self._command(turn, names)
        item: dict[str, Any] = {
            "type": "message",
            "id": f"item_{turn:04}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": DONE, "annotations": []}],
        }
        if wanted:
            item = {
                "type": "function_call",
                "id": f"item_{turn:04}",
                "call_id": f"call_{turn:04}",
                "name": wanted[0],
                "arguments": json.dumps(_codex_arguments(*wanted)),
                "status": "completed",
            }
        response = {
            "id": f"resp_{turn:04}",
            "object": "response",
            "model": body["model"],
            "status": "completed",
            "output": [item],
            "usage": {
                "input_tokens": USAGE["input"],
                "input_tokens_details": {"cached_tokens": USAGE["cached"]},
                "output_tokens": USAGE["output"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": USAGE["input"] + USAGE["output"],
            },
        }
        begun = {**response, "status": "in_progress", "output": []}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]
        return await _stream(request, events)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not self._is_allowed(request):
            error = {"message": "Incorrect API key", "code": "invalid_api_key"}
            return web.json_response({"error": error}, status=401)
        turn = sum(message["role"] == "tool" for message in body["messages"])
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        wanted = self._command(turn, names)
        message: dict[str, Any] = {"role": "assistant", "content": DONE}
        if wanted:
            function = {"name": wanted[0], "arguments": json.dumps({"command": wanted[1]})}
            call = {"id": f"call_{turn:04}", "type": "function", "function": function}
            message = {"role": "assistant", "content": "Working.", "tool_calls": [call]}
        reason = "tool_calls" if wanted else "stop"
        return web.json_response(
            {
                "id": f"chatcmpl-{turn:04}",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {
                    "prompt_tokens": USAGE["input"],
                    "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
                    "completion_tokens": USAGE["output"],
                    "total_tokens": USAGE["input"] + USAGE["output"],
                },
            }
        )


def _codex_arguments(shell: str, command: str) -> dict[str, Any]:
    if shell == "exec_command":
        return {"cmd": command}
    return {"command": command if shell == "shell_command" else ["bash", "-c", command]}


def _message_events(
    message: dict[str, Any], block: dict[str, Any], stop: str
) -> list[dict[str, Any]]:
    started: dict[str, Any] = {"type": "text", "text": ""}
    if block["type"] == "text":
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        started = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": started},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": message["usage"]["output_tokens"]},
        },
        {"type": "message_stop"},
    ]


async def _stream(request: web.Request, events: Iterable[dict[str, Any]]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    await response.write_eof()
    return response
