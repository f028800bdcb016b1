"""Images are what they say they are, and not too large, before a model is given them."""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.images import (
    MAX_BYTES,
    BadImageError,
    checked_image,
    image_from_base64,
    read_image,
)
from pytest_aecbench.backends.sandbox import Sandbox
from tests.agents.pictures import (
    GIF,
    JPEG,
    PNG,
    WEBP_EXTENDED,
    WEBP_LOSSLESS,
    WEBP_LOSSY,
    in_base64,
    png,
)

KINDS = {
    "image/png": [PNG],
    "image/jpeg": [JPEG],
    "image/gif": [GIF],
    "image/webp": [WEBP_LOSSY, WEBP_LOSSLESS, WEBP_EXTENDED],
}
ALL = [(kind, image) for kind, images in KINDS.items() for image in images]


@pytest.mark.parametrize(("kind", "content"), ALL)
def test_an_image_has_the_type_of_its_content(kind: str, content: bytes) -> None:
    image = image_from_base64(in_base64(content))
    assert image.media_type == kind
    assert base64.b64decode(image.data) == content


def test_line_breaks_in_base64_do_not_matter() -> None:
    broken = base64.encodebytes(PNG + bytes(200)).decode()
    assert "\n" in broken.strip()
    assert "\n" not in image_from_base64(broken).data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "no base64 in 'data'"),
        (["x"], "no base64 in 'data'"),
        ("", "no base64 in 'data'"),
        ("äöü", "not valid base64"),
        ("abc", "not valid base64"),
        (in_base64(b"<svg/>"), "not a whole PNG, JPEG, GIF or WebP image"),
        (in_base64(PNG[:40]), "not a whole PNG, JPEG, GIF or WebP image"),
        (in_base64(WEBP_LOSSY[:-4]), "not a whole PNG, JPEG, GIF or WebP image"),
        (in_base64(png(100_000, 100_000)), "100000x100000 pixels, more than 8000 a side or none"),
        (in_base64(png(0, 1)), "0x1 pixels, more than 8000 a side or none"),
        ("A" * (3 * MAX_BYTES), f"larger than {MAX_BYTES} bytes"),
        (
            in_base64(png(padding=MAX_BYTES)),
            f"{len(png(padding=MAX_BYTES))} bytes, larger than {MAX_BYTES}",
        ),
    ],
)
def test_a_bad_image_is_refused_with_a_reason(data: object, why: str) -> None:
    with pytest.raises(BadImageError) as caught:
        image_from_base64(data, "images.0")
    assert str(caught.value) == f"images.0: {why}"


@pytest.mark.parametrize(
    "content",
    [
        GIF[:6] + struct.pack("<HH", 9000, 1) + GIF[10:],
        JPEG.replace(b"\x08\x00\x02\x00\x03", b"\x08\xff\xff\x00\x03"),
        WEBP_EXTENDED[:24] + b"\xff\xff\xff" + WEBP_EXTENDED[27:],
    ],
)
def test_dimensions_are_checked_for_every_kind(content: bytes) -> None:
    with pytest.raises(BadImageError, match="more than 8000 a side"):
        checked_image(content)


@given(st.sampled_from(ALL), st.data())
def test_damaged_images_are_taken_or_refused(kind: tuple[str, bytes], data: st.DataObject) -> None:
    content = bytearray(kind[1])
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    with suppress(BadImageError):
        assert checked_image(bytes(content[:cut])).media_type in KINDS


def test_a_file_of_the_sandbox_is_read_in_pieces(sandbox: Sandbox, tmp_path: Path) -> None:
    content = png(padding=3_000_000)
    (tmp_path / "plot.png").write_bytes(content)
    sandbox.execute("true", uploads={"/workspace/plot.png": tmp_path / "plot.png"})
    image = read_image(sandbox, "/workspace/plot.png", 60)
    assert base64.b64decode(image.data) == content
    assert read_image(sandbox, "plot.png", 60) == image


@pytest.mark.parametrize(
    ("make", "path", "why"),
    [
        ("true", "none.png", "none.png: cannot be read as a file"),
        ("mkdir d", "d", "d: cannot be read as a file"),
        ("mkfifo pipe", "pipe", "pipe: cannot be read as a file"),
        ("true", "/dev/zero", "/dev/zero: cannot be read as a file"),
        ("touch empty", "empty", "empty: not a whole PNG, JPEG, GIF or WebP image"),
        ("truncate -s 1G huge", "huge", f"huge: larger than {MAX_BYTES} bytes"),
        ("true", "a\0b", "image_path: not the path of a file"),
        ("true", "\ud800", "image_path: not the path of a file"),
        ("true", "", "image_path: not the path of a file"),
        ("true", 3, "image_path: not the path of a file"),
        ("touch -- '-f'", "-f", "-f: not a whole PNG, JPEG, GIF or WebP image"),
        ("true", "$(touch /workspace/ran)", "$(touch /workspace/ran): cannot be read as a file"),
    ],
)
def test_a_file_that_is_not_an_image_is_refused(
    sandbox: Sandbox, make: str, path: str, why: str
) -> None:
    sandbox.execute(make)
    with pytest.raises(BadImageError) as caught:
        read_image(sandbox, path, 60)
    assert str(caught.value) == why
    assert sandbox.execute("test -e ran").returncode == 1
