"""``--aec-cache-calls``: replies of models, kept by a digest of the request and served again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.files import read_regular, shown_path, whole
from pytest_aecbench.providers import (
    Image,
    Message,
    ModelReply,
    ModelRequest,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_aecbench.providers.routing import Route

__all__ = ["ReplyCache"]

_VERSION = 1
_MAX_BYTES = 64 << 20
_PARTS: dict[str, type[Part]] = {
    "text": Text,
    "image": Image,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
}


class ReplyCache:
    """A directory of replies. Each repetition has its own, because repetitions must differ.

    ``scrub`` removes secrets from what is written.
    """

    def __init__(
        self, directory: Path, repetition: int = 1, scrub: Callable[[Any], Any] = lambda data: data
    ) -> None:
        self.directory = directory
        self.repetition = repetition
        self._scrub = scrub

    def get(self, route: Route, request: ModelRequest) -> ModelReply | None:
        """Return the reply to the same request; None if there is none that can be read."""
        try:
            data = json.loads(read_regular(self._path(route, request), _MAX_BYTES))
            return _reply(data["reply"]) if data["version"] == _VERSION else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, route: Route, request: ModelRequest, reply: ModelReply) -> None:
        """Keep the reply for the same request."""
        path = self._path(route, request)
        about = {"version": _VERSION, "provider": route.provider, "model": route.model}
        data = {**about, "repetition": self.repetition, "reply": self._scrub(_data(reply))}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole(path) as file:
                file.write(json.dumps(data, indent=1).encode())
        except OSError as error:
            raise LedgerError(
                f"--aec-cache-calls: {shown_path(path)} cannot be written, {error.strerror}; "
                "use a directory that can be written and has space left"
            ) from None

    def _path(self, route: Route, request: ModelRequest) -> Path:
        asked = [_VERSION, route.provider, route.model, self.repetition, request.to_json()]
        # Settings such as another server's address may change the answer; a key does not.
        asked.append(str(route.settings.get("base_url") or route.settings.get("endpoint") or ""))
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return self.directory / digest[:2] / f"{digest}.json"


def _data(reply: ModelReply) -> dict[str, Any]:
    kinds = {part: name for name, part in _PARTS.items()}
    data = asdict(reply)
    data["message"]["content"] = [
        {"type": kinds[type(part)], **asdict(part)} for part in reply.message.content
    ]
    return data


def _reply(data: dict[str, Any]) -> ModelReply:
    message = data.pop("message")
    content = tuple(_PARTS[part.pop("type")](**part) for part in message.pop("content"))
    usage = Usage(**data.pop("usage"))
    return ModelReply(message=Message(content=content, **message), usage=usage, **data)
