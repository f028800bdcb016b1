"""What the trials of a run have cost so far, for all its processes to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.host.files import shared_directory

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.settings import Settings

__all__ = ["Spent", "add", "is_spent", "spent"]

_UNKNOWN = "unknown"


class Spent(NamedTuple):
    """What is known of the costs, and of how many attempts nothing is."""

    usd: float
    unknown: int


def add(settings: Settings, usd: float | None) -> None:
    """Count an attempt, where anybody wants to know."""
    if settings.max_cost_usd is not None:
        # Appending so little at once is never torn apart by another process.
        with _file(settings).open("a", encoding="utf-8") as file:
            file.write(f"{_UNKNOWN if usd is None else usd}\n")


def spent(settings: Settings) -> Spent:
    """Return what all attempts of this run have cost."""
    try:
        lines = _file(settings).read_text(encoding="utf-8").split()
    except FileNotFoundError:
        lines = []
    known = [float(line) for line in lines if line != _UNKNOWN]
    return Spent(sum(known), len(lines) - len(known))


def is_spent(settings: Settings) -> bool:
    """Tell whether the run may start no further trial."""
    limit = settings.max_cost_usd
    return limit is not None and spent(settings).usd >= limit


def _file(settings: Settings) -> Path:
    return shared_directory("runs") / f"{settings.run_id}.costs"
