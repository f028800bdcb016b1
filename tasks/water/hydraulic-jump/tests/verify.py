"""Expected answer: uniform flow, hydraulic jump and tailwater in a rectangular channel."""

import math

from fieldcheck import Field, grade

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

grade(
    "/workspace/output.jsonl",
    [
        Field("depth_1_m", y1, weight=0.2, relative=0.005),
        Field("froude_1", froude, weight=0.15, relative=0.01),
        Field("depth_2_m", y2, weight=0.15, relative=0.005),
        Field("energy_loss_m", loss, weight=0.1, relative=0.01),
        Field("power_kw", power, weight=0.1, relative=0.01),
        Field("tailwater_depth_m", tailwater, weight=0.2, relative=0.005),
        Field("swept_out", tailwater < y2, weight=0.1, needs=("depth_2_m", "tailwater_depth_m")),
    ],
)
