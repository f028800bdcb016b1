"""Expected answer: crest vertical curve from stopping sight distance."""

import math

from aec_verify import Number, verify

SPEED, REACTION, DECELERATION = 80.0, 2.0, 0.36  # km/h, s, -
G1, G2 = 3.2, -2.4  # %
EYE, OBJECT = 1.10, 0.20  # m
IP_CHAINAGE, IP_LEVEL = 1250.0, 86.4  # m

sight = SPEED * REACTION / 3.6 + SPEED**2 / (254 * DECELERATION)
difference = abs(G2 - G1)
heights = 200 * (math.sqrt(EYE) + math.sqrt(OBJECT)) ** 2
length = difference * sight**2 / heights
if length < sight:
    length = 2 * sight - heights / difference
adopted = 10 * math.ceil(length / 10)

# y(x) = y0 + g1 x + (g2 - g1) x^2 / (2 L) from the start of the curve; y' = 0 at the high point.
start_chainage = IP_CHAINAGE - adopted / 2
start_level = IP_LEVEL - G1 / 100 * adopted / 2
x = G1 * adopted / difference
level = start_level + G1 / 100 * x + (G2 - G1) / 100 * x**2 / (2 * adopted)

verify(
    {
        "stopping_sight_distance_m": Number(sight, rel=0.005, weight=0.2),
        "min_length_m": Number(length, rel=0.015, weight=0.25),
        "adopted_length_m": Number(adopted, weight=0.15, needs="min_length_m"),
        "high_point_chainage_m": Number(start_chainage + x, abs=0.05, weight=0.2),
        "high_point_level_m": Number(level, abs=0.005, weight=0.2),
    },
    output="/workspace/output.jsonl",
)
