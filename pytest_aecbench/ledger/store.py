"""The append-only store of records: one file per attempt, whole or not there."""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.errors import LedgerError, SettingsError
from pytest_aecbench.host.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.ledger.record import TrialRecord

__all__ = [
    "CHECKS",
    "EXPERIMENT_ID",
    "MAX_RECORD_BYTES",
    "Ledger",
    "LedgerProblem",
    "Loaded",
    "check_experiment_id",
    "no_garbage_collection",
    "place_new",
    "read_record",
    "remove_half_written",
]

MAX_RECORD_BYTES = 64 << 20
# Where the findings of checks are, beside the experiments, none of which can be called this.
CHECKS = "_checks"
EXPERIMENT_ID = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


def check_experiment_id(value: str, where: str) -> str:
    """Return ``value`` if it can name an experiment, which is a directory of the ledger."""
    if not re.fullmatch(EXPERIMENT_ID, value):
        raise SettingsError(
            f"{where}: {value!r} cannot name an experiment; use 1 to 128 of the characters "
            "A-Z a-z 0-9 . _ - and start with a letter or digit"
        )
    return value


@dataclass(frozen=True, slots=True)
class LedgerProblem:
    """A file of the ledger that holds no record, and why."""

    path: Path
    reason: str
    is_lasting: bool = True  # False if it may go away although the file stays as it is

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The records of the ledger, and the files that hold none."""

    records: list[TrialRecord]
    problems: list[LedgerProblem]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Records below ``root``, as ``<experiment id>/<trial id>.json``."""

    root: Path

    def append(self, record: TrialRecord) -> Path:
        """Keep ``record`` and return its file; a record that is there is never replaced."""
        path = self.root / record.experiment_id / f"{record.trial_id}.json"
        place_new(path, record.to_json())
        return path

    def keep_experiment(self, experiment_id: str, data: bytes) -> Path:
        """Keep what an experiment is beside its records; where it changed, beside what it was."""
        directory = self.root / experiment_id
        path = directory / "experiment.yaml"
        with _one_line(directory, "written"):
            for number in itertools.count(2):
                if not path.exists():
                    # Another run may be faster, and wants the same or something else.
                    with _temporary(path, data) as temporary, contextlib.suppress(FileExistsError):
                        _place(temporary, path)
                    _sync_directory(directory)
                if _without_comments(path.read_bytes()) == _without_comments(data):
                    break
                path = directory / f"experiment-{number}.yaml"
        return path

    def check_writable(self, experiment_id: str | None = None) -> None:
        """Raise LedgerError unless a record could be written now."""
        directory = self.root / experiment_id if experiment_id else self.root
        with _one_line(directory, "written"), _temporary(directory / "probe", bytes(4096)):
            pass

    def experiments(self) -> list[str]:
        """Return the names of the experiments that have a directory, sorted."""
        with _one_line(self.root, "read"), contextlib.suppress(FileNotFoundError):
            return sorted(
                entry.name
                for entry in os.scandir(self.root)
                if re.fullmatch(EXPERIMENT_ID, entry.name) and entry.is_dir()
            )
        return []

    def has_trials(self, experiment_id: str) -> bool:
        """Return whether an experiment has records, or notes of trials that died."""
        directory = self.root / experiment_id
        with _one_line(directory, "read"), contextlib.suppress(FileNotFoundError):
            return any(path.suffix in (".json", ".running") for path in directory.iterdir())
        return False

    def load(self, experiment_id: str | None = None) -> Loaded:
        """Read one experiment, or all; an experiment that is not there has no records."""
        loaded = Loaded([], [])
        with no_garbage_collection():
            for found in self._read(experiment_id):
                if isinstance(found, LedgerProblem):
                    loaded.problems.append(found)
                else:
                    loaded.records.append(found)
        return loaded

    def records(self, experiment_id: str | None = None) -> Iterator[TrialRecord]:
        """Read as ``load`` does, one by one, passing over files that hold no record."""
        for found in self._read(experiment_id):
            if not isinstance(found, LedgerProblem):
                yield found

    def _read(self, experiment_id: str | None) -> Iterator[TrialRecord | LedgerProblem]:
        if experiment_id is None:
            experiments = self.experiments()
        else:
            experiments = [check_experiment_id(experiment_id, "experiment")]
        for experiment in experiments:
            for name in sorted(entry.name for entry in self.files(experiment)):
                yield read_record(self.root / experiment, name)

    def files(self, experiment_id: str) -> Iterator[os.DirEntry[str]]:
        """Yield the files of an experiment that should hold records, in no order."""
        directory = self.root / experiment_id
        with (
            _one_line(directory, "read"),
            contextlib.suppress(FileNotFoundError),
            os.scandir(directory) as entries,
        ):
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    yield entry


def read_record(directory: Path, name: str) -> TrialRecord | LedgerProblem:
    """Read one file of an experiment's directory."""
    from pytest_aecbench.ledger.record import TrialRecord

    try:
        record = TrialRecord.from_json(read_regular(f"{directory}/{name}", MAX_RECORD_BYTES))
    except LedgerError as error:
        return LedgerProblem(directory / name, str(error))
    except OSError as error:
        reason = f"cannot be read, {error.strerror}"
        return LedgerProblem(directory / name, reason, is_lasting=False)
    # A copy under another name would count its trial twice.
    if (record.experiment_id, f"{record.trial_id}.json") == (directory.name, name):
        return record
    return LedgerProblem(directory / name, f"holds {record.experiment_id}/{record.trial_id}.json")


def _without_comments(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if not line.startswith(b"#")]


def place_new(path: Path, data: bytes) -> None:
    """Put a whole file there or none, never in place of another; LedgerError says why not."""
    with _one_line(path, "written"):
        with _temporary(path, data) as temporary:
            _place(temporary, path)
        _sync_directory(path.parent)


def remove_half_written(path: Path) -> None:
    """Remove what a process that died has left of a file that it was going to place."""
    for temporary in path.parent.glob(f".{path.stem}.*.tmp"):
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Spare the collector its passes over records that all stay: they more than double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _one_line(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except NotADirectoryError as error:
        raise LedgerError(
            f"{error.filename}: is not a directory; the ledger needs one there"
        ) from None
    except FileExistsError:
        raise LedgerError(f"{path}: exists already; records are never replaced") from None
    except OSError as error:
        raise LedgerError(
            f"{path}: cannot be {verb}, {error.strerror}; the ledger needs a directory "
            "that can be read and written and has space left"
        ) from None


@contextlib.contextmanager
def _temporary(target: Path, data: bytes) -> Iterator[Path]:
    """Keep ``data`` safely on disk under a name that no reader looks at."""
    _make_directory(target.parent)
    path = target.with_name(f".{target.stem}.{os.urandom(8).hex()}.tmp")
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _make_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_directory(directory.parent)
    try:
        directory.mkdir()
    except FileExistsError:
        if not directory.is_dir():
            raise NotADirectoryError(
                errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)
            ) from None
    _sync_directory(directory.parent)


def _place(temporary: Path, path: Path) -> None:
    """Give a whole file its name, unless the name is taken."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # A rename would replace, so a claim keeps other writers of this record out meanwhile.
        claim = path.with_name(f".{path.stem}.claim")
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            raise LedgerError(
                f"{claim}: another process is writing this record; remove the file if none is"
            ) from None
        try:
            if path.exists():
                raise FileExistsError from None
            temporary.rename(path)
        finally:
            claim.unlink()


def _sync_directory(directory: Path) -> None:
    """Make new names in ``directory`` outlive a power cut, where its filesystem can."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
