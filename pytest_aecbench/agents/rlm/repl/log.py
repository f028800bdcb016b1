"""The log of the calls that cells have made."""

from __future__ import annotations

from typing import Any

SHOWN_CHARS = 80


class SubcallLog:
    """Calls to models in the order in which they were answered, each a dict."""

    def __init__(self) -> None:
        self._calls: list[dict[str, Any]] = []

    def add(self, requests: list[Any], replies: list[Any]) -> None:
        """Note calls and what came of them."""
        for request, reply in zip(requests, replies):  # noqa: B905  (not in Python 3.8)
            told = {name: reply.get(name) for name in ("text", "error")}
            tokens = {name: reply.get(name) for name in ("input_tokens", "output_tokens")}
            self._calls.append(
                {"kind": request["kind"], "prompt": request["prompt"], **told, **tokens}
            )

    @property
    def all(self) -> list[dict[str, Any]]:
        """All calls; ``error`` is None where there is a ``text``."""
        return list(self._calls)

    def last(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the last calls."""
        return self._calls[-count:] if count > 0 else []

    def by_type(self, kind: str) -> list[dict[str, Any]]:
        """Return the calls of a kind, such as ``llm_query`` or ``extract``."""
        return [call for call in self._calls if call["kind"] == kind]

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        lines = ("{}: {!r}".format(call["kind"], _end(call)) for call in self._calls)
        return "\n".join(lines) or "(no calls)"


def _end(call: dict[str, Any]) -> str:
    end = str(call["error"] or call["text"])
    return end if len(end) <= SHOWN_CHARS else end[:SHOWN_CHARS] + "..."
