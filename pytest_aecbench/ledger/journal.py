"""Attempts under way, noted on disk so that one whose process dies is not forgotten."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.files import read_regular, whole
from pytest_aecbench.host.heartbeat import beat, silence
from pytest_aecbench.host.owner import Owner
from pytest_aecbench.ledger.record import Cost, TrialRecord
from pytest_aecbench.ledger.store import Ledger, remove_half_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Attempt", "attempts", "begin", "end", "enter", "is_quiet", "recover", "spend"]

# Starts with a dot, so that no reader of the ledger takes it for a record. It holds lines: who
# runs the attempt, the record to keep should that process die, each phase that was entered, and as
# JSON the cost after each call to a model.
_SUFFIX = ".running"
_FIRST_PHASE = "build"
_MAX_NOTE_BYTES = 1 << 26
_HALF_WRITTEN = ".tmp"
# A file without an owner that is as old as this was left by a process that died as it wrote it.
_TORN_SEC = 3600.0


class Attempt(NamedTuple):
    """An attempt under way, as others see it; ``owner`` is the process that makes it."""

    task_id: str
    agent: str
    repetition: int
    started_at: datetime
    phase: str
    trial_id: str
    run_id: str
    owner: Owner


def begin(ledger_root: Path, record: TrialRecord) -> None:
    """Note an attempt, with the record to keep of it should its process die."""
    note = _note(ledger_root, record.experiment_id, record.trial_id)
    owner = json.dumps(Owner.current().labels())
    lines = (owner.encode(), record.model_dump_json().encode(), f"{_FIRST_PHASE}\n".encode())
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        with whole(note, durable=False) as file:
            file.write(b"\n".join(lines))
    except OSError as error:
        raise LedgerError(f"{note}: cannot be written, {error.strerror}") from None
    beat(note)


def enter(ledger_root: Path, experiment_id: str, trial_id: str, phase: str) -> None:
    """Note the phase that an attempt has come to."""
    _add(_note(ledger_root, experiment_id, trial_id), phase)


def spend(ledger_root: Path, experiment_id: str, trial_id: str, cost: Cost) -> None:
    """Note what an attempt has cost so far."""
    _add(_note(ledger_root, experiment_id, trial_id), cost.model_dump_json())


def _add(note: Path, line: str) -> None:
    # An attempt must not fail because its note cannot be written, or is not there.
    with suppress(OSError):
        file = os.open(note, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)


def end(ledger_root: Path, experiment_id: str, trial_id: str) -> None:
    """Forget an attempt that is over and whose record is kept by now."""
    _remove(_note(ledger_root, experiment_id, trial_id))


def attempts(ledger_root: Path, experiment_id: str, run_id: str | None = None) -> list[Attempt]:
    """Return the attempts that an experiment, or one run of it, has under way, the oldest first.

    The owner of an attempt may be dead, if no later run has turned its note into a record.
    """
    found = []
    with suppress(OSError):
        for entry in os.scandir(ledger_root / experiment_id):
            if not entry.name.endswith(_SUFFIX):
                continue
            # Being written, or gone by now, or not a note at all.
            with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
                labels, data, *lines = read_regular(entry.path, _MAX_NOTE_BYTES).splitlines()
                owner = Owner.from_labels(json.loads(labels))
                if owner is not None:
                    found.append(_attempt(json.loads(data), _phase(lines), owner))
    asked = (attempt for attempt in found if run_id is None or attempt.run_id == run_id)
    return sorted(asked, key=lambda attempt: (attempt.started_at, attempt.trial_id))


def _attempt(record: dict[str, Any], phase: str, owner: Owner) -> Attempt:
    return Attempt(
        task_id=record["task"]["task_id"],
        agent=record["agent"]["name"],
        repetition=record["repetition"],
        started_at=datetime.fromisoformat(record["timing"]["started_at"].replace("Z", "+00:00")),
        phase=phase,
        trial_id=record["trial_id"],
        run_id=record["run_id"],
        owner=owner,
    )


def recover(
    ledger_root: Path,
    *,
    interrupted_run: str = "",
    dry_run: bool = False,
    prepare: Callable[[TrialRecord], TrialRecord] = lambda record: record,
) -> list[TrialRecord]:
    """Keep the records of attempts whose process is dead, and return them.

    The processes of the ``interrupted_run`` were told to end. ``prepare`` returns the record to
    keep; a ``dry_run`` changes nothing. A note that was never whole is removed, because its attempt
    had not begun.
    """
    recovered = []
    for note in _hidden_files(ledger_root):
        if note.suffix == _HALF_WRITTEN:
            if not dry_run and silence(note) > _TORN_SEC:
                _remove(note)
            continue
        try:
            labels, *rest = read_regular(note, _MAX_NOTE_BYTES).splitlines() or [b""]
        except OSError:
            continue  # gone by now, or not ours
        owner = _owner(labels)
        if not (owner.is_dead(heartbeat=note) if owner else silence(note) > _TORN_SEC):
            continue
        record = _left_by(rest, interrupted_run)
        if record is None:
            if not dry_run and not _is_whole(rest):
                _remove(note)
            continue
        if not dry_run:
            with suppress(OSError):
                remove_half_written(note.with_name(f"{record.trial_id}.json"))
            record = prepare(record)
            is_new = _is_kept(ledger_root, record)
            # If the record could not be kept, the note of it is all there is.
            if note.with_name(f"{record.trial_id}.json").exists():
                _remove(note)
            if not is_new:
                continue
        recovered.append(record)
    return recovered


def _is_kept(ledger_root: Path, record: TrialRecord) -> bool:
    """Keep the record, unless the attempt was recorded before its process died."""
    try:
        Ledger(ledger_root).append(record)
    except LedgerError:
        return False
    return True


def is_quiet(ledger_root: Path, run_id: str) -> bool:
    """Return whether no attempt of the run is under way, nor was when its process died."""
    for note in _hidden_files(ledger_root):
        with suppress(LookupError, OSError, TypeError, ValueError):
            data = read_regular(note, _MAX_NOTE_BYTES).splitlines()[1]
            if json.loads(data)["run_id"] == run_id:
                return False
    return True


def _owner(labels: bytes) -> Owner | None:
    try:
        return Owner.from_labels(json.loads(labels))
    except (TypeError, ValueError):
        return None


def _left_by(rest: list[bytes], interrupted_run: str) -> TrialRecord | None:
    """Return the record of a dead attempt from the lines after its owner; None if it has none."""
    try:
        record = TrialRecord.from_json(rest[0])
    except (LedgerError, LookupError):
        return None
    is_interrupted = record.run_id == interrupted_run
    return _ended(record, _phase(rest[1:]), _cost(rest[1:]), interrupted=is_interrupted)


def _is_whole(rest: list[bytes]) -> bool:
    """Return whether there is a record, if only for another version of this package."""
    try:
        return isinstance(json.loads(rest[0]), dict)
    except (LookupError, ValueError):
        return False


def _note(ledger_root: Path, experiment_id: str, trial_id: str) -> Path:
    return ledger_root / experiment_id / f".{trial_id}{_SUFFIX}"


def _hidden_files(ledger_root: Path) -> Iterator[Path]:
    """Yield the notes and the half-written files of all experiments."""
    for experiment in Ledger(ledger_root).experiments():
        with suppress(OSError):  # removed meanwhile
            # Not glob, which takes its time over thousands of records.
            paths = (entry.path for entry in os.scandir(ledger_root / experiment))
            wanted = [path for path in paths if path.endswith((_SUFFIX, _HALF_WRITTEN))]
            yield from (path for path in map(Path, sorted(wanted)) if path.name.startswith("."))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _phase(lines: list[bytes]) -> str:
    """Return the last phase that was noted; the first, if none was noted whole."""
    phases = [line.decode(errors="replace") for line in lines if line and not line.startswith(b"{")]
    return phases[-1] if phases else _FIRST_PHASE


def _cost(lines: list[bytes]) -> Cost:
    """Return the last cost that was noted whole."""
    for line in reversed(lines):
        if line.startswith(b"{"):
            with suppress(ValueError):
                return Cost.model_validate_json(line)
    return Cost()


def _ended(record: TrialRecord, phase: str, cost: Cost, *, interrupted: bool) -> TrialRecord:
    data = record.model_dump(mode="json")
    data["cost"] = cost.model_dump(mode="json")
    data["evaluation"]["error"]["phase"] = phase
    if interrupted:
        data["evaluation"]["validity"] = "interrupted"
        data["evaluation"]["error"].update(
            cause="interrupted", type="KeyboardInterrupt", message="the run was stopped"
        )
    return TrialRecord.model_validate(data)
