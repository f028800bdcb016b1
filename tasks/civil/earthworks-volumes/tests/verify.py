"""Expected answer: end-area volumes, balance and mass-haul peak of a road section."""

import csv
import json
import math
from pathlib import Path

from aec_verify import Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
material = json.loads((INPUTS / "material.json").read_text(encoding="utf-8"))
with (INPUTS / "sections.csv").open(encoding="utf-8", newline="") as stream:
    sections = [{key: float(text) for key, text in row.items()} for row in csv.DictReader(stream)]


def volume(first: float, second: float, distance: float) -> float:
    """Return the volume between two areas: average end area, or a pyramid where one vanishes."""
    if (first == 0) != (second == 0):
        return (first + second) * distance / 3
    return (first + second) * distance / 2


cut = fill = ordinate = 0.0
ordinates = [(0.0, sections[0]["chainage_m"])]
for here, there in zip(sections, sections[1:]):
    distance = there["chainage_m"] - here["chainage_m"]
    step_cut = volume(here["cut_area_m2"], there["cut_area_m2"], distance)
    step_fill = volume(here["fill_area_m2"], there["fill_area_m2"], distance)
    cut += step_cut
    fill += step_fill
    ordinate += step_cut - step_fill / material["compaction_factor"]
    ordinates.append((ordinate, there["chainage_m"]))
balance = cut - fill / material["compaction_factor"]
peak, peak_chainage = max(ordinates)
loose = abs(balance) * material["bulking_factor"]
loads = math.ceil(loose / material["truck_capacity_loose_m3"])

verify(
    {
        "cut_bank_m3": Number(cut, rel=0.0005, weight=0.2),
        "fill_compacted_m3": Number(fill, rel=0.0005, weight=0.2),
        "balance_bank_m3": Number(balance, abs=2, weight=0.2),
        "peak_ordinate_m3": Number(peak, abs=2, weight=0.2),
        "peak_chainage_m": Number(peak_chainage, weight=0.1, needs="peak_ordinate_m3"),
        "truck_loads": Number(loads, weight=0.1, needs="balance_bank_m3"),
    },
    output="/workspace/volumes.json",
)
