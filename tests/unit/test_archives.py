"""Archives on their way to and from sandboxes: what is left out, and when there is no more time."""

from __future__ import annotations

import io
import itertools
import subprocess
import tarfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench.backends.shared.archives import COLLECT_SEC, FILE_CAP, tidy, unpack
from pytest_aecbench.backends.shared.spool import spool
from pytest_aecbench.errors import TransferError
from pytest_aecbench.host.files import copy_file


def packed(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return archive.getvalue()


def test_a_huge_sparse_file_is_left_out_and_what_follows_is_not(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    with (source / "a").open("wb") as file:
        file.truncate(20 * 1024**3)
    (source / "b").write_text("kept")
    argv = ["tar", "-cSf", str(tmp_path / "tar"), "-C", str(source), "a", "b"]
    subprocess.run(argv, check=True)
    assert unpack([(tmp_path / "tar").read_bytes()], target) == [f"a (over {FILE_CAP} bytes)"]
    assert [path.name for path in target.iterdir()] == ["b"]


def test_an_archive_of_names_in_names_is_an_error_of_the_transfer(tmp_path: Path) -> None:
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 2
    chain = (name.tobuf() + b"x\0".ljust(512, b"\0")) * 5000
    with pytest.raises(TransferError, match="cannot be unpacked"):
        unpack([chain + packed({"x": b"x"})], tmp_path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_that_would_fill_the_memory_is_an_error_of_the_transfer(
    tmp_path: Path, kind: bytes
) -> None:
    header = tarfile.TarInfo("header")
    header.type, header.size = kind, 100 * 1024**2

    def endless() -> Iterator[bytes]:
        yield header.tobuf()
        for _ in range(100):
            yield b"x" * 1024**2

    tracemalloc.start()
    try:
        with pytest.raises(TransferError, match="header"):
            unpack(endless(), tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024**2
    finally:
        tracemalloc.stop()


def test_many_long_headers_are_not_kept(tmp_path: Path) -> None:
    def archive() -> Iterator[bytes]:
        for number in range(50):
            name = f"{number}/{'x' * 1024**2}"
            yield tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT)
            link = tarfile.TarInfo(str(number))
            link.type, link.linkname = tarfile.SYMTYPE, name
            yield link.tobuf(tarfile.GNU_FORMAT)
        yield bytes(1024)

    tracemalloc.start()
    try:
        assert len(unpack(archive(), tmp_path)) == 50
        assert tracemalloc.get_traced_memory()[1] < 30 * 1024**2
    finally:
        tracemalloc.stop()


def test_what_takes_too_long_is_left_out_with_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    archive = packed({"first": b"1" * 5000, "second": b"2" * 90_000, "third": b"3"})

    def slowly() -> Iterator[bytes]:
        yield archive[:20_000]
        monkeypatch.setattr(time, "monotonic", lambda: now + COLLECT_SEC + 60)
        yield archive[20_000:]

    skipped = unpack(slowly(), tmp_path)
    monkeypatch.undo()
    assert skipped == ["second (and what follows: took over 600 s)"]
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_a_directory_that_takes_too_long_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").touch()
    hours = itertools.count(time.monotonic(), 3600)
    monkeypatch.setattr(time, "monotonic", lambda: next(hours))
    with pytest.raises(TransferError, match="takes over 600 s to collect"):
        tidy(tmp_path)


def test_a_copy_has_the_holes_the_bytes_and_the_mode_of_its_source(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    with source.open("wb") as file:
        file.write(b"start")
        file.truncate(32 << 20)
        file.seek(0, 2)
        file.write(b"end")
        file.truncate(48 << 20)
    source.chmod(0o640)
    copy_file(str(source), str(copy))
    assert copy.read_bytes() == source.read_bytes()
    assert copy.stat().st_mode == source.stat().st_mode
    assert copy.stat().st_blocks * 512 < 1 << 20


def test_an_archive_on_its_way_is_a_file_that_sdks_take() -> None:
    with spool() as file:
        assert isinstance(file, io.IOBase)
        assert file.seekable()
