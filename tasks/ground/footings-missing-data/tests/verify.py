"""Expected answer: utilisations from data that were picked by hand, and what is missing."""

import csv
import math
from pathlib import Path

from aec_verify import Choice, Field, Number, Unusable, Verdict, read_answer, verify

OUTPUT = "/workspace/output.jsonl"
# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
DATA = (
    "width",
    "length",
    "depth",
    "load",
    "unit_weight",
    "cohesion",
    "friction_angle",
    "water_level",
)
MISSING = {
    "f03": "water_level",  # not read
    "f05": "cohesion",  # disturbed samples alone
    "f08": "friction_angle",  # blow counts alone
    "f10": "water_level",  # the hole ends above D + B
    "f11": "load",
    "f13": "unit_weight",  # water content, but no dry unit weight
    "f14": "width",
    "f16": "water_level",  # the hole ends above D + B
}
# Footing: depth in m, cohesion in kPa, unit weight in kN/m³.
ON_CLAY = {
    "f01": (1.2, 62, 19.2),
    "f04": (1.0, 0.85 * 70, 18.8),
    "f07": (0.0, 85, 0.0),
    "f12": (1.2, 62, 19.2),
}
# Footing: depth in m, friction angle in degrees, unit weights in kN/m³ above and below the base.
ON_SAND = {
    "f02": (1.0, 33, 18.5, 18.5),
    "f06": (1.1, 34, 16.1 * 1.12, 16.1 * 1.12 - 10),
    "f09": (1.0, 32, 18.7, 18.7),
    "f15": (1.5, 33, 18.5, 18.5),
}

with (INPUTS / "footings.csv").open(encoding="utf-8", newline="") as stream:
    footings = {row["footing"]: row for row in csv.DictReader(stream)}


def pressure(name: str, b: float, length: float) -> float:
    """Return the pressure that the ground resists, in kPa."""
    if name in ON_CLAY:
        depth, cohesion, weight = ON_CLAY[name]
        return 5.14 * cohesion * (1 + 0.2 * b / length) + weight * depth
    depth, degrees, above, below = ON_SAND[name]
    phi = math.radians(degrees)
    n_q = math.exp(math.pi * math.tan(phi)) * math.tan(math.pi / 4 + phi / 2) ** 2
    n_gamma = 2 * (n_q - 1) * math.tan(phi)
    surcharge = above * depth * n_q * (1 + b / length * math.sin(phi))
    return surcharge + 0.5 * below * b * n_gamma * (1 - 0.3 * b / length)


def utilisation(name: str) -> float:
    row = footings[name]
    b = float(row["width_m"])
    length = float(row["length_m"] or b)
    return float(row["load_kn"]) / (pressure(name, b, length) * b * length / 1.4)


def names_datum(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() in DATA


class Named(Choice):
    """A missing datum; each one named for a footing that can be checked cancels a right one."""

    def __init__(self, datum: str, share: float, weight: float) -> None:
        super().__init__(datum, DATA, weight=weight)
        self.share = share

    def judge(self, value: object) -> Verdict:
        """Compare."""
        verdict = super().judge(value)
        if verdict.score == 1 and self.share < 1:
            return Verdict(self.share, "others are named wrongly")
        return verdict


try:
    answer = read_answer(OUTPUT)
except Unusable:
    answer = {}
right = sum(
    names_datum(answer.get(name)) and str(answer[name]).strip().lower() == datum
    for name, datum in MISSING.items()
)
wrong = sum(names_datum(answer.get(name)) for name in footings if name not in MISSING)
share = max(0.0, (right - wrong) / right) if right else 0.0


def field(name: str, weight: float) -> Field:
    if name in MISSING:
        return Named(MISSING[name], share, weight)
    return Number(utilisation(name), rel=0.005, weight=weight)


verify({name: field(name, 1 / len(footings)) for name in footings}, output=OUTPUT)
