"""Expected answer: uniform flow, hydraulic jump and tailwater in a rectangular channel."""

import math

from aec_verify import Flag, Number, verify

DISCHARGE, WIDTH = 24.0, 5.0  # m3/s, m
CHUTE_SLOPE, CHUTE_N = 0.060, 0.014
CHANNEL_SLOPE, CHANNEL_N = 0.0015, 0.022
G, DENSITY = 9.81, 1000.0


def manning(depth: float, slope: float, n: float) -> float:
    """Return the uniform discharge at a depth."""
    area = WIDTH * depth
    return area * (area / (WIDTH + 2 * depth)) ** (2 / 3) * math.sqrt(slope) / n


def normal_depth(slope: float, n: float) -> float:
    """Find the depth that carries the discharge by bisection; discharge grows with depth."""
    low, high = 0.0, 20.0
    for _ in range(100):
        middle = (low + high) / 2
        if manning(middle, slope, n) < DISCHARGE:
            low = middle
        else:
            high = middle
    return high


y1 = normal_depth(CHUTE_SLOPE, CHUTE_N)
froude = DISCHARGE / (WIDTH * y1) / math.sqrt(G * y1)
y2 = y1 / 2 * (math.sqrt(1 + 8 * froude**2) - 1)
loss = (y2 - y1) ** 3 / (4 * y1 * y2)
power = DENSITY * G * DISCHARGE * loss / 1000
tailwater = normal_depth(CHANNEL_SLOPE, CHANNEL_N)

verify(
    {
        "depth_1_m": Number(y1, rel=0.002, weight=0.2),
        "froude_1": Number(froude, rel=0.004, weight=0.15),
        "depth_2_m": Number(y2, rel=0.005, weight=0.15),
        "energy_loss_m": Number(loss, rel=0.015, weight=0.1),
        "power_kw": Number(power, rel=0.015, weight=0.1),
        "tailwater_depth_m": Number(tailwater, rel=0.005, weight=0.2),
        "swept_out": Flag(tailwater < y2, weight=0.1, needs=("depth_2_m", "tailwater_depth_m")),
    },
    output="/workspace/output.jsonl",
)
