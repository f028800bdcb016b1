"""Expected answer: ordinary and Bishop factors of safety of a sliced slip circle."""

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path

from aec_verify import Flag, Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
REQUIRED = 1.50


@dataclass(frozen=True)
class Slice:
    width: float
    weight: float
    angle: float  # rad
    pore_pressure: float
    cohesion: float
    tan_friction: float


def read_slices() -> list[Slice]:
    soils = json.loads((INPUTS / "soils.json").read_text(encoding="utf-8"))
    upper, lower = soils["upper"]["unit_weight_kn_m3"], soils["lower"]["unit_weight_kn_m3"]
    slices = []
    with (INPUTS / "slices.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            base = soils[row["base_soil"]]
            width = float(row["width_m"])
            column = upper * float(row["height_upper_m"]) + lower * float(row["height_lower_m"])
            slices.append(
                Slice(
                    width=width,
                    weight=width * column,
                    angle=math.radians(float(row["base_angle_deg"])),
                    pore_pressure=soils["water_unit_weight_kn_m3"]
                    * float(row["piezometric_height_m"]),
                    cohesion=base["cohesion_kpa"],
                    tan_friction=math.tan(math.radians(base["friction_angle_deg"])),
                )
            )
    return slices


slices = read_slices()
driving = sum(s.weight * math.sin(s.angle) for s in slices)


def ordinary() -> float:
    resisting = 0.0
    for s in slices:
        length = s.width / math.cos(s.angle)
        normal = s.weight * math.cos(s.angle) - s.pore_pressure * length
        resisting += s.cohesion * length + normal * s.tan_friction
    return resisting / driving


def bishop(pore_factor: float) -> float:
    """Return Bishop's factor with every pore pressure multiplied by ``pore_factor``."""
    factor = ordinary()
    while True:
        resisting = 0.0
        for s in slices:
            normal = s.weight - pore_factor * s.pore_pressure * s.width
            m_alpha = math.cos(s.angle) + math.sin(s.angle) * s.tan_friction / factor
            resisting += (s.cohesion * s.width + normal * s.tan_friction) / m_alpha
        previous, factor = factor, resisting / driving
        if abs(factor - previous) < 1e-9:
            return factor


wet, dry = bishop(1.0), bishop(0.0)

verify(
    {
        "driving_sum_kn_per_m": Number(driving, rel=0.005, weight=0.2),
        "fos_ordinary": Number(ordinary(), rel=0.01, weight=0.2),
        "fos_bishop": Number(wet, rel=0.01, weight=0.3),
        "fos_bishop_dry": Number(dry, rel=0.01, weight=0.2),
        "acceptable": Flag(wet >= REQUIRED, weight=0.1, needs="fos_bishop"),
    },
    output="/workspace/output.jsonl",
)
