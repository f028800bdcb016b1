"""Model providers: the request, the reply, and the protocol of one call to one model.

Nothing here knows an agent or a sandbox. ``routing`` finds the provider of a model's name, the
module of each provider speaks its format through its own SDK, ``calls`` adds retries, budgets,
prices and the cache of replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from pytest_aecbench.providers.routing import Route

__all__ = [
    "Image",
    "Message",
    "Model",
    "ModelReply",
    "ModelRequest",
    "Part",
    "Stop",
    "Text",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Usage",
]


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture; ``data`` is base64."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to use a tool.

    ``arguments`` is None where the model wrote something that is not a JSON object; ``raw`` is then
    what it wrote.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None
    raw: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to the tool call of the same id."""

    call_id: str
    content: tuple[Text | Image, ...]
    is_error: bool = False


Part: TypeAlias = "Text | Image | ToolCall | ToolResult"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    ``native`` is an assistant's message in the provider's own JSON, with what our parts do not
    carry, such as signed or encrypted reasoning. It is sent back unchanged in later requests.
    """

    role: Literal["user", "assistant"]
    content: tuple[Part, ...]
    native: Any = None

    @property
    def text(self) -> str:
        """The text of the message, without its other parts."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that the message asks for."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is declared to a model; ``parameters`` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model; None leaves a parameter to the provider.

    With ``cache_prompt``, a provider that has to be asked keeps the prompt for later requests.
    """

    messages: tuple[Message, ...]
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 16384
    temperature: float | None = None
    reasoning_effort: str | None = None
    cache_prompt: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON-like data; equal requests give equal data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens used; input excludes tokens read from or written to the cache; None is unknown.

    ``tokens_reasoning`` is the part of the output that was not shown.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cache_read: int | None = None
    tokens_cache_write: int | None = None
    tokens_reasoning: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            *(_sum(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        )

    @property
    def total(self) -> int:
        """All tokens that are known, each counted once."""
        parts = (self.tokens_in, self.tokens_out, self.tokens_cache_read, self.tokens_cache_write)
        return sum(part or 0 for part in parts)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


# Why a model stopped: it was done, wants tools, was cut at max_tokens, refused, or had no context
# left in the middle of its answer.
Stop: TypeAlias = Literal["end", "tool_calls", "length", "refusal", "context"]


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The answer of a model; ``model`` is the version that the provider says answered.

    ``reasoning`` is what the provider shows of the model's thoughts.
    """

    message: Message
    stop: Stop
    usage: Usage = Usage()
    model: str | None = None
    request_id: str | None = None
    reasoning: str = ""


@runtime_checkable
class Model(Protocol):
    """One model of one provider. A class for it is called with its ``Route``."""

    route: Route

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        """Ask once and return the answer.

        Raises:
            ProviderError: there is no answer; its class says why. Nothing is tried again here.

        """
        ...
