"""Expected answer: cable sizes, with the factors that were picked by hand from the tables."""

import csv
import math
from pathlib import Path

from aec_verify import Field, Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
FOUR_CORES, ON_WALL, IN_DUCT = 0.87, 0.95, 0.92


def between(low: float, high: float, share: float) -> float:
    """Return the value at a share of the way from one row of a table to the next."""
    return (1 - share) * low + share * high


at_38, at_44, at_33 = (
    between(0.953, 0.905, 3 / 5),
    between(0.905, 0.853, 4 / 5),
    between(1.0, 0.953, 3 / 5),
)
# Circuit: the column of ratings, the current in A that counts, the factors that apply to any size.
CIRCUITS = {
    "c1": ("tray_a (a)", 125, (at_38, 0.83)),  # both lighting cables are not counted
    "c2": ("tray_a (a)", 63, (at_38, 0.83, FOUR_CORES)),
    "c3": ("conduit_a (a)", 36, (between(1.0, 0.953, 1 / 5),)),  # no protection against overload
    "c4": (
        "buried_a (a)",
        160,
        (between(1.0, 0.961, 3 / 5), 0.88, between(0.89, 0.79, 1 / 2)),
    ),
    "c5": ("buried_a (a)", 160, (IN_DUCT, (1 + between(0.79, 0.67, 2 / 5)) / 2)),
    "c6": ("buried_a (a)", 250, (between(1.038, 1.0, 3 / 5), 0.79)),  # too near to be spaced
    "c7": ("tray_a (a)", 100, (at_44,)),
    "c8": ("conduit_a (a)", 40, (at_33, 0.58, FOUR_CORES)),  # 5 cables: the row for 6
}
# Circuit: the factors for small and for large sizes, and the largest small one in mm².
BY_SIZE = {
    "c4": (between(1.0, 0.97, 1 / 3), between(1.0, 0.95, 1 / 3), 120),
    "c5": (0.97, 0.95, 120),
    "c6": (between(0.97, 0.93, 2 / 5), between(0.95, 0.90, 2 / 5), 120),
    "c7": (1.0, ON_WALL, 16),
}

with (INPUTS / "ratings.csv").open(encoding="utf-8", newline="") as stream:
    ratings = list(csv.DictReader(stream))

fields: dict[str, Field] = {}
for circuit, (column, current, factors) in CIRCUITS.items():
    small, large, limit = BY_SIZE.get(circuit, (1.0, 1.0, 0))
    sufficient = {}
    for row in ratings:
        size = int(row["size_mm2"])
        factor = math.prod(factors) * (small if size <= limit else large)
        if float(row[column]) >= current / factor:
            sufficient[size] = factor
    size = min(sufficient)
    fields[f"{circuit}_factor"] = Number(sufficient[size], rel=0.002, weight=0.06)
    fields[f"{circuit}_size_mm2"] = Number(size, weight=0.065, needs=f"{circuit}_factor")

verify(fields, output="/workspace/output.jsonl")
