"""Expected answer: occupants, exits and exit widths of a storey, one exit being blocked."""

import csv
import json
import math
from pathlib import Path

from aec_verify import Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
occupancy = json.loads((INPUTS / "occupancy.json").read_text(encoding="utf-8"))
with (INPUTS / "rooms.csv").open(encoding="utf-8", newline="") as stream:
    rooms = list(csv.DictReader(stream))

persons = sum(
    math.ceil(float(room["area_m2"]) / occupancy["m2_per_person"][room["use"]])
    for room in rooms
    if room["use"] not in occupancy["no_own_occupants"]
)
limits = ((1, 50), (2, 300), (3, 600), (4, math.inf))
exits = next(count for count, most in limits if persons <= most)
remaining = exits - 1


def width_each(mm_per_person: float, least: int) -> int:
    """Return the width of each remaining exit, in steps of 10 mm."""
    needed = persons * mm_per_person / remaining
    return max(10 * math.ceil(needed / 10), least)


door, stair = width_each(5.0, 850), width_each(7.6, 1100)
flow_time = persons / (1.3 * (door / 1000 - 0.30) * remaining)

verify(
    {
        "total_occupants": Number(persons, weight=0.3),
        "exits_required": Number(exits, weight=0.1, needs="total_occupants"),
        "door_width_mm": Number(door, weight=0.2),
        "stair_width_mm": Number(stair, weight=0.2),
        "flow_time_s": Number(flow_time, rel=0.005, weight=0.2),
    },
    output="/workspace/output.jsonl",
)
