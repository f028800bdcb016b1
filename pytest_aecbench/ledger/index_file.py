"""The file of an index: found in the user's cache, made anew when broken, never needed.

Where the file cannot be used, the index is kept in memory and is as good, but forgotten.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import sqlite3
import stat
from typing import TYPE_CHECKING

from pytest_aecbench import __version__
from pytest_aecbench.host.files import user_directory

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["IndexFile", "index_path"]

# Raise it when the tables, or what they hold of a record, change.
_LAYOUT = 4
_APPLICATION_ID = 0x0AECBE9C
_BUSY_SEC = 5.0
_TABLES = """
CREATE TABLE identity (generation TEXT NOT NULL);
CREATE TABLE experiments (name TEXT PRIMARY KEY, mtime_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE parts (id INTEGER PRIMARY KEY, data TEXT NOT NULL UNIQUE);
CREATE TABLE records (
    experiment TEXT NOT NULL,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0,
    problem TEXT,
    own TEXT,
    details TEXT,
    task INTEGER,
    agent INTEGER,
    shared INTEGER,
    task_id TEXT,
    agent_name TEXT,
    outcome TEXT,
    started REAL,
    finished REAL,
    spent REAL,
    PRIMARY KEY (experiment, name)
) WITHOUT ROWID;
CREATE TABLE more (
    experiment TEXT NOT NULL, name TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (experiment, name)
) WITHOUT ROWID;
CREATE INDEX by_seq ON records (seq);
CREATE INDEX by_work ON records (task_id, agent_name, experiment) WHERE spent IS NOT NULL;
"""


def index_path(ledger_root: Path) -> Path | None:
    """Return where the index of a ledger is or would be; None without a place for it.

    Versions of this package have files of their own. So do machines, because those that share a
    home directory do not share the memory that readers and writers of one file need.
    """
    directory = user_directory("XDG_CACHE_HOME", ".cache")
    if directory is None:
        return None
    whose = f"{os.path.realpath(ledger_root)}\0{socket.gethostname()}"
    digest = hashlib.sha256(os.fsencode(whose)).hexdigest()[:24]
    return directory / "ledgers" / f"{digest}-{__version__}-{_LAYOUT}.sqlite"


class IndexFile:
    """A connection to the index of a ledger, which can be replaced when it fails."""

    def __init__(self, ledger_root: Path) -> None:
        self._path = index_path(ledger_root)
        self._lock: int | None = None
        self._may_renew = True
        try:
            self.connection = self._open()
        except (OSError, sqlite3.Error) as error:
            self.connection = self._opened_otherwise(error)

    @property
    def is_kept(self) -> bool:
        """True if the index outlives this process."""
        return self._lock is not None

    def replace(self, error: sqlite3.Error) -> None:
        """Go on with a new file in place of a broken one, or in memory."""
        if not self.is_kept:
            raise error  # memory does not break
        self.connection.close()
        self.connection = self._opened_otherwise(error)

    def close(self) -> None:
        """Close the connection and let others replace the file."""
        self.connection.close()
        self._unlock()

    def _opened_otherwise(self, error: Exception) -> sqlite3.Connection:
        # A file that is locked, on a full disk or not to be written is not broken.
        is_broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        )
        if is_broken and self._may_renew:
            self._may_renew = False
            with contextlib.suppress(OSError, sqlite3.Error):
                self._remove()
                return self._open()
        self._unlock()
        return _made(sqlite3.connect(":memory:", isolation_level=None))

    def _open(self) -> sqlite3.Connection:
        path = self._path
        if path is None:
            raise FileNotFoundError
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._share()
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise FileExistsError
        connection = sqlite3.connect(path, timeout=_BUSY_SEC, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            return _made(connection)
        except BaseException:
            connection.close()
            raise

    def _share(self) -> None:
        """Keep others from removing the file; while one does, it cannot be used."""
        if self._lock is None:
            assert self._path is not None
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            self._lock = os.open(self._path.with_suffix(".lock"), flags, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _remove(self) -> None:
        """Remove the file, unless another process uses it: it would go on with half of two."""
        assert self._path is not None
        assert self._lock is not None
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for ending in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _made(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables if there are none; raise DatabaseError for those of another program."""
    if _is_made(connection):
        return connection
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_made(connection):  # by another process meanwhile
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO identity VALUES (?)", (os.urandom(8).hex(),))
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    return connection


def _is_made(connection: sqlite3.Connection) -> bool:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application_id != _APPLICATION_ID:
        raise sqlite3.DatabaseError("not an index")
    return bool(tables)
