"""Attempts under way, noted on disk so that one whose process dies is not forgotten."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.ledger import Ledger
from pytest_aecbench.ownership import Owner
from pytest_aecbench.record import TrialRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["begin", "end", "is_quiet", "recover"]

# Starts with a dot, so that no reader of the ledger takes it for a record.
_SUFFIX = ".running"


def begin(ledger_root: Path, record: TrialRecord) -> None:
    """Note an attempt, with the record to keep of it should its process die."""
    note = _note(ledger_root, record.experiment_id, record.trial_id)
    lines = (json.dumps(Owner.current().labels()).encode(), record.to_json())
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_bytes(b"\n".join(lines))
    except OSError as error:
        raise LedgerError(f"{note}: cannot be written, {error.strerror}") from None


def end(ledger_root: Path, experiment_id: str, trial_id: str) -> None:
    """Forget an attempt, whose record is kept by now."""
    with suppress(OSError):
        _note(ledger_root, experiment_id, trial_id).unlink()


def recover(
    ledger_root: Path, *, interrupted: bool = False, dry_run: bool = False
) -> list[TrialRecord]:
    """Keep the records of attempts whose process is dead, and return them.

    ``interrupted`` says that these processes were told to end; a ``dry_run`` keeps nothing.
    """
    recovered = []
    for note in _notes(ledger_root):
        try:
            labels, _, data = note.read_bytes().partition(b"\n")
            owner = Owner.from_labels(json.loads(labels))
            record = TrialRecord.from_json(data)
        except (OSError, ValueError, LedgerError):
            continue  # being written, or gone by now
        if owner is None or not owner.is_dead():
            continue
        if interrupted:
            record = _as_interrupted(record)
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
    """Tell whether no attempt is under way, nor was when its process died."""
    return not any(_notes(ledger_root))


def _note(ledger_root: Path, experiment_id: str, trial_id: str) -> Path:
    return ledger_root / experiment_id / f".{trial_id}{_SUFFIX}"


def _notes(ledger_root: Path) -> Iterator[Path]:
    ledger = Ledger(ledger_root)
    for experiment in ledger.experiments():
        yield from sorted((ledger_root / experiment).glob(f".*{_SUFFIX}"))


def _as_interrupted(record: TrialRecord) -> TrialRecord:
    data = record.model_dump(mode="json")
    data["evaluation"]["validity"] = "interrupted"
    data["evaluation"]["error"].update(
        cause="interrupted", type="KeyboardInterrupt", message="the run was stopped"
    )
    return TrialRecord.model_validate(data)
