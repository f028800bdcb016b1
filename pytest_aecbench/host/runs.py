"""The runs in progress on this machine: where each keeps its records, and what it has cost.

If a run is killed, its lease tells other runs where its unfinished records are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.owner import Owner

__all__ = ["Lease", "Spent", "add_cost", "begin", "dead", "end", "spent"]


_UNKNOWN = "unknown"


class Lease(NamedTuple):
    """A run and its ledger."""

    run_id: str
    ledger_root: Path


class Spent(NamedTuple):
    """The known costs of a run's attempts, and how many attempts have an unknown cost."""

    usd: float
    unknown: int


def begin(run_id: str, ledger_root: Path) -> None:
    """Write the lease of a run that this process controls."""
    labels = {**Owner.current().labels(), "ledger_root": str(ledger_root.absolute())}
    path = _file(run_id)
    try:
        path.write_text(json.dumps(labels), encoding="utf-8")
    except OSError as error:
        raise BackendError(f"{path}: cannot be written, {error.strerror}; set TMPDIR") from None


def end(run_id: str) -> None:
    """Remove the files of a run that has ended."""
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
            continue  # being written, or removed meanwhile
        if owner is not None and owner.is_dead():
            found.append(lease)
    return found


def add_cost(run_id: str, usd: float | None) -> None:
    """Add the cost of one attempt of the run; None is unknown."""
    # A short append is atomic.
    with _file(run_id, "costs").open("a", encoding="utf-8") as file:
        file.write(f"{_UNKNOWN if usd is None else usd}\n")


def spent(run_id: str) -> Spent:
    """Return the cost of all attempts of the run."""
    try:
        lines = _file(run_id, "costs").read_text(encoding="utf-8").split()
    except FileNotFoundError:
        lines = []
    known = [float(line) for line in lines if line != _UNKNOWN]
    return Spent(sum(known), len(lines) - len(known))


def _file(run_id: str, suffix: str = "json") -> Path:
    return shared_directory("runs") / f"{run_id}.{suffix}"
