"""Expected answer: one-dimensional consolidation of an overconsolidated clay layer."""

import math

from aec_verify import Flag, Number, verify

WATER = 9.81  # kN/m3
FILL_PRESSURE = 3.2 * 20.0  # kPa
E0, C_C, C_R, OCR = 1.05, 0.34, 0.06, 1.25
C_V, TIME = 1.8, 3.0  # m2/year, years
DRAINAGE_PATH = 6.0 / 2  # m, drained top and bottom
LIMIT = 50.0  # mm


def initial_stress(depth: float) -> float:
    """Return the effective vertical stress in the clay, kPa."""
    total = 1.5 * 18.0 + 1.5 * 19.8 + (depth - 3.0) * 17.2
    return total - WATER * (depth - 1.5)


def strain(depth: float) -> float:
    """Return the vertical strain where the fill takes the clay past its preconsolidation stress."""
    before = initial_stress(depth)
    preconsolidation = OCR * before
    after = before + FILL_PRESSURE
    assert after > preconsolidation
    recompression = C_R * math.log10(preconsolidation / before)
    return (recompression + C_C * math.log10(after / preconsolidation)) / (1 + E0)


settlement = 1000 * sum(2.0 * strain(depth) for depth in (4.0, 6.0, 8.0))


def time_factor(degree: float) -> float:
    if degree <= 60:
        return math.pi / 4 * (degree / 100) ** 2
    return 1.781 - 0.933 * math.log10(100 - degree)


def degree_of_consolidation(factor: float) -> float:
    """Invert time_factor in closed form, branch by branch."""
    if factor <= time_factor(60):
        return 100 * math.sqrt(4 * factor / math.pi)
    return 100 - 10 ** ((1.781 - factor) / 0.933)


degree = degree_of_consolidation(C_V * TIME / DRAINAGE_PATH**2)
remaining = (1 - degree / 100) * settlement
t90 = time_factor(90) * DRAINAGE_PATH**2 / C_V

verify(
    {
        "stress_mid_clay_kpa": Number(initial_stress(6.0), rel=0.005, weight=0.15),
        "settlement_mm": Number(settlement, rel=0.01, weight=0.3),
        "degree_percent": Number(degree, rel=0.002, weight=0.2),
        "t90_years": Number(t90, rel=0.005, weight=0.1),
        "remaining_mm": Number(remaining, rel=0.015, weight=0.15),
        "acceptable": Flag(remaining <= LIMIT, weight=0.1, needs="remaining_mm"),
    },
    output="/workspace/output.jsonl",
)
