"""Files of a sandbox, read whole through its commands, so that every backend can."""

from __future__ import annotations

import base64
import binascii
import shlex
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = ["UnreadableError", "read_bytes"]

# Backends keep 1 MiB of an output, and base64 makes it longer by a third.
_PIECE = 700_000


class UnreadableError(Exception):
    """A file of the sandbox cannot be read, or is too large; the message says which and why."""


def read_bytes(sandbox: Sandbox, path: str, timeout_sec: float, max_bytes: int) -> bytes:
    """Return the content of a file of the sandbox, or raise UnreadableError."""
    content = b"".join(_pieces(sandbox, path, timeout_sec, max_bytes))
    if len(content) > max_bytes:
        raise UnreadableError(f"{path}: {len(content)} bytes, larger than {max_bytes}")
    return content


def _pieces(sandbox: Sandbox, path: str, timeout_sec: float, max_bytes: int) -> Iterator[bytes]:
    file = shlex.quote(path if path.startswith("/") else f"./{path}")
    deadline = time.monotonic() + timeout_sec
    for number in range(max_bytes // _PIECE + 1):
        left_sec = max(0.1, deadline - time.monotonic())
        command = f"[ -f {file} ] && dd if={file} bs={_PIECE} skip={number} count=1 2>/dev/null"
        done = sandbox.execute(f"set -o pipefail; ({command}) | base64", timeout_sec=left_sec)
        if done.returncode != 0:
            raise UnreadableError(f"{path}: cannot be read as a file")
        try:
            piece = base64.b64decode("".join(done.stdout.split()), validate=True)
        except (binascii.Error, ValueError):
            raise UnreadableError(f"{path}: cannot be read as a file") from None
        yield piece
        if len(piece) < _PIECE:
            return
    raise UnreadableError(f"{path}: larger than {max_bytes} bytes")
