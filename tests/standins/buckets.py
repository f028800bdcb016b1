"""Cloud Storage for tests: the emulator from PyPI, with its buckets as directories of this machine.

What a process writes below such a directory is an object as soon as its file is closed, as on a
bucket that gcsfuse has mounted, so that tasks of a Batch job can be given buckets as volumes.
"""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

from gcp_storage_emulator.exceptions import Conflict
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.server import HANDLERS, create_server
from gcp_storage_emulator.settings import STORAGE_DIR
from inotify_simple import Event, INotify, flags

__all__ = ["Buckets"]

_WATCHED = flags.CREATE | flags.CLOSE_WRITE | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE
_FLUSH = ".flush-"


def _insert(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
    """Create a bucket with the fields that it was given, which the emulator's own leaves out."""
    buckets.insert(request, response, storage, *args, **kwargs)
    if made := storage.get_bucket(request.data.get("name")):
        buckets._patch_bucket(made, request.data)


for _, _methods in HANDLERS:
    if _methods.get("POST") is buckets.insert:
        _methods["POST"] = _insert


class Buckets:
    """Serves Cloud Storage at ``url`` until it is closed."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="aecbench-buckets-"))
        self._root = self._home / str(STORAGE_DIR)
        self._server = create_server("127.0.0.1", 0, data_dir=str(self._home))
        self._storage: Any = self._server._storage
        self._storage._write_config_to_file = lambda: None  # all of it, with every object
        self._lock = threading.RLock()
        self._refused: list[str] = []
        self._known: dict[Path, tuple[int, int, int]] = {}  # files whose objects are up to date
        for name in ("create_file", "delete_file", "get_file_list"):
            setattr(self._storage, name, self._locked(getattr(self._storage, name)))
        self._notify = INotify()
        self._watched: dict[int, Path] = {}
        self._flushes = itertools.count()
        self._flushed = threading.Condition()
        self._seen = -1  # the latest flush that the thread came to
        self._watch(self._root)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        self._server.start()
        host, port = self._server._api._httpd.server_address
        self.url = f"http://{host}:{port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that lead the client here."""
        return {"STORAGE_EMULATOR_HOST": self.url, "NO_GCE_CHECK": "true"}

    def directory(self, bucket: str, prefix: str = "") -> Path:
        """Return the directory of a bucket, or of what begins with a prefix; KeyError if none."""
        if bucket not in self._storage.buckets:
            raise KeyError(bucket)
        path = self._root / bucket / prefix
        path.mkdir(parents=True, exist_ok=True)
        return path

    def create(self, bucket: str, **fields: Any) -> None:
        """Create a bucket with fields of its resource, which the emulator leaves out."""
        made = buckets.create_bucket(bucket, self._storage)
        made.update(fields)

    def resource(self, bucket: str) -> dict[str, Any]:
        """Return what describes a bucket."""
        return dict(self._storage.buckets[bucket])

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the names of objects."""
        self.flush()
        found, _ = self._storage.get_file_list(bucket, prefix)
        return [entry["name"] for entry in found]

    def all(self) -> list[list[str]]:
        """Return the names of the objects of each bucket."""
        return [self.names(bucket) for bucket in list(self._storage.buckets)]

    def read(self, bucket: str, name: str) -> bytes:
        """Return an object's content."""
        return bytes(self._storage.get_file(bucket, name))

    def remove(self, bucket: str, name: str) -> None:
        """Remove an object, as its owner may."""
        self._storage.delete_file(bucket, name)

    def refuse_writes(self, *patterns: str) -> list[str]:
        """Fail when an object whose name matches one of these is written; return the list."""
        self._refused[:] = patterns
        return self._refused

    def flush(self) -> None:
        """Wait until all files that were closed are objects."""
        number = next(self._flushes)
        (self._root / f"{_FLUSH}{number}").touch()
        with self._flushed:
            assert self._flushed.wait_for(lambda: self._seen >= number, 60)

    def close(self) -> None:
        api = self._server._api
        self._server.stop()
        threading.Thread.join(api, 30)  # its own waits for nothing
        (self._root / f"{_FLUSH}end").touch()
        self._thread.join(30)
        self._notify.close()
        shutil.rmtree(self._home, ignore_errors=True)

    # What happens in the directories

    def _follow(self) -> None:
        while True:
            for event in self._notify.read():
                if event.name == f"{_FLUSH}end":
                    return
                with self._lock:
                    self._note(event)

    def _note(self, event: Event) -> None:
        if event.mask & flags.Q_OVERFLOW:
            self._scan(self._root)
            return
        if event.mask & flags.IGNORED:
            self._watched.pop(event.wd, None)
            return
        path = self._watched.get(event.wd, self._root) / event.name
        if event.name.startswith(_FLUSH):
            self._end_flush(path)
        elif event.mask & flags.ISDIR:
            if event.mask & (flags.CREATE | flags.MOVED_TO):
                self._watch(path)
            elif event.mask & flags.MOVED_FROM:
                for below in [known for known in self._known if known.is_relative_to(path)]:
                    self._forget(below)
        elif event.mask & (flags.CLOSE_WRITE | flags.MOVED_TO):
            self._register(path)
        elif event.mask & (flags.DELETE | flags.MOVED_FROM):
            self._forget(path)

    def _end_flush(self, path: Path) -> None:
        if not path.exists():
            return  # its own removal
        path.unlink()
        with self._flushed:
            self._seen = max(self._seen, int(path.name.removeprefix(_FLUSH)))
            self._flushed.notify_all()

    def _watch(self, directory: Path) -> None:
        """Watch a directory, and register what came into it before."""
        with suppress(FileNotFoundError, NotADirectoryError):
            self._watched[self._notify.add_watch(directory, _WATCHED)] = directory
            self._scan(directory)

    def _scan(self, directory: Path) -> None:
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                self._watch(path)
            else:
                self._register(path)

    def _register(self, path: Path) -> None:
        bucket, *parts = path.relative_to(self._root).parts
        if bucket not in self._storage.buckets or path.is_symlink() or not path.is_file():
            return
        if self._known.get(path) == (state := _state(path)):
            return  # it came through the interface
        name, content = "/".join(parts), path.read_bytes()
        entry = objects._make_object_resource(
            self.url, bucket, name, "application/octet-stream", str(len(content))
        )
        self._storage.objects.setdefault(bucket, {})[name] = objects._checksums(content, entry)
        self._known[path] = state

    def _forget(self, path: Path) -> None:
        bucket, *parts = path.relative_to(self._root).parts
        if path.exists() or not parts:
            return
        self._storage.objects.get(bucket, {}).pop("/".join(parts), None)
        self._known.pop(path, None)

    def _locked(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(bucket: str, *args: Any, **kwargs: Any) -> Any:
            with self._lock:
                if method.__name__ == "create_file" and any(
                    re.search(pattern, args[0]) for pattern in self._refused
                ):
                    raise Conflict("refused by the test")
                done = method(bucket, *args, **kwargs)
                if method.__name__ == "create_file":
                    path = self._root / bucket / args[0]
                    with suppress(OSError):
                        self._known[path] = _state(path)
                return done

        return call


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
