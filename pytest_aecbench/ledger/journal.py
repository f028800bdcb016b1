"""Attempts under way, noted on disk so that one whose process dies is not forgotten."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.files import read_regular
from pytest_aecbench.host.owner import Owner
from pytest_aecbench.ledger.record import Cost, TrialRecord
from pytest_aecbench.ledger.store import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Attempt", "attempts", "begin", "end", "enter", "is_quiet", "recover", "spend"]

# Starts with a dot, so that no reader of the ledger takes it for a record. It holds lines: who
# runs the attempt, the record to keep should that process die, each phase that was entered, and as
# JSON the cost after each call to a model.
_SUFFIX = ".running"
_MAX_NOTE_BYTES = 1 << 26


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
    lines = (owner.encode(), record.model_dump_json().encode(), b"build\n")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_bytes(b"\n".join(lines))
    except OSError as error:
        end(ledger_root, record.experiment_id, record.trial_id)  # remove a half-written note
        raise LedgerError(f"{note}: cannot be written, {error.strerror}") from None


def enter(ledger_root: Path, experiment_id: str, trial_id: str, phase: str) -> None:
    """Note the phase that an attempt has come to."""
    _add(_note(ledger_root, experiment_id, trial_id), phase)


def spend(ledger_root: Path, experiment_id: str, trial_id: str, cost: Cost) -> None:
    """Note what an attempt has cost so far."""
    _add(_note(ledger_root, experiment_id, trial_id), cost.model_dump_json())


def _add(note: Path, line: str) -> None:
    # What is shown of it is not worth failing for, nor is an attempt that is not noted at all.
    with suppress(OSError):
        file = os.open(note, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)


def end(ledger_root: Path, experiment_id: str, trial_id: str) -> None:
    """Forget an attempt that is over and whose record is kept by now."""
    with suppress(OSError):
        _note(ledger_root, experiment_id, trial_id).unlink()


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
    ledger_root: Path, *, interrupted: bool = False, dry_run: bool = False
) -> list[TrialRecord]:
    """Keep the records of attempts whose process is dead, and return them.

    ``interrupted`` says that these processes were told to end; a ``dry_run`` keeps nothing.
    """
    recovered = []
    for note in _notes(ledger_root):
        try:
            labels, data, *lines = read_regular(note, _MAX_NOTE_BYTES).splitlines()
            owner = Owner.from_labels(json.loads(labels))
            record = TrialRecord.from_json(data)
            phase, cost = _phase(lines), _cost(lines)
        except (OSError, ValueError, LookupError, LedgerError):
            continue  # being written, or gone by now
        if owner is None or not owner.is_dead():
            continue
        record = _ended(record, phase, cost, interrupted=interrupted)
        if dry_run:
            recovered.append(record)
            continue
        try:
            Ledger(ledger_root).append(record)
            recovered.append(record)
        except LedgerError:
            if not note.with_name(f"{record.trial_id}.json").exists():
                continue  # it could not be kept, so the note of it is all there is
        end(ledger_root, record.experiment_id, record.trial_id)
    return recovered


def is_quiet(ledger_root: Path) -> bool:
    """Return whether no attempt is under way, nor was when its process died."""
    return not any(_notes(ledger_root))


def _note(ledger_root: Path, experiment_id: str, trial_id: str) -> Path:
    return ledger_root / experiment_id / f".{trial_id}{_SUFFIX}"


def _notes(ledger_root: Path) -> Iterator[Path]:
    ledger = Ledger(ledger_root)
    for experiment in ledger.experiments():
        yield from sorted((ledger_root / experiment).glob(f".*{_SUFFIX}"))


def _phase(lines: list[bytes]) -> str:
    return [line for line in lines if not line.startswith(b"{")][-1].decode()


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
