"""Expected answer: smallest standard duct within two limits, its fan and its rectangular twin."""

import math

from aec_verify import Number, verify

FLOW, DENSITY, VISCOSITY, ROUGHNESS = 1.10, 1.20, 18.1e-6, 0.09e-3
DIAMETERS = (250, 280, 315, 355, 400, 450, 500, 560, 630)  # mm
VELOCITY_LIMIT, FRICTION_LIMIT = 7.5, 1.0  # m/s, Pa/m
LENGTH, FITTINGS, EQUIPMENT_DROP, EFFICIENCY = 38.0, 3.2, 145.0, 0.58
HEIGHT, WIDTH_STEP = 300, 50  # mm


def colebrook(reynolds: float, relative_roughness: float) -> float:
    """Solve Colebrook-White for f by Newton's method on s = 1/sqrt(f)."""
    a, b = relative_roughness / 3.7, 2.51 / reynolds
    s = 7.0
    for _ in range(50):
        residual = s + 2 * math.log10(a + b * s)
        s -= residual / (1 + 2 * b / (math.log(10) * (a + b * s)))
    return 1 / s**2


def flow_in(diameter_mm: int) -> tuple[float, float, float]:
    """Return velocity (m/s), friction factor and friction rate (Pa/m) in a round duct."""
    diameter = diameter_mm / 1000
    velocity = FLOW / (math.pi * diameter**2 / 4)
    f = colebrook(DENSITY * velocity * diameter / VISCOSITY, ROUGHNESS / diameter)
    return velocity, f, f / diameter * DENSITY * velocity**2 / 2


def circular_equivalent(a: float, b: float) -> float:
    return 1.30 * (a * b) ** 0.625 / (a + b) ** 0.25


for diameter in DIAMETERS:
    velocity, f, rate = flow_in(diameter)
    if velocity <= VELOCITY_LIMIT and rate <= FRICTION_LIMIT:
        break
drop = rate * LENGTH + FITTINGS * DENSITY * velocity**2 / 2 + EQUIPMENT_DROP
power = FLOW * drop / EFFICIENCY
width = WIDTH_STEP
while circular_equivalent(width, HEIGHT) < diameter:
    width += WIDTH_STEP

verify(
    {
        "diameter_mm": Number(diameter, weight=0.2),
        "velocity_m_s": Number(velocity, rel=0.005, weight=0.1),
        "friction_factor": Number(f, rel=0.005, weight=0.15),
        "friction_rate_pa_m": Number(rate, rel=0.02, weight=0.15),
        "pressure_drop_pa": Number(drop, rel=0.01, weight=0.15),
        "fan_power_w": Number(power, rel=0.01, weight=0.1),
        "rectangular_width_mm": Number(width, weight=0.15, needs="diameter_mm"),
    },
    output="/workspace/output.jsonl",
)
