"""Names of docker-py that it does not promise to keep: each is used here, once, with its reason."""

from __future__ import annotations

from contextlib import suppress
from socket import SHUT_RDWR
from typing import Any

__all__ = ["already_read", "connection_of", "cut_off"]


def connection_of(stream: Any) -> tuple[Any, Any]:
    """Return the response and the socket of an exec, which docker-py hides behind one object.

    Both are needed: the socket to write to and to wait at with a deadline, the response to close.
    """
    return getattr(stream, "_response", stream), getattr(stream, "_sock", stream)


def already_read(response: Any, socket: Any) -> bytes:
    """Return the bytes that came with the response's head, which docker-py would lose."""
    with suppress(AttributeError, OSError):
        socket.setblocking(False)
        return bytes(response.raw._fp.fp.peek())
    return b""


def cut_off(api: Any, response: Any) -> None:
    """Shut the connection of a response down, because a build has no other way to be stopped."""
    with suppress(AttributeError, OSError):  # a finished build has no connection
        socket = api._get_raw_response_socket(response)
        getattr(socket, "_sock", socket).shutdown(SHUT_RDWR)
