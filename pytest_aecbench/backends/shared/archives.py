"""Tar archives of files that go into a sandbox and come out of it."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from pytest_aecbench.backends.shared.placing import (
    change_mode,
    enter,
    open_directory,
    remove_entries,
)
from pytest_aecbench.errors import BackendError, TransferError
from pytest_aecbench.host.files import copy_file, copy_with_holes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "COLLECT_SEC",
    "FILE_CAP",
    "FULL",
    "NOT_A_DIRECTORY",
    "TOTAL_CAP",
    "ArchiveWriter",
    "sandbox_path",
    "tidy",
    "unpack",
]

# The most bytes that are copied to the host of one file and of one directory, and the most seconds
# that a directory may take.
FILE_CAP = 512 * 1024**2
TOTAL_CAP = 4 * 1024**3
COLLECT_SEC = 600.0

# The errors of a host's disk that takes no more.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# Stands for a whole directory that an agent has replaced by something else.
NOT_A_DIRECTORY = " (not a directory)"

# The errors of names and archives that an agent has made up.
_ODD = (errno.EEXIST, errno.EILSEQ, errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR)
_MADE_UP = (tarfile.TarError, ValueError, OverflowError, RecursionError)
_HEADER_CAP = 4 * 1024**2
_PIECE = 1024**2
_MAX_DEPTH = 64
_MAX_PATH = 1024  # bytes below the directory, because the host's paths are limited
_MAX_LINK = 4095
_LONGEST_SHOWN = 16 * _MAX_PATH
_KINDS = {tarfile.FIFOTYPE: "FIFO", tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device"}


def sandbox_path(path: str) -> PurePosixPath:
    """Return a checked path in a sandbox at which something can be placed."""
    pure = PurePosixPath(path)
    if not pure.is_absolute():
        raise BackendError(f"sandbox path: {path!r} is not absolute; start it with '/'")
    if ".." in pure.parts or "\0" in path or len(pure.parts) < 2:
        raise BackendError(f"sandbox path: {path!r} is not valid; name a place below '/'")
    return pure


class ArchiveWriter:
    """Writes an archive to unpack at ``/``; all users can read everything in it."""

    def __init__(self, file: IO[bytes], owner: int = 0) -> None:
        # This format takes names in any bytes, of any length, and every tar reads it.
        self._tar = tarfile.open(  # noqa: SIM115
            fileobj=file, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape"
        )
        self._owner = owner

    def add(self, target: PurePosixPath, source: Path) -> None:
        """Add the file or directory ``source`` with its contents."""
        try:
            self._add(str(target).lstrip("/"), source, Path(os.path.realpath(source)), top=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise TransferError(f"{source}: cannot be placed at {target}; {reason}") from None

    def add_contents(self, target: PurePosixPath, source: Path) -> None:
        """Add the contents of the directory ``source``, but not the directory."""
        for entry in sorted(os.listdir(source)):  # noqa: PTH208  (names alone)
            self.add(target / entry, source / entry)

    def add_directory(self, target: PurePosixPath, mode: int) -> None:
        """Add an empty directory."""
        info = tarfile.TarInfo(str(target).lstrip("/"))
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)

    def add_link(self, target: PurePosixPath, points_to: PurePosixPath) -> None:
        """Add a symbolic link."""
        info = tarfile.TarInfo(str(target).lstrip("/"))
        info.type, info.linkname = tarfile.SYMTYPE, str(points_to)
        self._tar.addfile(info)

    def _add(self, name: str, source: Path, root: Path, *, top: bool = False) -> None:
        if source.is_symlink() and not top and _stays_within(source, root):
            self._tar.addfile(self._info(name, source.lstat(), os.fspath(source.readlink())))
            return
        status = source.stat()
        if stat.S_ISDIR(status.st_mode):
            self._tar.addfile(self._info(name, status))
            for entry in sorted(os.listdir(source)):  # noqa: PTH208  (names alone)
                self._add(f"{name}/{entry}", source / entry, root)
        elif stat.S_ISREG(status.st_mode):
            with source.open("rb") as file:
                self._tar.addfile(self._info(name, os.fstat(file.fileno())), file)

    def _info(self, name: str, status: os.stat_result, link: str | None = None) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.mtime, info.uid, info.gid = int(status.st_mtime), self._owner, self._owner
        info.mode = stat.S_IMODE(status.st_mode) | 0o444
        if link is not None:
            info.type, info.linkname = tarfile.SYMTYPE, link
        elif stat.S_ISDIR(status.st_mode):
            info.type, info.mode = tarfile.DIRTYPE, info.mode | 0o555
        else:
            info.size = status.st_size
        return info

    def close(self) -> None:
        """End the archive."""
        self._tar.close()


def _stays_within(link: Path, root: Path) -> bool:
    if link.readlink().is_absolute():
        return False
    return Path(os.path.realpath(link)).is_relative_to(root)


def unpack(chunks: Iterable[bytes], directory: Path) -> list[str]:
    """Unpack an archive from a sandbox below ``directory``; return the entries left out.

    Only regular files, directories and links that stay within ``directory`` are written; their
    owner can read and remove all of them.
    """
    unpacking = _Unpacking(directory)
    reader = _Reader(iter(chunks))
    parts: tuple[str, ...] = ()
    try:
        with reader.opened() as tar:
            for member in reader.members(tar):
                parts = _parts(member.name)
                # The holes of a sparse file are not in the archive.
                if not member.issparse() and reader.seen + member.size > TOTAL_CAP:
                    unpacking.skip(parts, f"and what follows: over {TOTAL_CAP} bytes")
                    break
                unpacking.take(tar, member)
    except TimeoutError:
        unpacking.skip(parts, f"and what follows: took over {COLLECT_SEC:.0f} s")
    except _MADE_UP as error:
        raise TransferError(f"{directory.name}: cannot be unpacked; {error}") from None
    except OSError as error:
        if error.errno in FULL:
            raise
        raise TransferError(f"{directory}: {error.strerror or error}") from None
    try:
        return unpacking.finish()
    except (ValueError, OverflowError) as error:
        raise TransferError(f"{directory.name}: cannot be unpacked; {error}") from None
    except OSError as error:
        if error.errno in FULL:
            raise
        raise TransferError(f"{directory}: {error.strerror or error}") from None


class _Reader:
    """A file object over chunks, which raises TimeoutError if they take too long.

    It is read forwards only. The headers of one member, such as its name and its map of holes,
    may take `_HEADER_CAP` bytes, because they are held in memory.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = bytearray()
        self._deadline = time.monotonic() + COLLECT_SEC
        self._room: int | None = None  # for the rest of a header
        self.seen = 0

    @contextmanager
    def _reading_header(self) -> Iterator[None]:
        self._room = _HEADER_CAP
        yield
        self._room = None

    def opened(self) -> tarfile.TarFile:
        """Open the archive, and read the first header."""
        with self._reading_header():
            return tarfile.open(fileobj=self, mode="r:", errors="surrogateescape")  # type: ignore[call-overload,no-any-return]

    def members(self, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        """Yield each member, and keep none of them."""
        while True:
            with self._reading_header():
                member = tar.next()
            if member is None:
                return
            yield member
            tar.members.clear()  # type: ignore[attr-defined]
            tar.pax_headers.clear()  # type: ignore[attr-defined]

    def tell(self) -> int:
        return self.seen

    def seek(self, position: int) -> None:
        while self.seen < position and self._take(min(position - self.seen, _PIECE)):
            pass

    def read(self, size: int) -> bytes:
        if self._room is not None:
            self._room -= size
            if self._room < 0:
                raise tarfile.ReadError(f"a header of over {_HEADER_CAP} bytes")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        self._check_time()
        while len(self._buffer) < size and (chunk := next(self._chunks, b"")):
            self._buffer += chunk
            self._check_time()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        self.seen += len(data)
        return data

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError


class _Unpacking:
    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._directories: dict[tuple[str, ...], int] = {(): 0o700}
        self._files: set[tuple[str, ...]] = set()
        self._links: dict[tuple[str, ...], str] = {}
        self._skipped: list[str] = []

    def skip(self, parts: tuple[str, ...], reason: str) -> None:
        name = os.fsencode("/".join(parts)[-_LONGEST_SHOWN:]).decode(errors="replace")
        self._skipped.append(f"{name} ({reason})")

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write an entry, or leave it out if it is unsafe or the host cannot have it."""
        parts = _parts(member.name)
        try:
            self._take(tar, member, parts)
        except OSError as error:
            if error.errno not in _ODD:
                raise
            self.skip(parts, str(error.strerror))

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        if not parts:
            return
        if member.name.startswith("/") or ".." in parts:
            self.skip(parts, "name that leads outside")
        elif parts[:-1] not in self._directories:
            return  # below an entry that was left out
        elif _is_too_deep("/".join(parts)):
            self.skip(parts, "nested too deeply")
        elif member.isdir():
            self._path(parts).mkdir()
            self._directories[parts] = member.mode
        elif member.issym() and len(member.linkname) > _MAX_LINK:
            self.skip(parts, os.strerror(errno.ENAMETOOLONG))
        elif member.issym():
            self._links[parts] = member.linkname
        elif member.islnk():
            self._take_hard_link(parts, _parts(member.linkname))
        elif member.isreg():
            self._take_file(tar, member, parts)
        else:
            self.skip(parts, _KINDS.get(member.type, "unknown kind"))

    def _take_file(
        self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...]
    ) -> None:
        if member.size > FILE_CAP:
            self.skip(parts, f"over {FILE_CAP} bytes")
            return
        source = tar.extractfile(member)
        assert source is not None
        path = self._path(parts)
        try:
            with path.open("xb") as target:
                copy_with_holes(source, target)
                os.fchmod(target.fileno(), member.mode & 0o777 | stat.S_IRUSR)
        except TimeoutError:
            path.unlink()  # half of it
            raise
        with suppress(OverflowError, OSError):  # times that this system does not support
            os.utime(path, (member.mtime, member.mtime))
        self._files.add(parts)

    def _take_hard_link(self, parts: tuple[str, ...], other: tuple[str, ...]) -> None:
        if other in self._files:
            copy_file(str(self._path(other)), str(self._path(parts)))
            self._files.add(parts)
        else:
            self.skip(parts, "link to an entry that was left out")

    def finish(self) -> list[str]:
        """Make the links, last so that no file is written through one; return the skipped."""
        for parts, linkname in self._links.items():
            try:
                self._path(parts).symlink_to(linkname)
            except OSError as error:
                if error.errno not in _ODD:
                    raise
                self.skip(parts, str(error.strerror))
        for parts, mode in reversed(self._directories.items()):
            self._path(parts).chmod(mode & 0o777 | stat.S_IRWXU)
        return sorted([*self._skipped, *tidy(self._root)])

    def _path(self, parts: tuple[str, ...]) -> Path:
        return self._root.joinpath(*parts)


def _is_too_deep(relative: str) -> bool:
    return relative.count("/") >= _MAX_DEPTH or len(os.fsencode(relative)) > _MAX_PATH


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part for part in name.split("/") if part not in ("", "."))


_HARMLESS = ~(stat.S_ISUID | stat.S_ISGID)


def tidy(directory: Path) -> list[str]:
    """Remove all but files, directories and links within ``directory``; return their names.

    Files over the caps are removed, too. The owner can read all remaining ones, and none runs with
    the rights of its owner.
    """
    skipped: list[str] = []
    if directory.is_symlink() or not directory.is_dir():
        skipped.append(NOT_A_DIRECTORY)
    try:
        with open_directory(directory, ()) as descriptor:
            _Tidying(Path(os.path.realpath(directory)), skipped).run(descriptor, "")
    except TimeoutError:
        raise TransferError(f"{directory}: takes over {COLLECT_SEC:.0f} s to collect") from None
    except OSError as error:
        raise TransferError(f"{directory}: cannot be collected; {error.strerror}") from None
    return [os.fsencode(what).decode(errors="replace") for what in skipped]


class _Tidying:
    def __init__(self, root: Path, skipped: list[str]) -> None:
        self._root = root
        self._skipped = skipped
        self._bytes_left = TOTAL_CAP
        self._deadline = time.monotonic() + COLLECT_SEC

    def run(self, parent: int, way: str) -> None:
        for name in sorted(os.listdir(parent)):
            if time.monotonic() > self._deadline:
                raise TimeoutError
            with suppress(FileNotFoundError):  # running processes may remove files
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                mode = status.st_mode
                if reason := self._reason_to_skip(status, f"{way}{name}"):
                    remove_entries(parent, [name])
                    self._skipped.append(f"{way}{name} ({reason})")
                elif stat.S_ISDIR(mode):
                    inner = enter(parent, name)
                    try:
                        self.run(inner, f"{way}{name}/")
                    finally:
                        os.close(inner)
                elif stat.S_ISREG(mode) and (mode & _HARMLESS) | stat.S_IRUSR != mode:
                    change_mode(parent, name, stat.S_IMODE(mode & _HARMLESS) | stat.S_IRUSR)

    def _reason_to_skip(self, status: os.stat_result, relative: str) -> str | None:
        mode = status.st_mode
        if _is_too_deep(relative):
            return "nested too deeply"
        if stat.S_ISLNK(mode):
            if (self._root / relative).readlink().is_absolute():
                return "absolute link"
            inside = Path(os.path.realpath(self._root / relative)).is_relative_to(self._root)
            return None if inside else "link that leads outside"
        if stat.S_ISDIR(mode):
            return None
        if stat.S_ISREG(mode):
            return self._reason_of_size(status.st_size)
        kinds = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        return kinds.get(stat.S_IFMT(mode), "device")

    def _reason_of_size(self, size: int) -> str | None:
        if size > FILE_CAP:
            return f"over {FILE_CAP} bytes"
        if size > self._bytes_left:
            return f"over {TOTAL_CAP} bytes with the others"
        self._bytes_left -= size
        return None
