"""Claims: which runs work on an experiment, and which of them runs which trial.

Every process of a run holds a shared lock on the experiment's directory, and an exclusive lock on a
file for each trial that it runs. The kernel frees them when the process dies. The file names the
record once the trial has a reward, for runs that come to the trial later.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.ledger.store import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Claim", "Claims", "clear_dead_claims"]

# Starts with a dot, so that no reader of the ledger takes it for a record.
_FILES = ".claims"
# The workers of a run that was killed end within this time.
_PATIENCE_SEC = 3.0
_POLL_SEC = 0.05
_NO_LOCKS = {
    errno.EBADF,  # NFS, for a directory
    errno.EINVAL,
    errno.ENOLCK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
}


class Claims:
    """The claims of one process on an experiment and on its trials."""

    def __init__(self, directory: Path, run_id: str) -> None:
        self._directory = directory
        self._run_id = run_id
        self._held: int | None = None
        self._is_refused = False
        self.has_locks = True  # False if the filesystem has none, so that nothing can be claimed

    def enter(self, *, alone: bool, patience_sec: float = _PATIENCE_SEC) -> bool:
        """Claim the experiment; return False if ``alone`` is wanted and other runs work on it."""
        give_up = time.monotonic() + patience_sec
        try:
            while not self._is_refused and not self._enter(alone):
                if time.monotonic() >= give_up:
                    self._is_refused = True  # it is asked again for each worker
                else:
                    time.sleep(_POLL_SEC)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                reason = f"cannot be written, {error.strerror}"
                raise LedgerError(f"{self._directory}: {reason}") from None
            self.has_locks = False
        return not self._is_refused

    def _enter(self, alone: bool) -> bool:
        if self._held is not None:
            return True
        self._directory.mkdir(parents=True, exist_ok=True)
        # No other process enters or leaves meanwhile, because the kernel changes one kind of lock
        # into the other in two steps.
        with (
            _locked(self._directory.parent, fcntl.LOCK_EX),
            _closed_on_error(os.open(self._directory, os.O_RDONLY)) as held,
        ):
            if alone:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(held)
                    return False
                self._clear()
            fcntl.flock(held, fcntl.LOCK_SH)
            self._held = held
        return True

    def leave(self) -> None:
        """Give up the claim on the experiment; the last run to do so removes the trials' files."""
        if self._held is None:
            return
        with suppress(OSError), _locked(self._directory.parent, fcntl.LOCK_EX):
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._clear()
        os.close(self._held)
        self._held = None

    def claim(self, *name: str) -> Claim | None:
        """Claim a trial; return None if another process runs it."""
        self.enter(alone=False)
        path = self._directory / _FILES / sha256("\0".join(name).encode()).hexdigest()
        try:
            path.parent.mkdir(exist_ok=True)
            # For reading, because a file that is open for writing keeps its disk busy.
            file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)
        except OSError as error:
            raise LedgerError(f"{path}: cannot be written, {error.strerror}") from None
        with _closed_on_error(file):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise LedgerError(f"{path}: cannot be locked, {error.strerror}") from None
            return Claim(path, file, self._run_id)

    def _clear(self) -> None:
        shutil.rmtree(self._directory / _FILES, ignore_errors=True)


class Claim:
    """A trial that no other process runs until the claim is released."""

    def __init__(self, path: Path, file: int, run_id: str) -> None:
        self._path = path
        self._file = file
        self._run_id = run_id

    def earned_elsewhere(self) -> str | None:
        """Return the id of the record with a reward that another run has made meanwhile."""
        run_id, _, trial_id = os.pread(self._file, 1024, 0).decode().partition(" ")
        return trial_id if trial_id and run_id != self._run_id else None

    def release(self, earned: str | None) -> None:
        """Let other runs have the trial; ``earned`` is the id of the record with its reward."""
        try:
            if earned is not None:
                # A full disk costs only that another run may do it again.
                with suppress(OSError):
                    self._path.write_text(f"{self._run_id} {earned}", encoding="utf-8")
        finally:
            os.close(self._file)


def clear_dead_claims(ledger_root: Path) -> None:
    """Remove the files of experiments that no run works on any more."""
    for experiment in Ledger(ledger_root).experiments():
        directory = ledger_root / experiment
        if (directory / _FILES).exists():
            claims = Claims(directory, "")
            with suppress(LedgerError):  # not this run's experiment
                claims.enter(alone=True, patience_sec=0)
            claims.leave()


@contextmanager
def _locked(directory: Path, kind: int) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _closed_on_error(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise
