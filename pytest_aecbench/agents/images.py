"""Images that tools give to a model: base64 or files of the sandbox, checked and bounded.

Nothing here trusts the sandbox. A provider refuses a whole conversation because of one image that
it cannot take, so the type, the size and the dimensions are checked before an image is sent.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.reading import UnreadableError, read_bytes
from pytest_aecbench.providers import Image

if TYPE_CHECKING:
    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = ["MAX_IMAGES", "BadImageError", "checked_image", "image_from_base64", "read_image"]

# Providers take at most 5 MB of base64 and 8,000 pixels a side.
MAX_BYTES = 3_750_000
MAX_SIDE = 8_000
MAX_IMAGES = 8


class BadImageError(Exception):
    """Something is not an image that a model can be given; the message says why."""


def image_from_base64(data: Any, where: str = "image") -> Image:
    """Return the image, or raise BadImageError."""
    if not isinstance(data, str) or not data:
        raise BadImageError(f"{where}: no base64 in 'data'")
    if len(data) > 2 * MAX_BYTES:
        raise BadImageError(f"{where}: larger than {MAX_BYTES} bytes")
    try:
        content = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadImageError(f"{where}: not valid base64") from None
    return checked_image(content, where)


def checked_image(content: bytes, where: str = "image") -> Image:
    """Return the image, or raise BadImageError."""
    if len(content) > MAX_BYTES:
        raise BadImageError(f"{where}: {len(content)} bytes, larger than {MAX_BYTES}")
    media_type = _media_type(content)
    sides = _sides(content, media_type) if media_type else None
    if media_type is None or sides is None:
        raise BadImageError(f"{where}: not a whole PNG, JPEG, GIF or WebP image")
    if not all(0 < side <= MAX_SIDE for side in sides):
        shape = "x".join(map(str, sides))
        raise BadImageError(f"{where}: {shape} pixels, more than {MAX_SIDE} a side or none")
    return Image(media_type, base64.b64encode(content).decode("ascii"))


def read_image(sandbox: Sandbox, path: str, timeout_sec: float) -> Image:
    """Return the image in a file of the sandbox, or raise BadImageError."""
    if not isinstance(path, str) or not path.strip() or not path.isprintable():
        raise BadImageError("image_path: not the path of a file")
    try:
        content = read_bytes(sandbox, path, timeout_sec, MAX_BYTES)
    except UnreadableError as error:
        raise BadImageError(str(error)) from None
    return checked_image(content, path)


def _media_type(content: bytes) -> str | None:
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def _sides(content: bytes, media_type: str) -> tuple[int, int] | None:
    """Return the width and the height; None if the image is broken or its end is missing."""
    end = _ENDS.get(media_type)
    try:
        if end is None:
            is_whole = struct.unpack_from("<I", content, 4)[0] <= len(content) - 8
        else:
            is_whole = end in content[12:]
        return _SIDES[media_type](content) if is_whole else None
    except (struct.error, IndexError):
        return None


def _png_sides(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def _gif_sides(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack("<HH", content[6:10])
    return width, height


def _jpeg_sides(content: bytes) -> tuple[int, int] | None:
    """Return the sides from the frame header, which follows segments of known lengths."""
    position = 2
    while position < len(content):
        marker, length = content[position + 1], struct.unpack_from(">H", content, position + 2)[0]
        if content[position] != 0xFF:
            return None
        # The frame headers of all encodings; the three left out are tables.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", content, position + 5)
            return width, height
        position += 2 + length
    return None


def _webp_sides(content: bytes) -> tuple[int, int] | None:
    kind, data = content[12:16], content[20:30]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[6:10])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack("<I", data[1:5])[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (4, 7))
        return width, height
    return None


# WebP has no such end, but says at its start how long it is.
_ENDS = {"image/png": b"IEND", "image/jpeg": b"\xff\xd9", "image/gif": b";"}
_SIDES = {
    "image/png": _png_sides,
    "image/jpeg": _jpeg_sides,
    "image/gif": _gif_sides,
    "image/webp": _webp_sides,
}
