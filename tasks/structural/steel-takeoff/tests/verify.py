"""Expected answer: mass, painted surface and paint of a frame, in SI units throughout."""

import csv
import re
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

from aec_verify import Entries, Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
FOOT, INCH, POUND, GALLON = 0.3048, 0.0254, 0.45359237, 3.785411784e-3
DENSITY = 7850.0  # kg/m3
FEET_AND_INCHES = re.compile(r"(\d+)'-(\d+)(?: (\d+/\d+))?\"")


def read(name: str) -> list[dict[str, str]]:
    with (INPUTS / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def metres(length: str, unit: str) -> float:
    if unit == "ft-in":
        feet, inches, part = FEET_AND_INCHES.fullmatch(length).groups()
        return int(feet) * FOOT + (int(inches) + float(Fraction(part or 0))) * INCH
    return float(length) * {"mm": 0.001, "m": 1.0, "ft": FOOT}[unit]


# Mass in kg and surface in m2, each for a metre.
sections = {}
for row in read("sections-works.csv"):
    mass = float(row["mass_kg_per_m"] or float(row["area_cm2"]) * 1e-4 * DENSITY)
    sections[row["designation"]] = mass, float(row["surface_m2_per_m"])
for row in read("sections-imported.csv"):
    mass = float(row["weight_lb_per_ft"]) * POUND / FOOT
    sections[row["designation"]] = mass, float(row["surface_ft2_per_100ft"]) / 100 * FOOT
for name in [name for name in sections if name.startswith("L-")]:
    sections[f"2{name}"] = 2 * sections[name][0], 2 * sections[name][1]

total = heaviest = 0.0
surface = defaultdict(float)
for member in read("members.csv"):
    mass, around = sections[member["section"]]
    length, pieces = metres(member["length"], member["unit"]), int(member["pieces"])
    heaviest = max(heaviest, mass * length)
    total += pieces * mass * length
    surface[member["coating"]] += pieces * around * length

cost = 0.0
paint = dict.fromkeys(("P1", "P2"), 0.0)
for coat in read("coatings.csv"):
    film = float(coat["dry_film"]) * {"um": 1e-6, "mil": INCH / 1000}[coat["dry_film_unit"]]
    solids, loss = (float(coat[key]) / 100 for key in ("volume_solids_percent", "loss_percent"))
    volume = surface[coat["system"]] * film / (solids * (1 - loss))
    paint[coat["system"]] += 1000 * volume
    cost += volume / {"L": 1e-3, "gal": GALLON}[coat["per"]] * float(coat["price"])

verify(
    {
        "total_mass_t": Number(total / 1000, rel=0.002, weight=0.2),
        "heaviest_piece_kg": Number(heaviest, rel=0.002, weight=0.1),
        "painted_surface_m2": Entries(
            {system: Number(surface[system], rel=0.002) for system in paint},
            extra=-0.5,
            weight=0.25,
        ),
        "paint_l": Entries(
            {system: Number(litres, rel=0.005) for system, litres in paint.items()},
            extra=-0.5,
            weight=0.25,
        ),
        "paint_cost": Number(cost, rel=0.005, weight=0.2),
    },
    output="/workspace/output.jsonl",
)
