"""A stand-in whose models look at what they are asked, in any provider's format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.standins.models.scripts import FAULTS, Turn
from tests.standins.models.server import ModelServer

__all__ = ["Asked", "PolicyServer"]


@dataclass(frozen=True)
class Asked:
    """A request: its first and its last message, its system prompt, and the turns before it."""

    first: str
    last: str
    system: str
    turns: int
    model: str


class PolicyServer(ModelServer):
    """Answers with the turn, or the fault by its name, that ``policy`` returns for a request.

    Each answer takes ``delay_sec``; ``most_in_flight`` is how many were asked for at once.
    """

    def __init__(self, policy: Callable[[Asked], Turn | str], delay_sec: float = 0.0) -> None:
        self.policy = policy
        self.asked: list[Asked] = []
        self.answered: list[Asked] = []
        self.in_flight = 0
        self.most_in_flight = 0
        super().__init__()
        self.delay_sec = delay_sec

    async def _reply(
        self, request: web.Request, form: Any, model: str, order: str | None
    ) -> web.StreamResponse:
        asked = asked_in(await request.json(), model, form)
        self.asked.append(asked)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            decided = self.policy(asked)
            await asyncio.sleep(self.delay_sec)
            if isinstance(decided, str):
                return await self._fail(request, form, FAULTS[decided])
            self.scripts[model] = (decided,)
            self.answered.append(asked)
            return await super()._reply(request, form, model, order)
        finally:
            self.in_flight -= 1


def asked_in(body: Any, model: str, form: Any) -> Asked:
    """Return what a request says, whatever its format."""
    messages = body.get("messages") or body["input"]
    system = body.get("system") or body.get("instructions") or ""
    if not system and messages[0]["role"] == "system":
        system = messages[0]["content"]
    spoken = [message for message in messages if message.get("role") != "system"]
    return Asked(_text(spoken[0]), _text(spoken[-1]), _text(system), form.turns_so_far(body), model)


def _text(value: Any) -> str:
    return "\n".join(_texts(value))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key in ("text", "content", "output", "toolResult"):
            if key in value:
                yield from _texts(value[key])
