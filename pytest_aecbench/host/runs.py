"""The runs in progress on this machine: where each keeps its records, and what it has cost.

If a run is killed, its lease tells other runs where its unfinished records are.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.files import read_regular, shared_directory, whole
from pytest_aecbench.host.heartbeat import beat, silence
from pytest_aecbench.host.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Lease",
    "Leases",
    "Spent",
    "add_cost",
    "begin",
    "end",
    "find_leases",
    "is_alive",
    "spent",
]


_UNKNOWN = "unknown"
_LEASE = ".json"
_MAX_LEASE_BYTES = 1 << 20
# A lease that cannot be read tells nothing; its run writes it whole, so it was left by a crash.
_TORN_SEC = 3600.0


class Lease(NamedTuple):
    """A run and its ledger.

    ``settings`` are those of the run in plain types, and ``secrets`` the names of the secrets that
    it knew; they are needed to remove secrets from the files of trials that died.
    """

    run_id: str
    ledger_root: Path
    settings: Mapping[str, Any] = {}
    secrets: Sequence[str] = ()


class Leases(NamedTuple):
    """The leases of runs whose process is dead, and of those that cannot be proved dead."""

    dead: list[Lease]
    out_of_sight: list[Lease]


class Spent(NamedTuple):
    """The known costs of a run's attempts, and how many attempts have an unknown cost."""

    usd: float
    unknown: int


def begin(lease: Lease) -> None:
    """Write the lease of a run that this process controls."""
    content = {
        **Owner.current().labels(),
        "ledger_root": str(lease.ledger_root.absolute()),
        "settings": lease.settings,
        "secrets": lease.secrets,
    }
    path = _file(lease.run_id)
    try:
        with whole(path, durable=False) as file:
            file.write(json.dumps(content, default=str).encode())
    except OSError as error:
        raise BackendError(f"{path}: cannot be written, {error.strerror}; set TMPDIR") from None
    beat(path)


def end(run_id: str) -> None:
    """Remove the files of a run that has ended."""
    for path in _file(run_id).parent.glob(f"{run_id}.*"):
        path.unlink(missing_ok=True)


def find_leases() -> Leases:
    """Return the runs whose process is dead or out of sight; forget leases that are torn."""
    found = Leases([], [])
    for path in sorted(shared_directory("runs").glob(f"*{_LEASE}")):
        try:
            labels = json.loads(read_regular(path, _MAX_LEASE_BYTES))
            owner = Owner.from_labels(labels)
            more = (labels.get("settings", {}), labels.get("secrets", ()))
            lease = Lease(path.stem, Path(labels["ledger_root"]), *more)
        except (AttributeError, KeyError, OSError, TypeError, ValueError):
            owner = None
        if owner is None:
            if silence(path) > _TORN_SEC:
                end(path.stem)
        elif owner.is_dead(heartbeat=path):
            found.dead.append(lease)
        elif not owner.is_in_sight():
            found.out_of_sight.append(lease)
    return found


def is_alive(run_id: str) -> bool | None:
    """Return whether the process of a run is known to live or to be dead; None if it has ended."""
    try:
        labels = json.loads(read_regular(_file(run_id), _MAX_LEASE_BYTES))
        owner = Owner.from_labels(labels)
    except (AttributeError, BackendError, OSError, TypeError, ValueError):
        return None
    return None if owner is None or not owner.is_in_sight() else not owner.is_dead()


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
    known = []
    for line in lines:
        with suppress(ValueError):  # unknown, or torn by a full disk
            known.append(float(line))
    return Spent(sum(known), len(lines) - len(known))


def _file(run_id: str, suffix: str = "json") -> Path:
    return shared_directory("runs") / f"{run_id}.{suffix}"
