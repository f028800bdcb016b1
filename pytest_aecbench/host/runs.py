"""Which runs are under way on this machine, and where each of them keeps its records.

A run that was killed can tell nobody; its lease tells where to look for what it left.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.owner import Owner

__all__ = ["Lease", "begin", "dead", "end"]


class Lease(NamedTuple):
    """A run and its ledger."""

    run_id: str
    ledger_root: Path


def begin(run_id: str, ledger_root: Path) -> None:
    """Take note of a run that this process controls."""
    labels = {**Owner.current().labels(), "ledger_root": str(ledger_root.absolute())}
    path = _file(run_id)
    try:
        path.write_text(json.dumps(labels), encoding="utf-8")
    except OSError as error:
        raise BackendError(f"{path}: cannot be written, {error.strerror}; set TMPDIR") from None


def end(run_id: str) -> None:
    """Forget a run, of which nothing is left to do."""
    for path in _file(run_id).parent.glob(f"{run_id}.*"):
        path.unlink(missing_ok=True)


def dead() -> list[Lease]:
    """Return the runs whose process is dead."""
    found = []
    for path in sorted(shared_directory("runs").glob("*.json")):
        try:
            labels = json.loads(path.read_text(encoding="utf-8"))
            owner = Owner.from_labels(labels)
            lease = Lease(path.stem, Path(labels["ledger_root"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # being written, or gone by now
        if owner is not None and owner.is_dead():
            found.append(lease)
    return found


def _file(run_id: str) -> Path:
    return shared_directory("runs") / f"{run_id}.json"
